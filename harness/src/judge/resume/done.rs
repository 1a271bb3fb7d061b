//! What of an interrupted run is done, from its events.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{Calibration, Outcome, ProbeFound, RunEvent, RunSettings};

/// The calibration; `None` where the run did not get that far, or had no tenant to calibrate.
pub(super) fn calibration(events: &[RunEvent]) -> Option<Calibration> {
    let found = events.iter().rev().find_map(|event| match event {
        RunEvent::Calibrated { calibration, .. } => Some(calibration.clone()),
        _ => None,
    });
    found.filter(|calibration| !calibration.entries.is_empty())
}

/// Ids of the cells that began.
pub(super) fn began(events: &[RunEvent]) -> BTreeSet<String> {
    let ids = events.iter().filter_map(|event| match event {
        RunEvent::CellBegan { id } => Some(id.clone()),
        _ => None,
    });
    ids.collect()
}

/// Ids of the cells that ended.
pub(super) fn ended(events: &[RunEvent]) -> BTreeSet<String> {
    let ids = events.iter().filter_map(|event| match event {
        RunEvent::CellEnded { id, .. } => Some(id.clone()),
        _ => None,
    });
    ids.collect()
}

/// Ids of the fault trials that ended.
pub(super) fn trials(events: &[RunEvent]) -> BTreeSet<String> {
    let ids = events.iter().filter_map(|event| match event {
        RunEvent::FaultTrialEnded { id, .. } => Some(id.clone()),
        _ => None,
    });
    ids.collect()
}

/// Ids of the fault trials that began and did not end.
pub(super) fn trials_again(events: &[RunEvent], ended: &BTreeSet<String>) -> Vec<String> {
    let ids = events.iter().filter_map(|event| match event {
        RunEvent::FaultTrialBegan { id } => Some(id.clone()),
        _ => None,
    });
    ids.filter(|id| !ended.contains(id)).collect()
}

/// Whether the device cannot run further fault trials.
pub(super) fn trials_stopped(events: &[RunEvent]) -> bool {
    let is_stop = |event: &RunEvent| matches!(event, RunEvent::FaultTrialsStopped { .. });
    events.iter().any(is_stop)
}

/// The outcomes of variants that failed or cannot run.
pub(super) fn variants(events: &[RunEvent]) -> BTreeMap<String, Outcome> {
    let rows = events.iter().filter_map(|event| match event {
        RunEvent::Mechanism { row } if !row.outcome.is_measured() => Some(row),
        _ => None,
    });
    rows.map(|row| (row.variant.clone(), row.outcome.clone())).collect()
}

/// How many findings there are, by variant and name of the probe.
pub(super) fn findings(events: &[RunEvent]) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for event in events {
        if let RunEvent::Probed { result } = event {
            let key = (result.variant.clone(), name(&result.found));
            *found.entry(key).or_default() += 1;
        }
    }
    found
}

/// The name of the probe: that of its finding in a record.
fn name(found: &ProbeFound) -> String {
    if let ProbeFound::Broken { name, .. } = found {
        return name.clone();
    }
    let value = serde_json::to_value(found).unwrap_or_default();
    value["probe"].as_str().unwrap_or_default().to_owned()
}

/// Why the last start ended; `None` where it was killed.
pub(super) fn reason(events: &[RunEvent]) -> Option<String> {
    match events.last() {
        Some(RunEvent::Ended { reason, .. }) => reason.clone(),
        _ => None,
    }
}

/// The boot of the host at the last start.
pub(super) fn boot_id(events: &[RunEvent], settings: &RunSettings) -> Option<String> {
    let last = events.iter().rev().find_map(|event| match event {
        RunEvent::Resumed { interruption, .. } => Some(interruption.boot_ids[1].clone()),
        _ => None,
    });
    last.unwrap_or_else(|| settings.boot_id.clone())
}

#[cfg(test)]
mod tests {
    use super::name;
    use crate::run::probe::CATALOGUE;

    #[test]
    fn a_finding_has_the_name_of_its_probe() {
        let broken = |name: &str| {
            let text = format!(r#"{{"probe": "broken", "name": "{name}", "reason": ""}}"#);
            serde_json::from_str(&text).expect("a finding")
        };
        for probe in CATALOGUE {
            assert_eq!(name(&broken(probe.name)), probe.name);
        }
        let text = r#"{"probe": "out-of-memory", "trials": []}"#;
        let found = serde_json::from_str(text).expect("a finding");
        assert_eq!(name(&found), "out-of-memory");
        assert!(CATALOGUE.iter().any(|probe| probe.name == "out-of-memory"));
    }
}
