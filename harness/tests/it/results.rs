//! Wrong results: each planted one ends as *wrong result*, named by tenant and cell, and scores
//! nothing.

use gpubench_record::{CellResult, Condition, Gate, GateState, Harm, OutcomeKind, RunRecord};

use crate::support::fault::{TIME_SLICING, TURING, ended, matrix, planted};
use crate::support::{Error, TestResult};

/// Threads of a workload's launch, as the record gives them.
fn threads(record: &RunRecord, workload: &str) -> Result<i64, Error> {
    let entry = record.calibration.entries.get(workload).ok_or(workload)?;
    let product = ["blocks", "threads"].map(|key| entry.spec.params.get(key).copied());
    let [Some(blocks), Some(threads)] = product else {
        return Err(format!("{workload} has no shape").into());
    };
    Ok(i64::try_from(blocks * threads)?)
}

fn range(from: i64, to: i64) -> (&'static str, toml::Value) {
    ("wrong_result_threads", vec![from, to].into())
}

fn results(record: &RunRecord, condition: Condition) -> Vec<(&CellResult, GateState, &str)> {
    let cells = record.cells.iter().filter(|cell| cell.cell.condition == condition);
    let found = cells.filter_map(|cell| {
        let gate = cell.gate(&Gate::Results)?;
        Some((cell, gate.state, gate.detail.as_str()))
    });
    let found: Vec<_> = found.collect();
    assert!(!found.is_empty(), "no cell of {condition:?}");
    found
}

#[test]
fn a_planted_wrong_result_is_named_by_tenant_and_cell_and_not_scored() -> TestResult {
    let dir = tempfile::tempdir()?;
    let clean = matrix(dir.path(), "clean", TURING, &[TIME_SLICING])?;
    for condition in [Condition::N, Condition::C] {
        for (cell, state, detail) in results(&clean, condition) {
            assert_eq!(state, GateState::Passed, "{detail}");
            assert!(detail.contains("bytes of victim as alone"), "{detail}");
            let checked = cell.tenant_results.iter().filter_map(|tenant| tenant.output.as_ref());
            assert!(checked.into_iter().all(|output| output.agrees() == Some(true)));
        }
    }
    let (victim, neighbour) = (threads(&clean, "compute")?, threads(&clean, "fma-hog")?);
    let swapped = ("buffers_swapped", true.into());
    for (name, defects, wrong) in [
        ("victim", vec![range(victim, victim)], &["victim"][..]),
        ("neighbour", vec![range(neighbour, neighbour)], &["neighbour-1"]),
        ("swapped", vec![range(victim, neighbour), swapped], &["victim", "neighbour-1"]),
    ] {
        let machine = planted(TURING, &defects)?;
        let (code, stderr, record) = ended(dir.path(), name, &machine, &[TIME_SLICING])?;
        assert_eq!(code, Some(4), "{name}: {stderr}");
        assert!(stderr.contains("wrong result"), "{name}: {stderr}");
        for (cell, state, detail) in results(&record, Condition::C) {
            assert_eq!(state, GateState::Failed, "{name}: {}: {detail}", cell.cell.id);
            assert_eq!(cell.outcome.outcome, OutcomeKind::Failed);
            for tenant in ["victim", "neighbour-1", "neighbour-2"] {
                let named = detail.contains(&format!("{tenant}: wrong result"));
                // Every neighbour runs the same launches.
                let kind = tenant.replace("neighbour-2", "neighbour-1");
                assert_eq!(named, wrong.contains(&kind.as_str()), "{name}: {tenant}: {detail}");
            }
        }
        for (_, state, detail) in results(&record, Condition::N) {
            assert_eq!(state, GateState::Passed, "{name}: alone: {detail}");
        }
        for row in record.matrix.iter().filter(|row| row.mechanism == "time-slicing") {
            assert_eq!(row.level, None, "{name}: {row:?}");
        }
    }
    Ok(())
}

/// The launch writes a wrong output, and the next one writes the right one again: only a read
/// between them can see it.
#[test]
fn a_wrong_result_of_one_request_is_seen_inside_the_window_and_named() -> TestResult {
    let dir = tempfile::tempdir()?;
    let clean = matrix(dir.path(), "clean", TURING, &[TIME_SLICING])?;
    let victim = threads(&clean, "compute")?;
    let outputs = |record: &RunRecord| -> Vec<(u64, gpubench_record::OutputCheck)> {
        let tenants = record.cells.iter().flat_map(|cell| &cell.tenant_results);
        tenants.filter_map(|one| Some((one.rows, one.output.clone()?))).collect()
    };
    for (rows, output) in outputs(&clean) {
        let share = output.read_share(rows).unwrap_or(0.0);
        let is_read = output.reads > 0 || rows < 16;
        assert!(output.none.is_some() || is_read && share <= 0.01, "{rows}: {output:?}");
        assert_eq!(output.wrong_after, [0; 0]);
    }
    // Every launch that is the n-th of its process beside another one, until one is seen.
    let mut seen = 0;
    for launch in (400..).take(32) {
        let defects = [range(victim, victim), ("bit_flips_in_launch", launch.into())];
        let machine = planted(TURING, &defects)?;
        let name = format!("flip-{launch}");
        let (code, stderr, record) = ended(dir.path(), &name, &machine, &[TIME_SLICING])?;
        let wrong: Vec<_> =
            outputs(&record).into_iter().filter(|(_, one)| !one.wrong_after.is_empty()).collect();
        let Some((_, output)) = wrong.first() else {
            assert_eq!(code, Some(0), "{launch}: {stderr}");
            continue;
        };
        assert_eq!((code, output.agrees()), (Some(4), Some(true)), "{stderr}");
        let failed = record.cells.iter().filter(|cell| !cell.outcome.is_measured());
        let details: Vec<&str> =
            failed.filter_map(|cell| Some(cell.gate(&Gate::Results)?.detail.as_str())).collect();
        let request = format!("first after request {}", output.wrong_after[0]);
        assert!(details.len() == 1 && details[0].contains(&request), "{details:?}");
        seen += 1;
        break;
    }
    assert_eq!(seen, 1, "no read met a wrong launch");
    Ok(())
}

#[test]
fn a_survivor_of_a_fault_with_a_wrong_result_is_corrupted_and_never_contained() -> TestResult {
    let dir = tempfile::tempdir()?;
    let more = [TIME_SLICING, "--faults=trap", "--fault-trials=2"];
    let clean = matrix(dir.path(), "clean", TURING, &more)?;
    let harms = |record: &RunRecord| -> Vec<Harm> {
        let trials = record.fault_trials.iter().filter(|trial| trial.planned.fault == "trap");
        trials.flat_map(|trial| trial.victims.iter().map(|victim| victim.harm)).collect()
    };
    assert_eq!(harms(&clean), [Harm::Unharmed; 4]);
    let victim = threads(&clean, "compute")?;
    let machine = planted(TURING, &[range(victim, victim)])?;
    let (code, stderr, record) = ended(dir.path(), "corrupted", &machine, &more)?;
    assert_eq!(code, Some(4), "{stderr}");
    assert_eq!(harms(&record), [Harm::Corrupted; 4]);
    let tally = record.fault_tallies.iter().find(|tally| tally.fault == "trap").ok_or("a tally")?;
    assert_eq!((tally.contained, tally.trials), (0, 2));
    assert_eq!(tally.victims, [(Harm::Corrupted, 4)].into());
    Ok(())
}
