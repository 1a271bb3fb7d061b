//! Fault trials report what the machine file plants. Every fault has its error code in the process
//! that caused it and harms exactly the expected victims under every mechanism. Both controls hold.

use gpubench_record::{EccCounts, FaultResult, Harm, Json, MatrixRow, RunRecord};

use crate::support::fault::{
    HOPPER, TIME_SLICING, TURING, ended, matrix, planted, report, row, tally, trials, without_ecc,
};
use crate::support::{Error, TestResult};

/// The result of a trial: harm and error code of each victim, the injector's code, Xids.
type Outcome = (Vec<(Harm, Option<i32>)>, Option<i32>, Vec<u32>);

fn outcome(trial: &FaultResult) -> Outcome {
    let victims = trial.victims.iter().map(|one| (one.harm, one.code));
    let xids = trial.observed.xids.clone().unwrap_or_default();
    (victims.collect(), trial.observed.injector.code, xids)
}

/// A device plants an illegal instruction, so that every fault of the catalogue happens.
const ILLEGAL_INSTRUCTION: (&str, toml::Value) =
    ("illegal_instruction_threads", toml::Value::Integer(100_000_000));

const WELL: (Harm, Option<i32>) = (Harm::Unharmed, None);

/// The victims that a fault reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// No victim.
    None,
    /// The first victim, which is killed.
    FirstVictim,
    /// The clients of a shared server, with the code of a memory fault.
    Death,
    /// Victims that allocate from the same memory.
    Memory,
    TimeSlice,
    /// The clients of a shared server, unless static partitions contain faults of the SMs.
    Clients,
    /// Every client, because the server ends.
    Service,
}

/// A fault, the victims that it reaches, the code in its injector, and Xids.
type Expected = (&'static str, Reach, Option<i32>, &'static [u32]);

const TABLE: &[Expected] = &[
    ("placebo", Reach::None, None, &[]),
    ("canary", Reach::FirstVictim, None, &[45]),
    ("empty-launch", Reach::None, Some(1), &[]),
    ("bad-launch", Reach::None, Some(1), &[]),
    ("double-free", Reach::None, Some(1), &[]),
    ("printf-flood", Reach::None, None, &[]),
    ("oom", Reach::Memory, Some(2), &[]),
    ("hang", Reach::TimeSlice, None, &[]),
    ("sigstop", Reach::None, None, &[]),
    ("context-destroy", Reach::None, None, &[]),
    ("exit-pending", Reach::Death, None, &[45]),
    ("sigkill", Reach::Death, None, &[45]),
    ("mps-terminate-client", Reach::None, Some(810), &[]),
    ("hami-lock-holder-kill", Reach::None, None, &[]),
    ("assert", Reach::Clients, Some(710), &[]),
    ("trap", Reach::Clients, Some(719), &[13]),
    ("misaligned", Reach::Clients, Some(716), &[13]),
    ("shared-oob", Reach::Clients, Some(719), &[13]),
    ("stack-overflow", Reach::Clients, Some(714), &[13]),
    ("wrong-address-space", Reach::Clients, Some(717), &[13]),
    ("bad-pc", Reach::Clients, Some(718), &[13]),
    ("illegal-instruction", Reach::Clients, Some(715), &[13]),
    ("illegal-address", Reach::Clients, Some(700), &[31]),
    ("ipc-exporter-exit", Reach::Clients, Some(700), &[31]),
    ("mps-server-kill", Reach::Service, Some(806), &[]),
    ("mps-daemon-kill", Reach::Service, Some(806), &[]),
];

fn victims(mechanism: &str, (_, reach, code, xids): &Expected) -> Vec<(Harm, Option<i32>)> {
    let served = mechanism.contains("mps");
    let is_time_sliced = matches!(mechanism, "time-slicing" | "hami");
    let own_memory = matches!(mechanism, "mig" | "hami");
    // Static partitions contain only SM faults on this machine.
    let partitioned = mechanism == "mps-static" && *xids == [13];
    match reach {
        Reach::Death if served => vec![(Harm::Dead, Some(700)); 2],
        Reach::FirstVictim => vec![(Harm::Dead, None), WELL],
        Reach::Memory if !own_memory => vec![(Harm::Dead, Some(2)); 2],
        Reach::TimeSlice if is_time_sliced => vec![(Harm::Slowed, None); 2],
        Reach::Clients if served && !partitioned => vec![(Harm::Dead, *code); 2],
        Reach::Service => vec![(Harm::Dead, Some(806)); 2],
        _ => vec![WELL; 2],
    }
}

