//! The speed of the device during a run, from its events: how it was heated, and what the check
//! kernel said before and after each cell.

use std::collections::BTreeMap;

use gpubench_record::{DeviceSpeed, Plan, RunEvent};

/// Heating, loads and measurements; `None` where the plan has no soak.
pub(super) fn of_run(plan: &Plan, events: &[RunEvent]) -> Option<DeviceSpeed> {
    plan.soak?;
    let mut found = DeviceSpeed::default();
    for event in events {
        match event {
            RunEvent::Heated { heating } => found.heating = Some(heating.clone()),
            RunEvent::KeptWarm { .. } => found.kept_warm += 1,
            RunEvent::SpeedChecked { check } => found.checks.push(*check),
            _ => {}
        }
    }
    Some(found)
}

/// The speed before and after each cell over the first speed of that start of the harness, as
/// logarithms: each start has a check kernel of its own length. A cell without a measurement on
/// either side is absent.
pub(super) fn brackets(events: &[RunEvent]) -> BTreeMap<&str, [f64; 2]> {
    starts(events).flat_map(of_one_start).collect()
}

/// The events of each start of the harness.
pub(super) fn starts(events: &[RunEvent]) -> impl Iterator<Item = &[RunEvent]> {
    events.split(|event| matches!(event, RunEvent::Resumed { .. }))
}

fn of_one_start(events: &[RunEvent]) -> BTreeMap<&str, [f64; 2]> {
    let mut found = BTreeMap::new();
    let (mut first, mut before) = (None, None);
    let mut between: Vec<&str> = Vec::new();
    for event in events {
        match event {
            RunEvent::CellEnded { id, .. } => between.push(id),
            RunEvent::SpeedChecked { check } => {
                let log = check.rate_per_s.ln();
                let now = log - *first.get_or_insert(log);
                let ended = between.drain(..);
                match before.replace(now) {
                    Some(before) => found.extend(ended.map(|id| (id, [before, now]))),
                    None => drop(ended),
                }
            }
            _ => {}
        }
    }
    found.retain(|_, both| both.iter().all(|log| log.is_finite()));
    found
}

#[cfg(test)]
mod tests {
    use gpubench_record::{RunEvent, SpeedCheck};

    use super::brackets;

    fn check(rate_per_s: f64) -> RunEvent {
        RunEvent::SpeedChecked {
            check: SpeedCheck { at_ns: 0, rate_per_s, sm_clock_mhz: None, temperature_c: None },
        }
    }

    fn ended(id: &str) -> RunEvent {
        RunEvent::CellEnded {
            id: id.to_owned(),
            tenants: Vec::new(),
            failure: None,
            other_processes: None,
            throttle_reasons: None,
            xids: None,
            xid_lines: None,
            cpu_steal_ratio: None,
            surroundings: Box::default(),
        }
    }

    #[test]
    fn a_measurement_of_another_start_is_no_bracket() {
        let resumed = || -> RunEvent {
            let text = r#"{"event": "resumed", "left": {"cells": [], "superseded": [],
                "trials_again": []}, "interruption": {"last_event_at": "", "blocks_before": 1,
                "blocks_after": 1, "superseded": 0, "boot_ids": [null, null], "provenance":
                {"gpubench": "", "started_at": "", "command": [], "clock": "wall"}}}"#;
            serde_json::from_str(text).expect("an event")
        };
        let events =
            [check(50.0), ended("cut"), resumed(), check(100.0), ended("whole"), check(100.0)];
        let found = brackets(&events);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("whole", [0.0; 2])]);
    }

    #[test]
    fn a_cell_lies_between_the_measurements_around_it() {
        let events = [
            ended("none before"),
            check(50.0),
            ended("a"),
            ended("b"),
            check(45.0),
            check(40.0),
            ended("c"),
            check(50.0),
            ended("none after"),
        ];
        let found = brackets(&events);
        let names: Vec<&str> = found.keys().copied().collect();
        assert_eq!(names, ["a", "b", "c"]);
        let near = |id: &str, want: [f64; 2]| {
            let both = found[id].iter().zip(want);
            assert!(both.into_iter().all(|(log, want)| (log - want.ln()).abs() < 1e-12), "{id}");
        };
        near("a", [1.0, 0.9]);
        near("b", [1.0, 0.9]);
        near("c", [0.8, 1.0]);
    }
}
