//! The catalogues of all rooms as rows of one shape, for `gpubench list`.

use gpubench_workloads::fault::Fault;
use serde_json::{Value, json};

use crate::axis::{self, AxisEntry};
use crate::catalogue;
use crate::judge::measured_faults::{self, MEASURED};
use crate::mechanism::{self, Mechanism};
use crate::plan;
use crate::profile::built_in;

/// One entry: the name, what it is, and everything else about it by key.
pub struct Row {
    /// The name that flags and profiles take.
    pub name: String,
    /// What it is, in one line.
    pub summary: String,
    /// The rest.
    pub details: Vec<(&'static str, Value)>,
}

/// Ways to share a GPU.
pub fn mechanisms() -> Vec<Row> {
    let row = |mechanism: &&dyn Mechanism| {
        let entry = mechanism.entry();
        let options = entry.options.iter().map(|option| {
            json!({
                "key": option.key,
                "summary": option.summary,
                "accepted": option.accepted,
            })
        });
        Row {
            name: entry.name.to_owned(),
            summary: entry.summary.to_owned(),
            details: vec![
                ("group", json!(entry.group)),
                ("reconfigures", json!(entry.reconfigures)),
                ("options", Value::Array(options.collect())),
            ],
        }
    };
    mechanism::CATALOGUE.iter().map(row).collect()
}

/// What a tenant can do.
pub fn workloads() -> Vec<Row> {
    let row = |workload: &&gpubench_workloads::load::Workload| Row {
        name: workload.name.to_owned(),
        summary: workload.summary.to_owned(),
        details: vec![
            ("role", json!(workload.role)),
            ("axis", json!(workload.sub_axis.axis().as_str())),
            ("sub_axis", json!(workload.sub_axis.as_str())),
            ("resource", json!(workload.resource)),
            ("unit", json!(workload.unit)),
            ("counter", json!(workload.counter())),
            ("lengths", json!(workload.lengths())),
            ("meets", json!(meets(workload.name).join(" "))),
            (
                "needs",
                json!(Some(workload.needs()).filter(|needs| !needs.is_empty())),
            ),
            // What a mechanism rules out it rules out for every workload; `needs` says the rest.
            ("mechanisms", json!(catalogue::names())),
        ],
    };
    gpubench_workloads::load::CATALOGUE
        .iter()
        .map(row)
        .collect()
}

/// A pair of victim and aggressor, under a key that tables print.
fn pair_of(pair: &axis::Pair) -> Value {
    let (victim, aggressor) = (pair.victim, pair.aggressor);
    json!({ "key": format!("{victim}:{aggressor}"), "victim": victim, "aggressor": aggressor })
}

/// The other side of every pair that a workload is in.
fn meets(name: &str) -> Vec<&'static str> {
    let pairs = axis::PAIRS.iter();
    let other = |pair: &axis::Pair| match (pair.victim, pair.aggressor) {
        (victim, aggressor) if victim == name => Some(aggressor),
        (victim, aggressor) if aggressor == name => Some(victim),
        _ => None,
    };
    pairs.filter_map(other).collect()
}

/// What a tenant can do to break itself or others.
pub fn faults() -> Vec<Row> {
    use gpubench_workloads::fault::{Answer, CATALOGUE, HostAct};
    let row = |fault: &Fault| {
        let (mut under, mut not_under) = (Vec::new(), Vec::new());
        for mechanism in mechanism::CATALOGUE {
            let properties = mechanism.entry().properties();
            let not_this =
                (!plan::meets(&properties, fault.needs)).then_some(plan::NOTHING_TO_BREAK);
            match plan::no_victim(&properties).or(not_this) {
                Some(why) => not_under.push(json!({ "key": mechanism.name(), "reason": why })),
                None => under.push(mechanism.name()),
            }
        }
        Row {
            name: fault.name.to_owned(),
            summary: fault.summary.to_owned(),
            details: vec![
                ("severity", json!(fault.severity.as_str())),
                ("class", json!(fault.class.as_str())),
                ("resource", json!(fault.resource)),
                ("unit", json!("trials contained")),
                ("victim", json!(fault.victim)),
                (
                    "codes",
                    match fault.answer {
                        Answer::Codes(codes) | Answer::Open(codes) => json!(codes),
                        Answer::Well | Answer::Ends => json!([]),
                    },
                ),
                (
                    "may_go_well",
                    json!(matches!(fault.answer, Answer::Open(_))),
                ),
                ("ends_its_process", json!(fault.answer == Answer::Ends)),
                ("xids", json!(fault.xids)),
                ("mechanisms", json!(under)),
                (NOT_UNDER, json!(not_under)),
                ("by_signal", json!(fault.act != HostAct::None)),
                ("planted_only", json!(fault.planted_only)),
                (MEASURED, json!(measured_faults::of(fault))),
            ],
        }
    };
    CATALOGUE.iter().map(row).collect()
}