/// The expected Xids. Under MPS the death of a client is a memory fault of its server if its work
/// lasts longer than the driver takes to remove it, which a victim's request does not.
fn xids(mechanism: &str, (_, reach, _, xids): &Expected) -> Vec<u32> {
    match reach {
        Reach::Death if mechanism.contains("mps") => vec![31],
        Reach::FirstVictim if mechanism.contains("mps") => Vec::new(),
        _ => xids.to_vec(),
    }
}

/// The faults that can happen under a mechanism.
fn possible(mechanism: &str) -> Vec<&'static Expected> {
    let of = |(fault, ..): &&Expected| match *fault {
        "hami-lock-holder-kill" => mechanism == "hami",
        fault if fault.starts_with("mps-") => mechanism.contains("mps"),
        _ => true,
    };
    TABLE.iter().filter(of).collect()
}

/// The option that names every fault: one that no PTX raises is injected only by name.
fn all_faults() -> String {
    let names: Vec<&str> = TABLE.iter().map(|(fault, ..)| *fault).collect();
    format!("--faults={}", names.join(","))
}

fn recovery_ns(machine: &str) -> Result<u64, Error> {
    let machine: toml::Table = machine.parse()?;
    let ms = machine["mps"]["recovery_ms"].as_integer();
    Ok(u64::try_from(ms.ok_or("recovery_ms")?)? * 1_000_000)
}

/// Compares every trial of a mechanism with what the machine plants.
fn check(record: &RunRecord, mechanism: &str, expected: &[&Expected]) -> TestResult {
    let trials = trials(record, mechanism)?;
    let names: Vec<&str> = expected.iter().map(|(fault, ..)| *fault).collect();
    let run: Vec<&str> = record
        .fault_trials
        .iter()
        .filter(|trial| trial.planned.mechanism == mechanism)
        .map(|trial| trial.planned.fault.as_str())
        .collect();
    assert_eq!(run, names, "{mechanism}: all faults, from benign to severe");
    let accepted_ns = |trial: &FaultResult| trial.observed.new_client?.accepted_after_ns;
    let usual_ns = accepted_ns(trials["placebo"]).ok_or("a new client")?;
    for one in expected {
        let (fault, reach, code, _) = one;
        let what = format!("{fault} under {mechanism}");
        let trial = trials[fault];
        let victims = victims(mechanism, one);
        let all_dead = victims.iter().all(|(harm, _)| *harm == Harm::Dead);
        let mut wanted: Outcome = (victims, *code, xids(mechanism, one));
        // A victim that is killed between two kernels has no work to remove, so there is no Xid.
        if *reach == Reach::FirstVictim && trial.observed.xids.as_ref().is_some_and(Vec::is_empty) {
            wanted.2.clear();
        }
        assert_eq!(outcome(trial), wanted, "{what}");
        let client = trial.observed.new_client.ok_or("a new client")?;
        let later_ns = accepted_ns(trial).ok_or("accepted")?.saturating_sub(usual_ns);
        if all_dead && matches!(reach, Reach::Clients | Reach::Death) {
            // The server refuses clients until it has recovered; the next try succeeds.
            assert_eq!(client.refused_with, Some(807), "{what}");
            let recovery_ns = recovery_ns(HOPPER)?;
            let near = recovery_ns..recovery_ns + 5_000_000;
            assert!(near.contains(&later_ns), "{what}: {later_ns}");
        } else {
            assert_eq!((client.tries, client.refused_with), (1, None), "{what}");
            assert!(later_ns < 5_000_000, "{what}: {later_ns}");
        }
        let service_gone = mechanism.contains("mps").then_some(*fault == "mps-daemon-kill");
        assert_eq!(trial.observed.service_gone, service_gone, "{what}");
    }
    Ok(())
}

