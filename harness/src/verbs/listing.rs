//! The catalogues of all rooms as rows of one shape, for `gpubench list`.

use std::collections::BTreeMap;

use gpubench_catalogue::axis;
use gpubench_catalogue::axis::AxisEntry;
use gpubench_catalogue::fault::{Class, Fault};
use gpubench_host::mechanism;
use gpubench_host::mechanism::Mechanism;
use gpubench_judge::gate;
use gpubench_plan::profile::load;
use gpubench_run::probe;
use gpubench_run::probe::Probe;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// The mechanisms, which share a GPU.
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
                ("since", json!(entry.about.since)),
                ("needs", json!(entry.about.needs)),
                ("changes", json!(entry.about.changes)),
                ("proof", json!(entry.about.proof)),
                ("deployed_by", json!(entry.about.deployed_by)),
                ("options", Value::Array(options.collect())),
            ],
        }
    };
    mechanism::CATALOGUE.iter().map(row).collect()
}

pub fn workloads() -> Vec<Row> {
    let row = |workload: &&gpubench_catalogue::workload::Workload| Row {
        name: workload.name.to_owned(),
        summary: workload.summary.to_owned(),
        details: vec![
            ("role", json!(workload.role)),
            ("axis", json!(workload.sub_axis.axis().as_str())),
            ("sub_axis", json!(workload.sub_axis.as_str())),
            ("resource", json!(workload.resource)),
            ("unit", json!(workload.unit)),
            ("counter", json!(workload.counter)),
            ("lengths", json!(workload.lengths())),
            ("meets", json!(meets(workload.name).join(" "))),
            ("needs", json!(Some(workload.needs).filter(|needs| !needs.is_empty()))),
            // No mechanism excludes single workloads; `needs` names the requirements of a workload.
            ("mechanisms", json!(gpubench_catalogue::mechanism::names())),
        ],
    };
    gpubench_catalogue::workload::CATALOGUE.iter().map(row).collect()
}

/// A pair of victim and aggressor, under a key that tables print.
fn pair_of(pair: &axis::Pair) -> Value {
    let (victim, aggressor) = (pair.victim, pair.aggressor);
    json!({ "key": format!("{victim}:{aggressor}"), "victim": victim, "aggressor": aggressor })
}

/// The partners of a workload in its pairs.
fn meets(name: &str) -> Vec<&'static str> {
    let pairs = axis::PAIRS.iter();
    let other = |pair: &axis::Pair| match (pair.victim, pair.aggressor) {
        (victim, aggressor) if victim == name => Some(aggressor),
        (victim, aggressor) if aggressor == name => Some(victim),
        _ => None,
    };
    pairs.filter_map(other).collect()
}

/// Key of the measured answers; tables print each of them on its own line.
pub const MEASURED: &str = "measured";
/// Key of the answers of virtual machines without a measurement, printed in the same way.
pub const ASSUMED: &str = "assumed";

/// Faults that a tenant can inject.
pub fn faults() -> Vec<Row> {
    use gpubench_catalogue::fault::{Answer, CATALOGUE, HostAct};
    let row = |fault: &&Fault| {
        let (mut under, mut not_under) = (Vec::new(), Vec::new());
        for mechanism in mechanism::CATALOGUE {
            let properties = mechanism.entry().properties();
            let not_this = (!gpubench_plan::has_needs(&properties, fault.needs))
                .then_some(gpubench_plan::NOTHING_TO_BREAK);
            match gpubench_plan::no_victim(&properties).or(not_this) {
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
                ("may_go_well", json!(matches!(fault.answer, Answer::Open(_)))),
                ("ends_its_process", json!(fault.answer == Answer::Ends)),
                ("xids", json!(fault.xids)),
                ("mechanisms", json!(under)),
                (NOT_UNDER, json!(not_under)),
                ("by_signal", json!(fault.act != HostAct::None)),
                ("planted_only", json!(fault.planted_only)),
                #[cfg(feature = "virtual-gpu")]
                (MEASURED, json!(super::fault_answers::measured_of(fault))),
                #[cfg(feature = "virtual-gpu")]
                (ASSUMED, json!(super::fault_answers::assumed_of(fault))),
            ],
        }
    };
    CATALOGUE.iter().map(row).collect()
}

/// Key of the mechanisms under which a fault has no trials. Tables print them once, below the rows.
pub const NOT_UNDER: &str = "not_under";

/// Mechanisms under which no fault is injected, with the reason.
pub fn without_faults() -> Vec<(&'static str, &'static str)> {
    let all = mechanism::CATALOGUE.iter();
    all.filter_map(|mechanism| {
        let why = gpubench_plan::no_victim(&mechanism.entry().properties())?;
        Some((mechanism.name(), why))
    })
    .collect()
}

/// Faults that the catalogue lacks on purpose, with the reason.
pub fn faults_left_out() -> Vec<Row> {
    let rows = gpubench_catalogue::fault::LEFT_OUT.iter();
    rows.map(|one| left_out(one.name, one.summary, one.reason)).collect()
}

/// Probes that the catalogue lacks on purpose, with the reason.
pub fn probes_left_out() -> Vec<Row> {
    let rows = probe::LEFT_OUT.iter();
    rows.map(|one| left_out(one.name, one.summary, one.reason)).collect()
}

/// Key of the reason for which a catalogue lacks an entry.
pub const LEFT_OUT: &str = "left_out";

fn left_out(name: &str, summary: &str, reason: &str) -> Row {
    Row {
        name: name.to_owned(),
        summary: summary.to_owned(),
        details: vec![(LEFT_OUT, json!(reason))],
    }
}

