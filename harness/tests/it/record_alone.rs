//! The record alone decides its scores: scoring looks no name up in a catalogue.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_record::{CellTenant, RunRecord};
use gpubench_store::Record;

use crate::support::{Error, TestResult};
use gpubench::verbs::rescore;
use serde_json::{Value, json};

/// Does not change the order of names, and can be removed from texts.
const PREFIX: &str = "renamed-";

fn rename(name: &mut String) {
    *name = format!("{PREFIX}{name}");
}

fn rename_keys<V: Clone>(map: &mut BTreeMap<String, V>) {
    *map = std::mem::take(map)
        .into_iter()
        .map(|(name, value)| (format!("{PREFIX}{name}"), value))
        .collect();
}

fn rename_tenants(tenants: &mut [CellTenant]) {
    tenants.iter_mut().filter_map(|tenant| tenant.workload.as_mut()).for_each(rename);
}

/// Renames every mechanism, workload, fault and fault class of a record to a name that no catalogue
/// has.
fn rename_all(run: &mut RunRecord) {
    rename_mechanisms(run);
    let results = run.cells.iter_mut().map(|result| &mut result.cell);
    for cell in run.plan.cells.iter_mut().chain(results) {
        rename(&mut cell.victim);
        cell.aggressor.iter_mut().for_each(rename);
        rename_tenants(&mut cell.tenants);
    }
    for result in &mut run.cells {
        for tenant in &mut result.tenant_results {
            rename_tenants(std::slice::from_mut(&mut tenant.planned));
        }
    }
    for pair in &mut run.plan.pairs {
        rename(&mut pair.victim);
        rename(&mut pair.aggressor);
    }
    rename_keys(&mut run.plan.workloads);
    rename_keys(&mut run.calibration.entries);
    rename_keys(&mut run.calibration.peaks);
    rename_keys(&mut run.calibration.waived);
    let results = run.fault_trials.iter_mut().map(|result| &mut result.planned);
    for trial in run.plan.fault_trials.iter_mut().chain(results) {
        rename(&mut trial.victim);
        rename(&mut trial.fault);
        rename(&mut trial.class);
        rename_tenants(&mut trial.tenants);
    }
}

fn rename_mechanisms(run: &mut RunRecord) {
    let plan = &mut run.plan;
    rename(&mut plan.reference);
    for planned in &mut plan.mechanisms {
        rename(&mut planned.name);
        rename(&mut planned.variant);
        planned.unprotected.iter_mut().for_each(rename);
    }
    for row in &mut run.mechanisms {
        rename(&mut row.name);
        rename(&mut row.variant);
    }
    let results = run.cells.iter_mut().map(|result| &mut result.cell);
    for cell in plan.cells.iter_mut().chain(results) {
        rename(&mut cell.mechanism);
        rename(&mut cell.variant);
    }
    let results = run.fault_trials.iter_mut().map(|result| &mut result.planned);
    for trial in plan.fault_trials.iter_mut().chain(results) {
        rename(&mut trial.mechanism);
        rename(&mut trial.variant);
    }
    let claimed = plan.claimed.iter_mut();
    claimed.for_each(|claim| rename(&mut claim.mechanism));
    let probes = run.probes.iter_mut();
    probes.for_each(|probe| rename(&mut probe.variant));
}

/// The scores of a record, with the original names. What publications say of a mechanism is found
/// by its name.
fn scores(run: &RunRecord) -> Result<Value, serde_json::Error> {
    let mut matrix = run.matrix.clone();
    matrix.iter_mut().for_each(|row| row.claimed.clear());
    let scores = json!({
        "matrix": matrix, "overall": run.overall, "service": run.service,
        "tenant_limits": run.tenant_limits, "dose_curves": run.dose_curves,
        "probe_figures": run.probe_figures,
        "fault_tallies": run.fault_tallies,
    });
    serde_json::from_str(&scores.to_string().replace(PREFIX, ""))
}

