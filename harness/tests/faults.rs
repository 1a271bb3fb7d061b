//! Fault trials from outside: what the machine file plants is what comes out. Every fault has its
//! code in the process that caused it, reaches exactly whom it should, and the two controls hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use gpubench_record::{Fate, FaultResult, MatrixRow, RunRecord};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Six blocks of one resource, with two victims beside the process that breaks something.
const PROFILE: &str = concat!("tenants = 3\n", include_str!("short.toml"));
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
/// A fault, what becomes of both victims, the code of whoever caused it, and Xids.
type Expected = (
    &'static str,
    [(Fate, Option<i32>); 2],
    Option<i32>,
    &'static [u32],
);
const TIME_SLICING: &str = "--mechanism=exclusive,time-slicing";

#[test]
fn time_slicing_keeps_faults_with_whoever_causes_them() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let machine = planted(
        TURING,
        &[("illegal_instruction_threads", 100_000_000.into())],
    )?;
    let more = [TIME_SLICING, "--faults", "--fault-trials=1"];
    let record = matrix(dir.path(), "all", &machine, &more)?;
    let trials = trials(&record, "time-slicing")?;
    let killed = [(Fate::Dead, None), WELL];
    let starved = [(Fate::Dead, Some(2)); 2];
    let slowed = [(Fate::Slowed, None); 2];
    let table: &[Expected] = &[
        ("placebo", [WELL; 2], None, &[]),
        ("canary", killed, None, &[45]),
        ("bad-launch", [WELL; 2], Some(1), &[]),
        ("double-free", [WELL; 2], Some(1), &[]),
        ("printf-flood", [WELL; 2], None, &[]),
        ("oom", starved, Some(2), &[]),
        ("hang", slowed, None, &[]),
        ("sigstop", [WELL; 2], None, &[]),
        ("context-destroy", [WELL; 2], None, &[]),
        ("exit-pending", [WELL; 2], None, &[45]),
        ("sigkill", [WELL; 2], None, &[45]),
        ("assert", [WELL; 2], Some(710), &[]),
        ("trap", [WELL; 2], Some(719), &[13]),
        ("misaligned", [WELL; 2], Some(716), &[13]),
        ("shared-oob", [WELL; 2], Some(719), &[13]),
        ("stack-overflow", [WELL; 2], Some(714), &[13]),
        ("wrong-address-space", [WELL; 2], Some(717), &[13]),
        ("bad-pc", [WELL; 2], Some(718), &[13]),
        ("illegal-instruction", [WELL; 2], Some(715), &[13]),
        ("illegal-address", [WELL; 2], Some(700), &[31]),
        ("ipc-exporter-exit", [WELL; 2], Some(700), &[31]),
    ];
    assert_eq!(trials.len(), table.len());
    for (fault, victims, code, xids) in table {
        let trial = trials.get(fault).ok_or(*fault)?;
        let want: Told = (victims.to_vec(), *code, xids.to_vec());
        assert_eq!(told(trial), want, "{fault}");
        let client = trial.seen.new_client.ok_or("a new client")?;
        assert_eq!((client.tries, client.refused_with), (1, None), "{fault}");
    }
    // One trial decides little, and says how much more would; what is never contained is plain.
    let trap = row(&record, "time-slicing", "trap")?;
    assert_eq!(trap.level.as_deref(), Some("L1..L3"));
    assert_eq!(
        trap.survival.as_ref().map(|s| (s.n, s.value)),
        Some((1, 1.0))
    );
    let oom = row(&record, "time-slicing", "oom")?;
    assert_eq!(
        (oom.level.as_deref(), oom.word.as_deref()),
        (Some("L0"), Some("None"))
    );
    assert!(
        row(&record, "time-slicing", "placebo").is_err(),
        "controls are not scored"
    );
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
fn mps_lets_a_fatal_fault_reach_every_client_and_recovers_as_planted() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let more = [
        "--mechanism=exclusive,mps,mps-static",
        "--faults=trap,illegal-address",
        "--fault-trials=1",
    ];
    let record = matrix(dir.path(), "mps", HOPPER, &more)?;
    let machine: toml::Table = HOPPER.parse()?;
    let recovery_ms = machine["mps"]["recovery_ms"]
        .as_integer()
        .ok_or("recovery_ms")?;
    let recovery_ns = u64::try_from(recovery_ms)? * 1_000_000;
    let context_ns = {
        let placebo = trials(&record, "mps")?["placebo"];
        let client = placebo.seen.new_client.ok_or("a new client")?;
        client.accepted_after_ns.ok_or("accepted")?
    };
    let dead = |code| vec![(Fate::Dead, Some(code)); 2];
    for (mechanism, fault, victims, reached) in [
        ("mps", "trap", dead(719), true),
        ("mps", "illegal-address", dead(700), true),
        // Static partitions keep SM faults apart on this machine, and no others.
        ("mps-static", "trap", vec![WELL; 2], false),
        ("mps-static", "illegal-address", dead(700), true),
        ("mps", "placebo", vec![WELL; 2], false),
    ] {
        let trial = trials(&record, mechanism)?[fault];
        assert_eq!(told(trial).0, victims, "{fault} under {mechanism}");
        let client = trial.seen.new_client.ok_or("a new client")?;
        let accepted_ns = client.accepted_after_ns.ok_or("accepted")?;
        let over_ns = accepted_ns.saturating_sub(context_ns);
        if reached {
            // The server takes nobody until it has recovered; whoever asks learns it within a try.
            assert_eq!(client.refused_with, Some(807), "{fault} under {mechanism}");
            let near = recovery_ns..recovery_ns + 5_000_000;
            assert!(
                near.contains(&over_ns),
                "{fault} under {mechanism}: {over_ns}"
            );
        } else {
            assert_eq!(client.tries, 1, "{fault} under {mechanism}");
        }
    }
    Ok(())
}

#[test]
fn one_seed_gives_the_same_trials() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let more = [
        TIME_SLICING,
        "--seed=3",
        "--faults=sigkill,exit-pending,sigstop,trap",
        "--fault-trials=1",
    ];
    let first = matrix(dir.path(), "a", TURING, &more)?;
    let second = matrix(dir.path(), "b", TURING, &more)?;
    assert_eq!(first.fault_trials, second.fault_trials);
    assert_eq!(first.fault_trials.len(), 6);
    Ok(())
}