pub fn axes() -> Vec<Row> {
    let sub = |entry: &AxisEntry| Row {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        details: vec![
            ("axis", json!(entry.sub_axis.axis().as_str())),
            ("sub_axis", json!(entry.sub_axis.as_str())),
            ("victim", json!(entry.pairs().next().map(|pair| pair.victim))),
            ("aggressor", json!(entry.pairs().next().map(|pair| pair.aggressor))),
            ("pairs", json!(entry.pairs().map(pair_of).collect::<Vec<_>>())),
        ],
    };
    let jitter = Row {
        name: "jitter".to_owned(),
        summary: axis::JITTER_SUMMARY.to_owned(),
        details: vec![("axis", json!("jitter")), ("unit", json!("native medians"))],
    };
    let fault = |class: Class| Row {
        name: class.path().to_owned(),
        summary: axis::FAULT_SUMMARY.to_owned(),
        details: vec![
            ("axis", json!("fault")),
            ("sub_axis", json!(class.as_str())),
            ("unit", json!("trials contained")),
            ("faults", json!(names_of(class))),
            ("flag", json!("--faults")),
        ],
    };
    let probed = |entry: &AxisEntry| Row {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        details: vec![
            ("axis", json!(entry.sub_axis.axis().as_str())),
            ("sub_axis", json!(entry.sub_axis.as_str())),
            ("probe", json!(probe_of(entry))),
        ],
    };
    let cells = axis::CATALOGUE.iter().map(sub);
    let probes = axis::PROBED.iter().map(probed);
    let faults = axis::fault_classes().into_iter().map(fault);
    cells.chain(probes).chain(faults).chain([jitter]).collect()
}

fn names_of(class: Class) -> Vec<&'static str> {
    let faults = gpubench_catalogue::fault::CATALOGUE.iter();
    let own = faults.filter(|fault| fault.class == class);
    own.map(|fault| fault.name).collect()
}

/// The probe that makes the row of a sub-axis.
fn probe_of(entry: &AxisEntry) -> Option<&'static str> {
    let mut probes = probe::CATALOGUE.iter();
    let makes_row = |probe: &&Probe| probe.scored && probe.sub_axis == entry.name;
    probes.find(makes_row).map(|probe| probe.name)
}

/// Checks that do not produce a throughput.
pub fn probes() -> Vec<Row> {
    let row = |entry: &Probe| Row {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        details: vec![
            ("sub_axis", json!(entry.sub_axis)),
            ("scored", json!(entry.scored)),
            ("flag", json!(entry.flag.as_str())),
        ],
    };
    probe::CATALOGUE.iter().map(row).collect()
}

/// Gates, which decide whether the figures of a cell can be trusted.
pub fn gates() -> Vec<Row> {
    let row = |entry: &gate::GateEntry| Row {
        name: entry.gate.to_string(),
        summary: entry.summary.to_owned(),
        details: vec![("kind", json!(entry.kind)), ("spoils", json!(entry.scope))],
    };
    gate::CATALOGUE.iter().map(row).collect()
}

/// Profiles inside the binary.
pub fn profiles() -> Vec<Row> {
    gpubench_profiles::PROFILES.iter().map(of_text).collect()
}

/// A data file with its name.
fn of_text((name, text): &(&str, &str)) -> Row {
    Row { name: (*name).to_owned(), summary: load::summary(text), details: Vec::new() }
}

pub fn machines() -> Vec<Row> {
    gpubench_profiles::MACHINES.iter().map(of_text).collect()
}

/// The claims of the literature; a test reads the ledger.
pub fn claims() -> Vec<Row> {
    let claims = gpubench_plan::ledger().map(|ledger| ledger.claims).unwrap_or_default();
    let row = |claim: gpubench_record::claim::Claim| Row {
        summary: claim.statement,
        details: vec![
            ("axis", json!(claim.axis.as_str())),
            ("mechanisms", json!(claim.mechanisms)),
        ],
        name: claim.id,
    };
    claims.into_iter().map(row).collect()
}

pub fn formats() -> Vec<Row> {
    let row = |format: &&gpubench_reports::Format| Row {
        name: format.name.to_owned(),
        summary: format.summary.to_owned(),
        details: vec![("extension", json!(format.extension))],
    };
    gpubench_reports::CATALOGUE.iter().map(row).collect()
}

// One entry of a catalogue, and its form as JSON.

/// One entry: its name, its summary, and its details by key.
pub struct Row {
    pub name: String,
    pub summary: String,
    pub details: Vec<(&'static str, Value)>,
}

impl Row {
    pub fn as_entry(&self) -> Entry<'_> {
        Entry {
            name: &self.name,
            summary: &self.summary,
            details: self.details.iter().map(|(key, value)| (*key, value)).collect(),
        }
    }
}

/// An entry of a catalogue as JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "gpubench list")]
pub struct Entry<'a> {
    /// The name in flags and profiles.
    pub name: &'a str,
    /// The summary in one line.
    pub summary: &'a str,
    /// What else the catalogue has of it.
    #[serde(flatten)]
    pub details: BTreeMap<&'static str, &'a Value>,
}

#[cfg(test)]
mod tests {
    use gpubench_catalogue::workload;

    use super::meets;

    #[test]
    fn every_workload_is_in_a_pair() {
        for workload in workload::CATALOGUE.iter() {
            assert!(!meets(workload.name).is_empty(), "{workload:?}");
        }
    }
}