#[test]
fn a_record_of_unknown_names_has_the_same_scores() -> TestResult {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    let (mut rows, mut tallies) = (0, 0);
    for entry in std::fs::read_dir(examples)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let mut known = Record::open(&path)?.run().clone();
        let mut unknown = known.clone();
        rename_all(&mut unknown);
        rescore(&mut known, &[])?;
        rescore(&mut unknown, &[])?;
        assert_eq!(scores(&unknown)?, scores(&known)?, "{}", path.display());
        rows += known.matrix.len();
        tallies += known.fault_tallies.len();
    }
    assert!(rows > 100 && tallies > 20, "{rows} rows, {tallies} tallies");
    Ok(())
}

/// Levels, words and figures of the matrix, without the texts that explain them.
fn figures(run: &RunRecord) -> Result<Vec<Value>, serde_json::Error> {
    let mut rows = serde_json::to_value(&run.matrix)?;
    let Some(rows) = rows.as_array_mut() else { return Ok(Vec::new()) };
    for row in rows.iter_mut().filter_map(Value::as_object_mut) {
        row.retain(|key, _| !["warnings", "reason", "blocks_lost"].contains(&key.as_str()));
        // Format 1.0 has the ends of an interval only.
        for figure in row.values_mut().filter_map(Value::as_object_mut) {
            figure.retain(|key, _| !key.starts_with("stat_") && !key.starts_with("sys_"));
        }
    }
    Ok(rows.clone())
}

/// The figures of a row that `scoring-v4` makes as older rules did: those of rates, without the
/// levels, and without bounds, which have no value.
fn kept(scored: &Value, stored: &Value) -> [BTreeMap<String, Value>; 2] {
    let rates = ["retention", "guarantee", "efficiency", "effectiveness"];
    let of = |row: &Value| {
        let names = rates.into_iter().filter(|name| scored[*name]["value"].is_number());
        names.map(|name| (name.to_owned(), row[name]["value"].clone())).collect()
    };
    [of(scored), of(stored)]
}

#[test]
fn a_stored_record_keeps_its_levels_and_figures() -> TestResult {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    for (name, rows, of_today) in
        [("matrix", 59, true), ("faults-mps", 12, false), ("faults-time-slicing", 4, false)]
    {
        let path = examples.join(format!("h100_580.159.04_{name}"));
        let stored = Record::open(&path)?.run().clone();
        let mut scored = stored.clone();
        rescore(&mut scored, &[])?;
        let mut compared = 0;
        for (stored, scored) in figures(&stored)?.into_iter().zip(figures(&scored)?) {
            // The rules of format 1.0 left rows open that have a level today.
            if of_today || stored["outcome"] != "inconclusive" {
                let [scored, stored] = kept(&scored, &stored);
                assert_eq!(scored, stored, "{name}");
                compared += 1;
            }
        }
        assert_eq!(compared, rows, "{name}");
    }
    Ok(())
}

#[test]
fn a_removed_fact_changes_the_scores() -> TestResult {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    let open = |name: &str| -> Result<RunRecord, Error> {
        let mut run = Record::open(&examples.join(name))?.run().clone();
        rescore(&mut run, &[])?;
        Ok(run)
    };
    let matrix = open("h100_580.159.04_matrix")?;
    let faults = open("h100_580.159.04_faults-mps")?;
    type Change = fn(&mut RunRecord);
    let changes: [(&RunRecord, &str, Change); 2] = [
        (&matrix, "claimed", |run| {
            run.plan.claimed.iter_mut().for_each(|one| one.word = "another word".to_owned());
        }),
        (&faults, "facts", |run| {
            let trials = run.fault_trials.iter_mut();
            trials.for_each(|trial| trial.planned.facts.control = None);
        }),
    ];
    for (run, removed, change) in changes {
        let mut changed = run.clone();
        change(&mut changed);
        rescore(&mut changed, &[])?;
        let differ = changed.matrix != run.matrix || scores(&changed)? != scores(run)?;
        assert!(differ, "{removed}");
    }
    Ok(())
}
