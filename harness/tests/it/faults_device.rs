//! The state in which fault trials leave the device, when further trials stop, and which records
//! are counted together.

use crate::support::TestResult;
use crate::support::fault::{
    HOPPER, TIME_SLICING, TURING, ended, matrix, planted, report, row, tally,
};
use gpubench_record::{EccCounts, FaultResult, Json, RunRecord};

#[test]
fn trials_stop_when_the_device_needs_a_reset() -> TestResult {
    let dir = tempfile::tempdir()?;
    for (name, defect, after, why) in [
        ("xid", ("fault_xid", 79.into()), 0, "Xid 79 requires a reset"),
        ("action", ("fault_recovery_action", 1.into()), 1, "NVML requests recovery action 1"),
    ] {
        let more = [TIME_SLICING, "--faults=double-free,illegal-instruction,trap,illegal-address"];
        let machine = planted(TURING, &[defect])?;
        let (code, stderr, record) = ended(dir.path(), name, &machine, &more)?;
        // The status of an incomplete record.
        assert_eq!(code, Some(4), "{stderr}");
        let stopped = format!("fault trials stopped early: {why}");
        assert!(
            stderr.contains(&stopped) && stderr.contains("2 of 6 trials did not run"),
            "{stderr}"
        );
        let tables = report(dir.path(), &[name], "terminal")?;
        for notice in [
            format!("FAULT TRIALS STOPPED: {why}"),
            "NOT RUN: 2 of 6 planned fault trials; time-slicing[slice=default]: \
             illegal-address, illegal-instruction"
                .to_owned(),
        ] {
            assert!(tables.contains(&notice), "{tables}");
        }
        let run: Vec<&str> = record.fault_trials.iter().map(|t| t.planned.fault.as_str()).collect();
        assert_eq!(run, ["placebo", "canary", "double-free", "trap"], "{name}");
        let stopped = record.fault_trials_stopped.as_deref().unwrap_or_default();
        assert!(stopped.starts_with(why), "{stopped}");
        let trap = tally(&record, "time-slicing", "trap")?;
        assert_eq!(trap.recovery_before, [(0, 1)].into());
        assert_eq!(trap.recovery_after, [(after, 1)].into());
        assert_eq!(trap.left_as_found, 1 - after);
        let not_run = row(&record, "time-slicing", "illegal-address")?;
        assert!(!not_run.outcome.is_measured());
        let warnings = not_run.warnings.join("; ");
        assert!(
            warnings.contains(&format!("0 of 1 planned trials were held: {why}")),
            "{warnings}"
        );
    }
    Ok(())
}

#[test]
fn ecc_counts_of_a_fault_are_reported_as_changes_of_the_device() -> TestResult {
    let dir = tempfile::tempdir()?;
    let machine = planted(
        HOPPER,
        &[
            ("fault_ecc_corrected", 3.into()),
            ("fault_ecc_uncorrected", 1.into()),
            ("fault_remap_pending", true.into()),
        ],
    )?;
    let more = [TIME_SLICING, "--faults=double-free,trap", "--fault-trials=2"];
    let record = matrix(dir.path(), "ecc", &machine, &more)?;
    let benign = tally(&record, "time-slicing", "double-free")?;
    assert_eq!((benign.left_as_found, benign.ecc_moved.len()), (2, 0));
    let trap = tally(&record, "time-slicing", "trap")?;
    let moved = [
        ("corrected, volatile", 6),
        ("corrected, aggregate", 6),
        ("uncorrected, volatile", 2),
        ("uncorrected, aggregate", 2),
        ("rows remapped, uncorrected", 2),
        ("remap pending", 1),
    ];
    assert_eq!(trap.ecc_moved, moved.map(|(name, by)| (name.to_owned(), by)).into());
    assert_eq!((trap.left_as_found, trap.unknown_if_left, trap.ecc_unobserved), (0, 0, 0));
    // The second trial starts with the counters that the first one left.
    let of = |trial: &FaultResult| (trial.planned.fault == "trap").then_some(trial.observed.ecc);
    let ecc: Vec<_> = record.fault_trials.iter().filter_map(of).collect();
    let counters = |ecc: &EccCounts| (ecc.corrected_volatile, ecc.uncorrected_aggregate);
    assert_eq!(ecc[0].each_ref().map(counters), [(Some(0), Some(0)), (Some(3), Some(1))]);
    assert_eq!(ecc[1].each_ref().map(counters), [(Some(3), Some(1)), (Some(6), Some(2))]);
    assert_eq!(ecc[1][1].remap_failed, Some(0));
    let tables = report(dir.path(), &["ecc"], "md")?;
    assert!(tables.contains("ECC uncorrected, volatile +2"), "{tables}");
    Ok(())
}

#[test]
fn one_seed_gives_the_same_trials_and_another_seed_adds_trials() -> TestResult {
    let dir = tempfile::tempdir()?;
    let faults = "--faults=sigkill,exit-pending,sigstop,trap";
    let run = |name: &str, seed: &str, faults: &str| {
        matrix(dir.path(), name, TURING, &[TIME_SLICING, seed, faults])
    };
    let first = run("a", "--seed=3", faults)?;
    let second = run("b", "--seed=3", faults)?;
    assert_eq!(first.fault_trials, second.fault_trials);
    assert_eq!(first.fault_trials.len(), 6);
    run("c", "--seed=4", "--faults=trap")?;
    let tables = report(dir.path(), &["c", "a", "b"], "md")?;
    assert!(tables.contains("its trials are those of another record that counts"), "{tables}");
    let pooled = report(dir.path(), &["a", "b", "c"], "json")?;
    let pooled = RunRecord::from_json(pooled.as_bytes())?;
    let left_out = pooled.records_left_out.first().ok_or("a record is left out")?;
    let name = dir.path().join("b").display().to_string();
    let why = "its trials are those of another record that counts";
    assert_eq!((&*left_out.record, &*left_out.reason), (&*name, why));
    assert_eq!(pooled.records_left_out.len(), 1);
    assert_eq!(pooled.seed, 4, "the newest is rendered");
    let trap = tally(&pooled, "time-slicing", "trap")?;
    assert_eq!((trap.contained, trap.trials, trap.records), (2, 2, 2));
    assert_eq!(trap.more_for_l2, Some(12));
    let survival = row(&pooled, "time-slicing", "trap")?.survival.as_ref();
    assert_eq!(survival.map(|s| s.n), Some(2));
    // A report of one record counts only its trials.
    let single = RunRecord::from_json(report(dir.path(), &["c"], "json")?.as_bytes())?;
    assert_eq!(tally(&single, "time-slicing", "trap")?.trials, 1);
    Ok(())
}