#[test]
fn every_fault_reaches_the_expected_victims_on_a_whole_device() -> TestResult {
    let dir = tempfile::tempdir()?;
    let defects = [ILLEGAL_INSTRUCTION, ("hami_lock_stale_ms", toml::Value::Integer(40))];
    let faults = all_faults();
    let more = ["--mechanism=exclusive,time-slicing,mps,hami", &faults];
    let record = matrix(dir.path(), "whole", &planted(HOPPER, &defects)?, &more)?;
    for mechanism in ["time-slicing", "mps", "hami"] {
        check(&record, mechanism, &possible(mechanism))?;
    }
    // A process that shares the region waits for the dead owner of its lock as long as planted.
    let locked = trials(&record, "hami")?["hami-lock-holder-kill"];
    let injector = &locked.observed.injector;
    let times = injector.detected_ns.zip(injector.began_ns);
    let wait_ns = times.map(|(detected, began)| detected - began);
    let near = 40_000_000..42_000_000;
    assert!(wait_ns.is_some_and(|ns| near.contains(&ns)), "{wait_ns:?}");
    // One trial decides little.
    let sliced = row(&record, "time-slicing", "trap")?;
    assert_eq!(sliced.level.as_deref(), Some("L1..L3"));
    let survival = |row: &MatrixRow| row.survival.as_ref().map(|s| (s.n, s.value));
    assert_eq!(survival(sliced), Some((1, 1.0)));
    let oom = row(&record, "time-slicing", "oom")?;
    let verdict = (oom.level.as_deref(), oom.word.as_deref());
    assert_eq!(verdict, (Some("L0..L3"), None));
    assert!(row(&record, "time-slicing", "placebo").is_err(), "controls are not scored");
    let trap = tally(&record, "mps", "trap")?;
    assert_eq!((trap.contained, trap.trials, trap.records), (0, 1, 1));
    assert_eq!(trap.victims, [(Harm::Dead, 2)].into());
    assert_eq!(trap.victim_codes, [(719, 2)].into());
    assert_eq!((&trap.own_codes, &trap.xids), (&[(719, 1)].into(), &[(13, 1)].into()));
    assert_eq!(trap.refused_with, [(807, 1)].into());
    assert_eq!((trap.left_as_found, trap.unknown_if_left, trap.next_good), (1, 0, None));
    assert!(trap.detected.is_some() && trap.new_client.is_some());
    assert_eq!(tally(&record, "mps", "placebo")?.contained, 1);
    assert_eq!(tally(&record, "mps", "canary")?.contained, 0);
    Ok(())
}

#[test]
fn every_fault_reaches_the_expected_victims_on_a_partitioned_device() -> TestResult {
    let dir = tempfile::tempdir()?;
    let faults = all_faults();
    let more =
        ["--mechanism=exclusive,mps-quota,mps-static,mig,mig-mps", &faults, "--allow-reconfigure"];
    let machine = planted(HOPPER, &[ILLEGAL_INSTRUCTION])?;
    let record = matrix(dir.path(), "cut", &machine, &more)?;
    for mechanism in ["mps-quota", "mps-static", "mig", "mig-mps"] {
        check(&record, mechanism, &possible(mechanism))?;
    }
    Ok(())
}

#[test]
fn a_planted_fault_across_contexts_reaches_every_victim() -> TestResult {
    let dir = tempfile::tempdir()?;
    let machine = planted(TURING, &[("fault_crosses_contexts", true.into())])?;
    let machine = without_ecc(&machine);
    let more = [TIME_SLICING, "--faults=trap,bad-launch", "--fault-trials=2"];
    let record = matrix(dir.path(), "crossing", &machine, &more)?;
    let trials = trials(&record, "time-slicing")?;
    for (fault, victims) in
        [("placebo", [WELL; 2]), ("bad-launch", [WELL; 2]), ("trap", [(Harm::Dead, Some(719)); 2])]
    {
        assert_eq!(outcome(trials[fault]).0, victims, "{fault}");
    }
    let trap = row(&record, "time-slicing", "trap")?;
    assert_eq!(trap.level.as_deref(), Some("L0..L2"));
    assert_eq!(trap.survival.as_ref().map(|s| (s.n, s.value)), Some((2, 0.0)));
    // Counters that the device does not have are unset, not 0.
    let trap = tally(&record, "time-slicing", "trap")?;
    assert_eq!((trap.ecc_unobserved, trap.ecc_moved.len()), (2, 0));
    let counts = record.fault_trials.iter().flat_map(|trial| trial.observed.ecc);
    assert!(counts.into_iter().all(|ecc| ecc == EccCounts::default()));
    assert_eq!(trap.left_as_found, 2, "no reported state changed");
    Ok(())
}

// The state in which fault trials leave the device, when further trials stop, and which records
// are counted together.

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
        let tables = report(dir.path(), &[name], "text")?;
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
    assert_eq!(trap.more_for_l2, Some(15));
    let survival = row(&pooled, "time-slicing", "trap")?.survival.as_ref();
    assert_eq!(survival.map(|s| s.n), Some(2));
    // A report of one record counts only its trials.
    let single = RunRecord::from_json(report(dir.path(), &["c"], "json")?.as_bytes())?;
    assert_eq!(tally(&single, "time-slicing", "trap")?.trials, 1);
    Ok(())
}
