//! The fault trials and probes of a run, from its events and its samples.

use gpubench_record::{FaultResult, Plan, ProbeResult, RunEvent, SampleRow};
use gpubench_reports::store::{Record, StoreError};

use super::record::JudgeError;
use crate::gate;

/// Why the fault trials stopped early; `None` where they did not.
pub(super) fn stopped(events: &[RunEvent]) -> Option<String> {
    let found = |event: &RunEvent| match event {
        RunEvent::FaultTrialsStopped { id, reason } => Some(format!("{reason} (in trial {id})")),
        _ => None,
    };
    events.iter().find_map(found)
}

/// The findings of all probes.
pub(super) fn probes(events: &[RunEvent]) -> Vec<ProbeResult> {
    let found = |event: &RunEvent| match event {
        RunEvent::Probed { result } => Some(result.clone()),
        _ => None,
    };
    events.iter().filter_map(found).collect()
}

/// The judged fault trials. A trial that did not run has no result; the row of its fault names the
/// number of missing trials.
pub(super) fn judged(
    record: &Record,
    plan: &Plan,
    events: &[RunEvent],
) -> Result<Vec<FaultResult>, JudgeError> {
    let mut results = Vec::new();
    for event in events {
        let RunEvent::FaultTrialEnded { id, observed } = event else {
            continue;
        };
        let mut planned = plan.fault_trials.iter();
        let Some(trial) = planned.find(|trial| trial.id == *id) else {
            continue;
        };
        let mut rows: Vec<Vec<SampleRow>> = Vec::new();
        for victim in &observed.victims {
            rows.push(match record.samples(id, &victim.planned.tenant) {
                Ok(rows) => rows,
                // A victim without samples is judged as one that completed nothing.
                Err(StoreError::NoSamples { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            });
        }
        // Rows that a torn file lost are no evidence of harm: the trial counts as missing.
        let mut victims = observed.victims.iter().zip(&rows);
        if victims.all(|(victim, rows)| rows.len() as u64 >= victim.rows || !record.is_torn()) {
            results.push(gate::judge_trial(trial, observed, &rows));
        }
    }
    Ok(results)
}
