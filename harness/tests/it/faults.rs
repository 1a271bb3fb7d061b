//! Fault trials from outside: what the machine file plants is what comes out. Every fault has its
//! code in the process that caused it, reaches exactly whom it should under every mechanism, and
//! the two controls hold.

use crate::support::fault::{
    HOPPER, TIME_SLICING, TURING, matrix, planted, row, tally, trials, without_ecc,
};
use crate::support::{Error, TestResult};
use gpubench_record::{EccCounts, FaultResult, Harm, MatrixRow, RunRecord};

/// What became of a trial: each victim's fate and code, the code of whoever caused it, Xids.
type Told = (Vec<(Harm, Option<i32>)>, Option<i32>, Vec<u32>);

fn told(trial: &FaultResult) -> Told {
    let victims = trial.victims.iter().map(|one| (one.harm, one.code));
    let xids = trial.observed.xids.clone().unwrap_or_default();
    (victims.collect(), trial.observed.injector.code, xids)
}

/// Plants an instruction that no program can have: every fault of the catalogue is held then.
const ILLEGAL_INSTRUCTION: (&str, toml::Value) = (
    "illegal_instruction_threads",
    toml::Value::Integer(100_000_000),
);

const WELL: (Harm, Option<i32>) = (Harm::Unharmed, None);

/// Whom a fault reaches, by nature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nobody.
    Nobody,
    /// The first victim, which is killed.
    Canary,
    /// Nobody; the other clients of its server, where a machine plants that a death at work is one.
    Death,
    /// Whoever needs memory, unless each has its own.
    Memory,
    /// Whoever waits for its turn.
    Turn,
    /// The clients of a shared server, unless partitions keep faults of the SMs apart.
    Clients,
    /// Every client, since the server itself is lost.
    Service,
}

/// A fault with whom it reaches, the code of whoever caused it, and Xids.
type Expected = (&'static str, Reach, Option<i32>, &'static [u32]);

