//! Fault trials from outside: what the machine file plants is what comes out. Every fault has its
//! code in the process that caused it, reaches exactly whom it should under every mechanism, and
//! the two controls hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use gpubench_record::{Fate, FaultResult, FaultTally, MatrixRow, RunRecord};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Six blocks of one resource, with two victims beside the process that breaks something. The share
/// is one that three instances of a MIG device give.
const PROFILE: &str = concat!(
    "tenants = 3\nshare = \"1/4\"\n",
    include_str!("short.toml"),
    "[faults]\ntrials = 1\n"
);
const TURING: &str = include_str!("../../profiles/machines/turing.toml");
const HOPPER: &str = include_str!("../../profiles/machines/hopper.toml");

/// The machine with defects.
fn planted(machine: &str, defects: &[(&str, toml::Value)]) -> Result<String, Error> {
    let mut machine: toml::Table = machine.parse()?;
    let entry = machine.entry("defects".to_owned());
    let table = entry.or_insert_with(|| toml::Table::new().into());
    for (key, value) in defects {
        let table = table.as_table_mut().ok_or("defects is a table")?;
        table.insert((*key).to_owned(), value.clone());
    }
    Ok(machine.to_string())
}

fn matrix(dir: &Path, name: &str, machine: &str, more: &[&str]) -> Result<RunRecord, Error> {
    let (profile, file) = (dir.join("profile.toml"), dir.join(format!("{name}.toml")));
    std::fs::write(&profile, PROFILE)?;
    std::fs::write(&file, machine)?;
    let out = dir.join(name);
    let done = Command::new(env!("CARGO_BIN_EXE_gpubench"))
        .arg("matrix")
        .arg(format!("--device=virtual:{}", file.display()))
        .arg("--profile")
        .arg(&profile)
        .arg("--out")
        .arg(&out)
        .args(more)
        .stdin(Stdio::null())
        .output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&std::fs::read(
        out.join("record.json"),
    )?)?)
}

/// What became of a trial: each victim's fate and code, the code of whoever caused it, Xids.
type Told = (Vec<(Fate, Option<i32>)>, Option<i32>, Vec<u32>);

fn told(trial: &FaultResult) -> Told {
    let victims = trial.victims.iter().map(|one| (one.fate, one.code));
    let xids = trial.seen.xids.clone().unwrap_or_default();
    (victims.collect(), trial.seen.struck.code, xids)
}

/// The trials of a mechanism by fault, all of which count and left the host as it was found.
fn trials<'a>(
    record: &'a RunRecord,
    mechanism: &str,
) -> Result<BTreeMap<&'a str, &'a FaultResult>, Error> {
    let mut found = BTreeMap::new();
    for trial in &record.fault_trials {
        if trial.mechanism != mechanism {
            continue;
        }
        if !trial.outcome.is_measured() {
            return Err(format!("{}: {:?}", trial.id, trial.outcome).into());
        }
        assert_eq!(trial.seen.left_behind, Some(vec![]), "{}", trial.id);
        assert_eq!(trial.seen.recovery_action, [Some(0); 2], "{}", trial.id);
        found.insert(trial.fault.as_str(), trial);
    }
    Ok(found)
}

fn row<'a>(record: &'a RunRecord, mechanism: &str, fault: &str) -> Result<&'a MatrixRow, Error> {
    let found = record.matrix.iter().find(|row| {
        row.mechanism == mechanism && row.axis == "fault" && row.aggressor.as_deref() == Some(fault)
    });
    found.ok_or_else(|| format!("no row for {fault} under {mechanism}").into())
}

const WELL: (Fate, Option<i32>) = (Fate::Unharmed, None);
const TIME_SLICING: &str = "--mechanism=exclusive,time-slicing";

/// Whom a fault reaches, by nature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nobody.
    Nobody,
    /// The first victim, which is killed.
    Canary,
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
    ("bad-launch", Reach::Nobody, Some(1), &[]),
    ("double-free", Reach::Nobody, Some(1), &[]),
    ("printf-flood", Reach::Nobody, None, &[]),
    ("oom", Reach::Memory, Some(2), &[]),
    ("hang", Reach::Turn, None, &[]),
    ("sigstop", Reach::Nobody, None, &[]),
    ("context-destroy", Reach::Nobody, None, &[]),
    ("exit-pending", Reach::Nobody, None, &[45]),
    ("sigkill", Reach::Nobody, None, &[45]),
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

