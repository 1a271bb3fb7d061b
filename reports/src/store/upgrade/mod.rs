//! Brings records of format 1.0, the first published one, up to date while they are read.
//!
//! Works on JSON. What such a record lacks comes from [`facts`], never from a catalogue.
//! Keys that were only renamed are `serde` aliases in the types of the record.

mod facts;
mod proportions;

use gpubench_record::FORMAT_VERSION;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// A `record.json` of format 1.0.
pub(super) fn record(record: &mut Value) {
    let Some(record) = record.as_object_mut() else {
        return;
    };
    record.insert("format_version".to_owned(), json!(FORMAT_VERSION));
    for result in objects(record, "cells") {
        objects(result, "gates").for_each(upgrade_gate);
    }
    proportions::upgrade(record);
    let Some(plan) = record.get_mut("plan").and_then(Value::as_object_mut) else {
        return;
    };
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
    if is_one_of(gate, &facts::DISTURBANCES) {
        gate.insert("kind".to_owned(), json!("disturbance"));
    }
    if is_one_of(gate, &facts::WITHOUT_BOUND) {
        gate.insert("scope".to_owned(), json!("nothing"));
    }
}

/// What a result lacks of the planned cell or trial with its id.
fn add_planned(result: &mut Object, planned: &[Value]) {
    let Some(id) = result.get("id").cloned() else {
        return;
    };
    let mut planned = planned.iter().filter_map(Value::as_object);
    let Some(planned) = planned.find(|one| one.get("id") == Some(&id)) else {
        return;
    };
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
    let pairs = facts::PAIRS.iter().filter(is_planned);
    let pair = |pair: &(&str, &str, &str)| {
        let (sub_axis, victim, aggressor) = pair;
        json!({"sub_axis": sub_axis, "victim": victim, "aggressor": aggressor})
    };
    plan.insert("pairs".to_owned(), pairs.map(pair).collect());
    plan.insert("jitter_from".to_owned(), json!(facts::JITTER_FROM));
    let answering = facts::ANSWERING_CODES.iter();
    let workload =
        |(name, codes): &(&str, &[i32])| ((*name).to_owned(), json!({"answering_codes": codes}));
    plan.insert("workloads".to_owned(), answering.map(workload).collect());
    plan.insert("claimed".to_owned(), claimed());
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
    let answer = facts::ANSWERS.iter().find(|(_, of)| of.contains(&fault));
    let control = facts::CONTROLS.iter().find(|(name, _)| *name == fault);
    let facts = json!({
        "control": control.map(|(_, control)| control),
        "answer": answer.map_or("unknown", |(answer, _)| answer),
        "by_coordinator": facts::BY_COORDINATOR.contains(&fault),
        "leaves_waiting": facts::LEAVES_WAITING.contains(&fault),
    });
    trial.insert("facts".to_owned(), facts);
}

fn claimed() -> Value {
    let words = facts::CLAIMED.iter().flat_map(|(source, mechanism, words)| {
        let of_axes = facts::CLAIMED_AXES.iter().zip(words);
        of_axes.filter_map(move |(axis, word)| {
            let word = (*word)?;
            Some(json!({"source": source, "mechanism": mechanism, "axis": axis, "word": word}))
        })
    });
    words.collect()
}

/// A copy of a list of an object; empty where there is none.
fn list(of: &Object, key: &str) -> Vec<Value> {
    let list = of.get(key).and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// The objects in a list of an object.
fn objects<'a>(of: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = of.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}
