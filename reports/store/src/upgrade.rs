//! Brings records of format 1.0, the first published one, up to date while they are read.
//!
//! Works on JSON. What such a record lacks is in tables below, never from a catalogue.
//! Keys that were only renamed are `serde` aliases in the types of the record.

use gpubench_record::FORMAT_VERSION;
use gpubench_stats::{Confidence, proportion};
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// A `record.json` of format 1.0.
pub(super) fn record(record: &mut Value) {
    let Some(record) = record.as_object_mut() else { return };
    record.insert("format_version".to_owned(), json!(FORMAT_VERSION));
    for result in objects(record, "cells") {
        objects(result, "gates").for_each(upgrade_gate);
    }
    upgrade(record);
    let Some(plan) = record.get_mut("plan").and_then(Value::as_object_mut) else { return };
    upgrade_plan(plan);
    let (cells, trials) = (list(plan, "cells"), list(plan, "fault_trials"));
    for result in objects(record, "cells") {
        if let Some(tenants) = result.remove("tenants") {
            result.insert("tenant_results".to_owned(), tenants);
        }
        add_planned(result, &cells);
    }
    for result in objects(record, "fault_trials") {
        add_planned(result, &trials);
    }
}

/// A gate had no kind. What a disturbance did is a bound of the figures today; these records keep
/// no counts that a bound could follow from, so their cells count without one.
fn upgrade_gate(gate: &mut Object) {
    let is_one_of = |gate: &Object, names: &[&str]| {
        let name = gate.get("gate").and_then(Value::as_str);
        name.is_some_and(|name| names.contains(&name))
    };
    if is_one_of(gate, &DISTURBANCES) {
        gate.insert("kind".to_owned(), json!("disturbance"));
    }
    if is_one_of(gate, &WITHOUT_BOUND) {
        gate.insert("scope".to_owned(), json!("nothing"));
    }
}

/// What a result lacks of the planned cell or trial with its id.
fn add_planned(result: &mut Object, planned: &[Value]) {
    let Some(id) = result.get("id").cloned() else { return };
    let mut planned = planned.iter().filter_map(Value::as_object);
    let Some(planned) = planned.find(|one| one.get("id") == Some(&id)) else { return };
    for (key, value) in planned {
        result.entry(key).or_insert_with(|| value.clone());
    }
}

fn upgrade_plan(plan: &mut Object) {
    let planned: Vec<[Option<Value>; 3]> = list(plan, "cells")
        .iter()
        .map(|cell| ["sub_axis", "victim", "aggressor"].map(|key| cell.get(key).cloned()))
        .collect();
    let is_planned = |(sub_axis, victim, aggressor): &&(&str, &str, &str)| {
        let wanted = [sub_axis, victim, aggressor].map(|part| Some(json!(part)));
        planned.contains(&wanted)
    };
    let pairs = PAIRS.iter().filter(is_planned);
    let pair = |pair: &(&str, &str, &str)| {
        let (sub_axis, victim, aggressor) = pair;
        json!({"sub_axis": sub_axis, "victim": victim, "aggressor": aggressor})
    };
    plan.insert("pairs".to_owned(), pairs.map(pair).collect());
    plan.insert("jitter_from".to_owned(), json!(JITTER_FROM));
    let answering = ANSWERING_CODES.iter();
    let workload =
        |(name, codes): &(&str, &[i32])| ((*name).to_owned(), json!({"answering_codes": codes}));
    plan.insert("workloads".to_owned(), answering.map(workload).collect());
    for trial in objects(plan, "fault_trials") {
        upgrade_trial(trial);
    }
    for skip in objects(plan, "skips") {
        let variant = skip.get("mechanism").and_then(Value::as_str);
        let name = variant.and_then(|variant| variant.split('[').next());
        let name = json!(name.unwrap_or_default());
        skip.insert("name".to_owned(), name);
    }
}

/// A trial was a cell with the fault beside it.
fn upgrade_trial(trial: &mut Object) {
    const OF_TRIAL: [&str; 7] =
        ["id", "group", "mechanism", "variant", "victim", "tenants", "schedule_seed"];
    if let Some(Value::Object(mut cell)) = trial.remove("cell") {
        for key in OF_TRIAL {
            if let Some(value) = cell.remove(key) {
                trial.insert(key.to_owned(), value);
            }
        }
    }
    let fault = trial.get("fault").and_then(Value::as_str).unwrap_or("");
    let answer = ANSWERS.iter().find(|(_, of)| of.contains(&fault));
    let control = CONTROLS.iter().find(|(name, _)| *name == fault);
    let facts = json!({
        "control": control.map(|(_, control)| control),
        "answer": answer.map_or("unknown", |(answer, _)| answer),
        "by_coordinator": BY_COORDINATOR.contains(&fault),
        "leaves_waiting": LEAVES_WAITING.contains(&fault),
    });
    trial.insert("facts".to_owned(), facts);
}