/// What becomes of both victims of a fault under a mechanism.
fn victims(mechanism: &str, (_, reach, code, xids): &Expected) -> Vec<(Fate, Option<i32>)> {
    let served = mechanism.contains("mps");
    let takes_turns = matches!(mechanism, "time-slicing" | "hami");
    let memory_of_its_own = matches!(mechanism, "mig" | "hami");
    // Static partitions keep SM faults apart on this machine, and no others.
    let partitioned = mechanism == "mps-static" && *xids == [13];
    match reach {
        Reach::Canary => vec![(Fate::Dead, None), WELL],
        Reach::Memory if !memory_of_its_own => vec![(Fate::Dead, Some(2)); 2],
        Reach::Turn if takes_turns => vec![(Fate::Slowed, None); 2],
        Reach::Clients if served && !partitioned => vec![(Fate::Dead, *code); 2],
        Reach::Service => vec![(Fate::Dead, Some(806)); 2],
        _ => vec![WELL; 2],
    }
}

/// The faults that can happen under a mechanism.
fn possible(mechanism: &str, illegal_instruction: bool) -> Vec<&'static Expected> {
    let of = |(fault, ..): &&Expected| match *fault {
        "hami-lock-holder-kill" => mechanism == "hami",
        "illegal-instruction" => illegal_instruction,
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
fn check(record: &RunRecord, mechanism: &str, expected: &[&Expected]) -> Result<(), Error> {
    let trials = trials(record, mechanism)?;
    let names: Vec<&str> = expected.iter().map(|(fault, ..)| *fault).collect();
    let held: Vec<&str> = record
        .fault_trials
        .iter()
        .filter(|trial| trial.mechanism == mechanism)
        .map(|trial| trial.fault.as_str())
        .collect();
    assert_eq!(
        held, names,
        "{mechanism}: all of them, from benign to severe"
    );
    let accepted_ns = |trial: &FaultResult| trial.seen.new_client?.accepted_after_ns;
    let usual_ns = accepted_ns(trials["placebo"]).ok_or("a new client")?;
    for one in expected {
        let (fault, reach, code, xids) = one;
        let what = format!("{fault} under {mechanism}");
        let trial = trials[fault];
        let mut want: Told = (victims(mechanism, one), *code, xids.to_vec());
        // A victim that is killed between two of its kernels leaves no work to be removed.
        if *reach == Reach::Canary && trial.seen.xids.as_ref().is_some_and(Vec::is_empty) {
            want.2.clear();
        }
        assert_eq!(told(trial), want, "{what}");
        let client = trial.seen.new_client.ok_or("a new client")?;
        let later_ns = accepted_ns(trial)
            .ok_or("accepted")?
            .saturating_sub(usual_ns);
        let all_dead = want.0.iter().all(|(fate, _)| *fate == Fate::Dead);
        if *reach == Reach::Clients && all_dead {
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
        assert_eq!(trial.seen.service_gone, gone, "{what}");
    }
    Ok(())
}

fn tally<'a>(record: &'a RunRecord, mechanism: &str, fault: &str) -> Result<&'a FaultTally, Error> {
    let mut tallies = record.fault_tallies.iter();
    let found = tallies.find(|one| one.mechanism == mechanism && one.fault == fault);
    found.ok_or_else(|| format!("no tally of {fault} under {mechanism}").into())
}

#[test]
fn every_fault_reaches_whom_it_should_where_processes_share_the_whole_device() -> Result<(), Error>
{
    let dir = tempfile::tempdir()?;
    let defects = [
        ("illegal_instruction_threads", 100_000_000.into()),
        ("hami_lock_stale_ms", 40.into()),
    ];
    let more = ["--mechanism=exclusive,time-slicing,mps,hami", "--faults"];
    let record = matrix(dir.path(), "whole", &planted(HOPPER, &defects)?, &more)?;
    for mechanism in ["time-slicing", "mps", "hami"] {
        check(&record, mechanism, &possible(mechanism, true))?;
    }
    // Who counts in the region of the dead waits for its lock as long as planted, and nobody else.
    let locked = trials(&record, "hami")?["hami-lock-holder-kill"];
    let struck = &locked.seen.struck;
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
    assert_eq!(trap.victims, [(Fate::Dead, 2)].into());
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
fn every_fault_reaches_whom_it_should_where_the_device_is_cut() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let mechanisms = "--mechanism=exclusive,mps-static,mig";
    let more = [mechanisms, "--faults", "--allow-reconfigure"];
    let record = matrix(dir.path(), "cut", HOPPER, &more)?;
    for mechanism in ["mps-static", "mig"] {
        check(&record, mechanism, &possible(mechanism, false))?;
    }
    let skipped = record.plan.skips.iter().any(|skip| {
        let axis = skip.axis.as_deref() == Some("fault/illegal-instruction");
        axis && skip.mechanism.starts_with("mig")
    });
    assert!(
        skipped,
        "what no machine file plants is told: {:?}",
        record.plan.skips
    );
    Ok(())
}