const TABLE: &[Expected] = &[
    ("placebo", Reach::Nobody, None, &[]),
    ("canary", Reach::Canary, None, &[45]),
    ("empty-launch", Reach::Nobody, Some(1), &[]),
    ("bad-launch", Reach::Nobody, Some(1), &[]),
    ("double-free", Reach::Nobody, Some(1), &[]),
    ("printf-flood", Reach::Nobody, None, &[]),
    ("oom", Reach::Memory, Some(2), &[]),
    ("hang", Reach::Turn, None, &[]),
    ("sigstop", Reach::Nobody, None, &[]),
    ("context-destroy", Reach::Nobody, None, &[]),
    ("exit-pending", Reach::Death, None, &[45]),
    ("sigkill", Reach::Death, None, &[45]),
    ("mps-terminate-client", Reach::Nobody, Some(810), &[]),
    ("hami-lock-holder-kill", Reach::Nobody, None, &[]),
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

/// What becomes of both victims of a fault under a mechanism; `deaths` says whether the death of a
/// client at work is planted to be a fault for the others.
fn victims(
    mechanism: &str,
    (_, reach, code, xids): &Expected,
    deaths: bool,
) -> Vec<(Harm, Option<i32>)> {
    let served = mechanism.contains("mps");
    let deaths = deaths && served;
    let takes_turns = matches!(mechanism, "time-slicing" | "hami");
    let memory_of_its_own = matches!(mechanism, "mig" | "hami");
    // Static partitions keep SM faults apart on this machine, and no others.
    let partitioned = mechanism == "mps-static" && *xids == [13];
    match reach {
        Reach::Canary if deaths => vec![(Harm::Dead, None), (Harm::Dead, Some(719))],
        Reach::Death if deaths => vec![(Harm::Dead, Some(719)); 2],
        Reach::Canary => vec![(Harm::Dead, None), WELL],
        Reach::Memory if !memory_of_its_own => vec![(Harm::Dead, Some(2)); 2],
        Reach::Turn if takes_turns => vec![(Harm::Slowed, None); 2],
        Reach::Clients if served && !partitioned => vec![(Harm::Dead, *code); 2],
        Reach::Service => vec![(Harm::Dead, Some(806)); 2],
        _ => vec![WELL; 2],
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

/// How long the MPS of this machine recovers.
fn recovery_ns(machine: &str) -> Result<u64, Error> {
    let machine: toml::Table = machine.parse()?;
    let ms = machine["mps"]["recovery_ms"].as_integer();
    Ok(u64::try_from(ms.ok_or("recovery_ms")?)? * 1_000_000)
}

/// Every trial of a mechanism against what the machine plants.
fn check(record: &RunRecord, mechanism: &str, expected: &[&Expected], deaths: bool) -> TestResult {
    let trials = trials(record, mechanism)?;
    let names: Vec<&str> = expected.iter().map(|(fault, ..)| *fault).collect();
    let held: Vec<&str> = record
        .fault_trials
        .iter()
        .filter(|trial| trial.planned.mechanism == mechanism)
        .map(|trial| trial.planned.fault.as_str())
        .collect();
    assert_eq!(
        held, names,
        "{mechanism}: all of them, from benign to severe"
    );
    let accepted_ns = |trial: &FaultResult| trial.observed.new_client?.accepted_after_ns;
    let usual_ns = accepted_ns(trials["placebo"]).ok_or("a new client")?;
    for one in expected {
        let (fault, reach, code, xids) = one;
        let what = format!("{fault} under {mechanism}");
        let trial = trials[fault];
        let victims = victims(mechanism, one, deaths);
        let all_dead = victims.iter().all(|(fate, _)| *fate == Harm::Dead);
        // The canary's death reaches whoever should break something as well.
        let code = code.or((*reach == Reach::Canary && all_dead).then_some(719));
        let mut want: Told = (victims, code, xids.to_vec());
        // A victim that is killed between two of its kernels leaves no work to be removed.
        if *reach == Reach::Canary && trial.observed.xids.as_ref().is_some_and(Vec::is_empty) {
            want.2.clear();
        }
        assert_eq!(told(trial), want, "{what}");
        let client = trial.observed.new_client.ok_or("a new client")?;
        let later_ns = accepted_ns(trial)
            .ok_or("accepted")?
            .saturating_sub(usual_ns);
        if all_dead && matches!(reach, Reach::Clients | Reach::Death | Reach::Canary) {
            // The server takes nobody until it has recovered; who asks learns it within a try.
            assert_eq!(client.refused_with, Some(807), "{what}");
            let recovery_ns = recovery_ns(HOPPER)?;
            let near = recovery_ns..recovery_ns + 5_000_000;
            assert!(near.contains(&later_ns), "{what}: {later_ns}");
        } else {
            assert_eq!((client.tries, client.refused_with), (1, None), "{what}");
            assert!(later_ns < 5_000_000, "{what}: {later_ns}");
        }
        let gone = mechanism
            .contains("mps")
            .then_some(*fault == "mps-daemon-kill");
        assert_eq!(trial.observed.service_gone, gone, "{what}");
    }
    Ok(())
}

#[test]
fn every_fault_reaches_whom_it_should_where_processes_share_the_whole_device() -> TestResult {
    let dir = tempfile::tempdir()?;
    let defects = [
        ILLEGAL_INSTRUCTION,
        ("hami_lock_stale_ms", toml::Value::Integer(40)),
    ];
    let more = ["--mechanism=exclusive,time-slicing,mps,hami", "--faults"];
    let record = matrix(dir.path(), "whole", &planted(HOPPER, &defects)?, &more)?;
    for mechanism in ["time-slicing", "mps", "hami"] {
        check(&record, mechanism, &possible(mechanism), false)?;
    }
    // Who counts in the region of the dead waits for its lock as long as planted, and nobody else.
    let locked = trials(&record, "hami")?["hami-lock-holder-kill"];
    let struck = &locked.observed.injector;
    let took_ns = struck.detected_ns.zip(struck.began_ns).map(|(d, b)| d - b);
    let near = 40_000_000..42_000_000;
    assert!(took_ns.is_some_and(|ns| near.contains(&ns)), "{took_ns:?}");
    // One trial decides little, and says how much more would; what is never contained is plain.
    let sliced = row(&record, "time-slicing", "trap")?;
    assert_eq!(sliced.level.as_deref(), Some("L1..L3"));
    let of = |row: &MatrixRow| row.survival.as_ref().map(|s| (s.n, s.value));
    assert_eq!(of(sliced), Some((1, 1.0)));
    let oom = row(&record, "time-slicing", "oom")?;
    let shown = (oom.level.as_deref(), oom.word.as_deref());
    assert_eq!(shown, (Some("L0"), Some("None")));
    assert!(
        row(&record, "time-slicing", "placebo").is_err(),
        "controls are not scored"
    );
    let trap = tally(&record, "mps", "trap")?;
    assert_eq!((trap.contained, trap.trials, trap.records), (0, 1, 1));
    assert_eq!(trap.victims, [(Harm::Dead, 2)].into());
    assert_eq!(trap.victim_codes, [(719, 2)].into());
    assert_eq!(
        (&trap.own_codes, &trap.xids),
        (&[(719, 1)].into(), &[(13, 1)].into())
    );
    assert_eq!(trap.refused_with, [(807, 1)].into());
    assert_eq!(
        (trap.left_as_found, trap.unknown_if_left, trap.next_good),
        (1, 0, None)
    );
    assert!(trap.detected.is_some() && trap.new_client.is_some());
    assert_eq!(tally(&record, "mps", "placebo")?.contained, 1);
    assert_eq!(tally(&record, "mps", "canary")?.contained, 0);
    Ok(())
}

#[test]
fn every_fault_reaches_whom_it_should_where_the_device_is_cut() -> TestResult {
    let dir = tempfile::tempdir()?;
    let more = [
        "--mechanism=exclusive,mps-quota,mps-static,mig,mig-mps",
        "--faults",
        "--allow-reconfigure",
    ];
    let defects = [
        ILLEGAL_INSTRUCTION,
        ("mps_kill_reaches_peers", toml::Value::Boolean(true)),
    ];
    let record = matrix(dir.path(), "cut", &planted(HOPPER, &defects)?, &more)?;
    for mechanism in ["mps-quota", "mps-static", "mig", "mig-mps"] {
        check(&record, mechanism, &possible(mechanism), true)?;
    }
    Ok(())
}

#[test]
fn a_planted_fault_that_crosses_contexts_reaches_every_victim() -> TestResult {
    let dir = tempfile::tempdir()?;
    let machine = planted(TURING, &[("fault_crosses_contexts", true.into())])?;
    let machine = without_ecc(&machine);
    let more = [TIME_SLICING, "--faults=trap,bad-launch", "--fault-trials=2"];
    let record = matrix(dir.path(), "crossing", &machine, &more)?;
    let trials = trials(&record, "time-slicing")?;
    for (fault, victims) in [
        ("placebo", [WELL; 2]),
        ("bad-launch", [WELL; 2]),
        ("trap", [(Harm::Dead, Some(719)); 2]),
    ] {
        assert_eq!(told(trials[fault]).0, victims, "{fault}");
    }
    let trap = row(&record, "time-slicing", "trap")?;
    assert_eq!(trap.level.as_deref(), Some("L0"));
    assert_eq!(
        trap.survival.as_ref().map(|s| (s.n, s.value)),
        Some((2, 0.0))
    );
    // What a device does not count is told of nobody, and is no zero.
    let trap = tally(&record, "time-slicing", "trap")?;
    assert_eq!((trap.ecc_unobserved, trap.ecc_moved.len()), (2, 0));
    let counts = record
        .fault_trials
        .iter()
        .flat_map(|trial| trial.observed.ecc);
    assert!(counts.into_iter().all(|ecc| ecc == EccCounts::default()));
    assert_eq!(trap.left_as_found, 2, "nothing that is told has moved");
    Ok(())
}
