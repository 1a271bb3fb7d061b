//! The fault trials and probes of a run, from its events and its samples.

use gpubench_record::{FaultResult, Plan, ProbeResult, RunEvent};
use gpubench_reports::store::{Record, StoreError};

use super::record::JudgeError;
use crate::gate;

/// Why the fault trials stopped early, if they did.
pub(super) fn stopped(events: &[RunEvent]) -> Option<String> {
    let found = |event: &RunEvent| match event {
        RunEvent::FaultTrialsStopped { id, reason } => Some(format!("{reason} (seen in {id})")),
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

/// The fault trials that ended, judged. A trial that did not run has no result, and its row says
/// so.
pub(super) fn judged(
    record: &Record,
    plan: &Plan,
    events: &[RunEvent],
) -> Result<Vec<FaultResult>, JudgeError> {
    let mut results = Vec::new();
    for event in events {
        let RunEvent::FaultTrialEnded { id, observed: seen } = event else {
            continue;
        };
        let mut planned = plan.fault_trials.iter();
        let Some(trial) = planned.find(|trial| trial.id == *id) else {
            continue;
        };
        let mut rows = Vec::new();
        for victim in &seen.victims {
            rows.push(match record.samples(id, &victim.planned.tenant) {
                Ok(rows) => rows,
                // A victim without samples is judged as one that completed nothing.
                Err(StoreError::NoSamples { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            });
        }
        results.push(gate::judge_trial(trial, seen, &rows));
    }
    Ok(results)
}