#[test]
fn a_planted_death_reaches_every_client_of_every_form_of_mps() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let machine = planted(HOPPER, &[("mps_kill_reaches_peers", true.into())])?;
    let more = [
        "--mechanism=exclusive,mps-quota,mig-mps",
        "--allow-reconfigure",
        "--faults=bad-launch,sigkill,mps-terminate-client,trap,illegal-address,mps-server-kill",
    ];
    let record = matrix(dir.path(), "served", &machine, &more)?;
    for mechanism in ["mps-quota", "mig-mps"] {
        let trials = trials(&record, mechanism)?;
        for (fault, victim) in [
            ("placebo", WELL),
            ("bad-launch", WELL),
            ("sigkill", (Fate::Dead, Some(719))),
            // A client that the daemon ends is no client that dies at work.
            ("mps-terminate-client", WELL),
            ("trap", (Fate::Dead, Some(719))),
            ("illegal-address", (Fate::Dead, Some(700))),
            ("mps-server-kill", (Fate::Dead, Some(806))),
        ] {
            assert_eq!(
                told(trials[fault]).0,
                [victim; 2],
                "{fault} under {mechanism}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_planted_fault_that_crosses_contexts_reaches_every_victim() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let machine = planted(TURING, &[("fault_crosses_contexts", true.into())])?;
    let more = [TIME_SLICING, "--faults=trap,bad-launch", "--fault-trials=2"];
    let record = matrix(dir.path(), "crossing", &machine, &more)?;
    let trials = trials(&record, "time-slicing")?;
    for (fault, victims) in [
        ("placebo", [WELL; 2]),
        ("bad-launch", [WELL; 2]),
        ("trap", [(Fate::Dead, Some(719)); 2]),
    ] {
        assert_eq!(told(trials[fault]).0, victims, "{fault}");
    }
    let trap = row(&record, "time-slicing", "trap")?;
    assert_eq!(trap.level.as_deref(), Some("L0"));
    assert_eq!(
        trap.survival.as_ref().map(|s| (s.n, s.value)),
        Some((2, 0.0))
    );
    Ok(())
}

#[test]
fn no_trial_follows_one_after_which_the_device_needs_a_reset() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    for (name, defect, after, why) in [
        (
            "xid",
            ("fault_xid", 79.into()),
            0,
            "Xid 79 asks for a reset",
        ),
        (
            "action",
            ("fault_recovery_action", 1.into()),
            1,
            "NVML asks for recovery action 1",
        ),
    ] {
        let more = [TIME_SLICING, "--faults=double-free,trap,illegal-address"];
        let record = matrix(dir.path(), name, &planted(TURING, &[defect])?, &more)?;
        let held: Vec<&str> = record
            .fault_trials
            .iter()
            .map(|t| t.fault.as_str())
            .collect();
        assert_eq!(held, ["placebo", "canary", "double-free", "trap"], "{name}");
        let stopped = record.fault_trials_stopped.as_deref().unwrap_or_default();
        assert!(stopped.starts_with(why), "{stopped}");
        let trap = tally(&record, "time-slicing", "trap")?;
        assert_eq!(trap.recovery_before, [(0, 1)].into());
        assert_eq!(trap.recovery_after, [(after, 1)].into());
        assert_eq!(trap.left_as_found, 1 - after);
        let not_held = row(&record, "time-slicing", "illegal-address")?;
        assert!(!not_held.outcome.is_measured());
        let told = not_held.warnings.join("; ");
        assert!(
            told.contains(&format!("0 of 1 planned trials were held: {why}")),
            "{told}"
        );
    }
    Ok(())
}

/// What `gpubench report` makes of these records.
fn report(dir: &Path, names: &[&str], format: &str) -> Result<String, Error> {
    let done = Command::new(env!("CARGO_BIN_EXE_gpubench"))
        .arg("report")
        .args(names.iter().map(|name| dir.join(name)))
        .arg(format!("--format={format}"))
        .stdin(Stdio::null())
        .output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

#[test]
fn one_seed_gives_the_same_trials_and_another_one_more_of_them() -> Result<(), Error> {
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
    assert!(
        tables.contains("its trials are those of another record that counts"),
        "{tables}"
    );
    let pooled: RunRecord = serde_json::from_str(&report(dir.path(), &["a", "b", "c"], "json")?)?;
    assert_eq!(pooled.seed, 4, "the newest is rendered");
    let trap = tally(&pooled, "time-slicing", "trap")?;
    assert_eq!((trap.contained, trap.trials, trap.records), (2, 2, 2));
    assert_eq!(trap.more_for_l2, Some(12));
    let survival = row(&pooled, "time-slicing", "trap")?.survival.as_ref();
    assert_eq!(survival.map(|s| s.n), Some(2));
    // A single record counts its own alone, whatever else was run.
    let alone: RunRecord = serde_json::from_str(&report(dir.path(), &["c"], "json")?)?;
    assert_eq!(tally(&alone, "time-slicing", "trap")?.trials, 1);
    Ok(())
}