/// A copy of a list of an object; empty where there is none.
fn list(of: &Object, key: &str) -> Vec<Value> {
    let list = of.get(key).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

fn objects<'a>(of: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = of.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

// Facts that records of format 1.0 do not hold, as the catalogues had them when that format was
// written last. Data: it never changes with the catalogues.

/// Requests of this workload are answered by a refusal with these `CUresult`s.
const ANSWERING_CODES: &[(&str, &[i32])] = &[("reserve", &[2])];

/// The sub-axis whose open loops give the rows of the jitter axis.
const JITTER_FROM: &str = "sm";

/// Gates that ask what a disturbance did.
const DISTURBANCES: [&str; 5] = ["warm-up", "drift", "lateness", "cpu-steal", "cpu-gap"];
/// Those of them whose figures bound nothing: CPU time over all cores, and the p99 of lateness.
const WITHOUT_BOUND: [&str; 2] = ["lateness", "cpu-steal"];

/// The pairs of victim and aggressor by sub-axis, in report order.
const PAIRS: &[(&str, &str, &str)] = &[
    ("sm", "compute", "fma-hog"),
    ("sm", "compute", "block-slots"),
    ("sm", "inference", "fma-hog"),
    ("sm", "fp64", "fp64-hog"),
    ("sm", "int", "int-hog"),
    ("sm", "tensor", "tensor-hog"),
    ("sm", "shared", "shared-hog"),
    ("sm", "l1", "l1-hog"),
    ("issue", "issue", "issue-hog"),
    ("launch", "launch", "launch-flood"),
    ("launch", "launch-sync", "launch-flood"),
    ("launch", "inference", "launch-flood"),
    ("driver", "alloc", "alloc-storm"),
    ("driver", "alloc", "context-storm"),
    ("driver", "alloc", "module-storm"),
    ("driver", "alloc", "pin-storm"),
    ("dram", "stream", "dram-copy"),
    ("dram", "stream", "dram-read"),
    ("dram", "stream", "dram-write"),
    ("dram", "inference", "dram-copy"),
    ("dram", "tlb", "tlb-stride"),
    ("l2", "l2", "l2-stream"),
    ("l2", "l2", "l2-thrash"),
    ("l2", "atomic", "atomics"),
    ("pcie", "pcie", "pcie-h2d"),
    ("pcie", "pcie-download", "pcie-d2h"),
    ("pcie", "pcie", "pcie-both"),
    ("capacity", "reserve", "memory-hog"),
    ("power", "compute", "power-virus"),
];

const CONTROLS: &[(&str, &str)] = &[("placebo", "placebo"), ("canary", "self-test")];

/// The answer that the process of each fault gets.
const ANSWERS: &[(&str, &[&str])] = &[
    (
        "success",
        &["placebo", "printf-flood", "hang", "sigstop", "context-destroy", "hami-lock-holder-kill"],
    ),
    (
        "error",
        &[
            "empty-launch",
            "bad-launch",
            "double-free",
            "oom",
            "mps-terminate-client",
            "assert",
            "trap",
            "misaligned",
            "shared-oob",
            "stack-overflow",
            "wrong-address-space",
            "bad-pc",
            "illegal-instruction",
            "illegal-address",
        ],
    ),
    ("either", &["canary", "mps-server-kill", "mps-daemon-kill", "ipc-exporter-exit"]),
    ("process-ends", &["exit-pending", "sigkill"]),
];

const BY_COORDINATOR: &[&str] = &["mps-terminate-client", "mps-server-kill", "mps-daemon-kill"];

/// Faults that can leave their process waiting with no answer ever.
const LEAVES_WAITING: &[&str] = &["mps-server-kill", "mps-daemon-kill"];

// Intervals of proportions in records of format 1.0, which were one-sided bounds: of fault
// trials at both ends, of other counts where every trial came out as promised.

const OF_FAULTS: &str = "proportion";

/// Replaces them by the two-sided intervals of the same counts.
fn upgrade(record: &mut Map<String, Value>) {
    for row in objects(record, "matrix") {
        two_sided(row);
    }
    for tally in objects(record, "fault_tallies") {
        two_sided(tally);
    }
}

/// Replaces the ends of `survival`.
fn two_sided(of: &mut Map<String, Value>) -> Option<()> {
    let survival = of.get_mut("survival")?.as_object_mut()?;
    let value = survival.get("value")?.as_f64()?;
    let trials = u32::try_from(survival.get("n")?.as_u64()?).ok()?;
    if survival.get("unit")?.as_str()? != OF_FAULTS && value < 1.0 {
        return None;
    }
    // A proportion of n trials times n is whole up to rounding, and at most n.
    let good = (value * f64::from(trials)).round() as u32;
    let found = proportion::clopper_pearson(good, trials, Confidence::P95).ok()?;
    survival.insert("lo".to_owned(), json!(found.lo));
    survival.insert("hi".to_owned(), json!(found.hi));
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::upgrade;

    #[test]
    fn one_sided_bounds_become_two_sided_intervals() {
        let survival = |value: f64, n: u32, unit: &str| {
            let figure = json!({"value": value, "lo": 0.5, "hi": 1.0, "n": n, "unit": unit});
            json!({ "survival": figure })
        };
        let mut record = json!({
            "matrix": [
                survival(40.0 / 59.0, 59, "proportion"),
                survival(1.0, 59, "clean pages"),
                survival(0.5, 59, "clean pages"),
                {"survival": null},
            ],
            "fault_tallies": [survival(1.0, 59, "proportion")],
        });
        upgrade(record.as_object_mut().expect("an object"));
        let end = |path: &str| record.pointer(path).and_then(|end| end.as_f64()).expect("a number");
        let near = |path: &str, expected: f64| {
            assert!((end(path) - expected).abs() < 5e-4, "{path}: {}", end(path));
        };
        // SciPy 1.17.1: binomtest(40, 59).proportion_ci(.95, 'exact').
        near("/matrix/0/survival/lo", 0.544);
        near("/matrix/0/survival/hi", 0.794);
        near("/matrix/1/survival/lo", 0.939);
        // Two-sided already.
        near("/matrix/2/survival/lo", 0.5);
        near("/fault_tallies/0/survival/lo", 0.939);
    }
}
