//! Every catalogue entry has what `list` prints of it.

use gpubench_record::Role;
use gpubench_workloads::load;
use serde_json::json;

use super::{NOT_UNDER, faults, meets};
use crate::{axis, catalogue, mechanism, plan};

#[test]
fn every_pair_names_workloads_that_exist_and_fit() -> Result<(), load::LoadError> {
    for pair in axis::PAIRS.iter() {
        let (victim, aggressor) = (load::find(pair.victim)?, load::find(pair.aggressor)?);
        assert_eq!(victim.role, Role::Victim, "{pair:?}");
        assert_eq!(aggressor.role, Role::Aggressor, "{pair:?}");
        assert_eq!(aggressor.sub_axis, pair.sub_axis, "{pair:?}");
    }
    Ok(())
}

#[test]
fn every_fault_lists_its_expected_answer_and_its_mechanisms() {
    let why = |name: &str| {
        let properties = mechanism::find(name)?.entry().properties();
        plan::no_victim(&properties)
    };
    let detail = |name: &str, key: &str| {
        let row = faults().into_iter().find(|row| row.name == name);
        let details = row.map_or_else(Vec::new, |row| row.details);
        let found = details.into_iter().find(|(known, _)| *known == key);
        found.map(|(_, value)| value)
    };
    for (name, key, want) in [
        ("trap", "severity", json!("fatal")),
        ("trap", "codes", json!([719, 715])),
        ("trap", "xids", json!([13])),
        ("trap", "resource", json!("exceptions of the SMs")),
        ("trap", "unit", json!("trials contained")),
        (
            "trap",
            "mechanisms",
            json!([
                "time-slicing",
                "mps",
                "mps-quota",
                "mps-static",
                "mps-memory",
                "mig",
                "mig-mps",
                "hami"
            ]),
        ),
        (
            "mps-server-kill",
            "mechanisms",
            json!(["mps", "mps-quota", "mps-static", "mps-memory", "mig-mps"]),
        ),
        ("hami-lock-holder-kill", "mechanisms", json!(["hami"])),
        (
            "trap",
            NOT_UNDER,
            json!([
                { "key": "exclusive", "reason": why("exclusive") },
                { "key": "exclusive-process", "reason": why("exclusive-process") },
                { "key": "green-context", "reason": why("green-context") },
                { "key": "stream-priority", "reason": why("stream-priority") },
            ]),
        ),
    ] {
        assert_eq!(detail(name, key), Some(want), "{name} {key}");
    }
    let all = catalogue::names().len();
    for row in faults() {
        let count = |key| detail(&row.name, key).and_then(|v| v.as_array().map(Vec::len));
        let counts = count("mechanisms").zip(count(NOT_UNDER));
        assert_eq!(counts.map(|(under, not)| under + not), Some(all), "{}", row.name);
    }
}

#[test]
fn every_workload_is_in_a_pair() {
    for workload in load::CATALOGUE.iter() {
        assert!(!meets(workload.name).is_empty(), "{workload:?}");
    }
}