/// Key of the mechanisms under which a fault is not held. Tables say it below, once for all.
pub const NOT_UNDER: &str = "not_under";

/// Mechanisms under which no fault is injected, with the reason.
pub fn without_faults() -> Vec<(&'static str, &'static str)> {
    let all = mechanism::CATALOGUE.iter();
    all.filter_map(|mechanism| {
        let why = plan::no_victim(&mechanism.entry().properties())?;
        Some((mechanism.name(), why))
    })
    .collect()
}

/// What belongs among the faults and is not held, with the reason.
pub fn faults_left_out() -> Vec<Row> {
    let rows = gpubench_workloads::fault::LEFT_OUT.iter();
    rows.map(|one| left_out(one.name, one.summary, one.reason))
        .collect()
}

/// What belongs among the probes and is not asked, with the reason.
pub fn probes_left_out() -> Vec<Row> {
    let rows = catalogue::probes::LEFT_OUT.iter();
    rows.map(|one| left_out(one.name, one.summary, one.reason))
        .collect()
}

/// Key of the reason for which something is not in a catalogue.
pub const LEFT_OUT: &str = "left_out";

fn left_out(name: &str, summary: &str, reason: &str) -> Row {
    Row {
        name: name.to_owned(),
        summary: summary.to_owned(),
        details: vec![(LEFT_OUT, json!(reason))],
    }
}

/// Scored dimensions.
pub fn axes() -> Vec<Row> {
    let sub = |entry: &AxisEntry| Row {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        details: vec![
            ("axis", json!(entry.sub_axis.axis().as_str())),
            ("sub_axis", json!(entry.sub_axis.as_str())),
            (
                "victim",
                json!(entry.pairs().next().map(|pair| pair.victim)),
            ),
            (
                "aggressor",
                json!(entry.pairs().next().map(|pair| pair.aggressor)),
            ),
            (
                "pairs",
                json!(entry.pairs().map(pair_of).collect::<Vec<_>>()),
            ),
        ],
    };
    let jitter = Row {
        name: "jitter".to_owned(),
        summary: axis::JITTER_SUMMARY.to_owned(),
        details: vec![("axis", json!("jitter")), ("unit", json!("native medians"))],
    };
    let probed = |entry: &AxisEntry| Row {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        details: vec![
            ("axis", json!(entry.sub_axis.axis().as_str())),
            ("sub_axis", json!(entry.sub_axis.as_str())),
            ("flag", json!("--probes")),
        ],
    };
    let cells = axis::CATALOGUE.iter().map(sub);
    let probes = axis::PROBED.iter().map(probed);
    cells.chain(probes).chain([jitter]).collect()
}

/// Questions to tenants whose answer is no rate.
pub fn probes() -> Vec<Row> {
    let row = |entry: &catalogue::probes::ProbeEntry| Row {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        details: vec![
            ("sub_axis", json!(entry.sub_axis)),
            ("scored", json!(entry.scored)),
            ("flag", json!(entry.flag)),
        ],
    };
    catalogue::probes::CATALOGUE.iter().map(row).collect()
}

/// Profiles inside the binary.
pub fn profiles() -> Vec<Row> {
    let row = |entry: &built_in::BuiltIn| Row {
        name: entry.name.to_owned(),
        summary: entry.summary(),
        details: Vec::new(),
    };
    built_in::CATALOGUE.iter().map(row).collect()
}

/// Ways to render a record.
pub fn formats() -> Vec<Row> {
    let row = |format: &&dyn gpubench_reports::Format| Row {
        name: format.name().to_owned(),
        summary: format.summary().to_owned(),
        details: vec![("extension", json!(format.extension()))],
    };
    gpubench_reports::CATALOGUE.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use gpubench_record::Role;
    use gpubench_workloads::load;
    use serde_json::json;

    use super::NOT_UNDER;
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
    fn every_fault_says_what_should_come_of_it_and_where() {
        let why = |name: &str| {
            let properties = mechanism::find(name)?.entry().properties();
            plan::no_victim(&properties)
        };
        let told = |name: &str, key: &str| {
            let row = super::faults().into_iter().find(|row| row.name == name);
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
            assert_eq!(told(name, key), Some(want), "{name} {key}");
        }
        let all = catalogue::names().len();
        for row in super::faults() {
            let count = |key| told(&row.name, key).and_then(|v| v.as_array().map(Vec::len));
            let told = count("mechanisms").zip(count(NOT_UNDER));
            assert_eq!(
                told.map(|(under, not)| under + not),
                Some(all),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn every_workload_is_in_a_pair() {
        for workload in load::CATALOGUE.iter() {
            assert!(!super::meets(workload.name).is_empty(), "{workload:?}");
        }
    }
}
