//! A program of somebody else's as the victim, end to end on a virtual GPU in wall time. Only what
//! holds on a busy machine is asked for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gpubench_record::foreign::FOREIGN;
use gpubench_record::{CellResult, Condition, GateState, OutcomeKind, RunRecord};

type Error = Box<dyn std::error::Error>;

const SHORT: &str = include_str!("foreign.toml");

/// Builds the program; the linker that builds Rust programs is at hand.
fn program(folder: &Path) -> Result<PathBuf, Error> {
    let (source, built) = (folder.join("victim.c"), folder.join("victim"));
    std::fs::write(&source, include_str!("victim.c"))?;
    let done = Command::new("cc")
        .args(["-Wall", "-O1", "-o"])
        .args([&built, &source])
        .arg("-ldl")
        .output()?;
    assert!(done.status.success(), "{}", said(&done));
    Ok(built)
}

fn said(done: &Output) -> String {
    let both = [&done.stdout[..], &done.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn matrix(folder: &Path, victim: &str) -> Result<Output, Error> {
    let profile = folder.join("short.toml");
    std::fs::write(&profile, SHORT)?;
    let done = Command::new(env!("CARGO_BIN_EXE_gpubench"))
        .args(["matrix", "--device", "virtual", "--victim-cmd", victim])
        .args(["--profile".as_ref(), profile.as_os_str()])
        .args(["--out".as_ref(), folder.join("out").as_os_str()])
        .stdin(Stdio::null())
        .output()?;
    Ok(done)
}

/// Greatest closed-loop rate of a condition: what else the machine does can only slow it.
fn rate_per_s(record: &RunRecord, condition: Condition) -> Result<f64, Error> {
    let of_condition = |cell: &&CellResult| cell.condition == condition;
    let cells = record.cells.iter().filter(of_condition);
    let rates: Vec<f64> = cells
        .filter_map(|cell| cell.rates.get("closed_rate_per_s").copied())
        .collect();
    let greatest = rates.into_iter().reduce(f64::max);
    greatest.ok_or_else(|| format!("{condition:?} has no rate").into())
}

#[test]
fn a_foreign_program_is_measured_alone_and_beside_an_aggressor() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let victim = program(dir.path())?.display().to_string();
    let done = matrix(dir.path(), &victim)?;
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let text = said(&done);
    assert!(text.contains("which no share binds"), "{text}");
    let bytes = std::fs::read(dir.path().join("out/record.json"))?;
    let record: RunRecord = serde_json::from_slice(&bytes)?;
    assert_eq!(record.provenance.clock, "wall");
    assert_eq!(record.cells.len(), 30);
    let planned = record
        .plan
        .foreign
        .as_ref()
        .ok_or("no program in the plan")?;
    assert_eq!(planned.command, victim);
    let entry = &record.calibration.entries[FOREIGN];
    assert!(entry.native_rate_per_s > 0.0 && entry.unit == "requests");
    for cell in &record.cells {
        assert_ne!(cell.outcome.outcome, OutcomeKind::Failed, "{cell:?}");
        let victim = &cell.tenants[0];
        assert_eq!(victim.workload.as_deref(), Some(FOREIGN));
        assert!(
            victim.rows > 0 && victim.schedule_hash.is_none(),
            "{cell:?}"
        );
        let state = |name: &str| {
            let gate = cell.gates.iter().find(|gate| gate.gate == name);
            gate.map(|gate| gate.state)
        };
        assert_eq!(
            state("foreign-process"),
            Some(GateState::Passed),
            "{cell:?}"
        );
        assert_eq!(state("schedule"), Some(GateState::NotEvaluated));
    }
    for row in &record.mechanisms {
        assert!(row.proof.iter().all(|proof| proof.holds), "{row:?}");
        assert!(!row.proof.is_empty(), "{row:?}");
    }
    // Two that want the device all the time have half of it each, less the switches.
    let (solo, beside) = (
        rate_per_s(&record, Condition::S)?,
        rate_per_s(&record, Condition::C)?,
    );
    assert!(beside < 0.8 * solo, "{beside} beside, {solo} alone");
    Ok(())
}

#[test]
fn a_line_that_is_none_ends_the_run_before_anything_is_measured() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let victim = format!("{} badly", program(dir.path())?.display());
    let done = matrix(dir.path(), &victim)?;
    assert_eq!(done.status.code(), Some(3), "{}", said(&done));
    let text = said(&done);
    assert!(
        text.contains("line 2 of the program, \"hello\": ")
            && text.contains("accepted: {\"ready\""),
        "{text}"
    );
    Ok(())
}

#[test]
fn what_does_not_go_with_a_program_is_refused_before_anything_runs() -> Result<(), Error> {
    for more in ["--probes", "--faults"] {
        let done = Command::new(env!("CARGO_BIN_EXE_gpubench"))
            .args([
                "matrix",
                "--device",
                "virtual",
                "--victim-cmd",
                "true",
                more,
            ])
            .output()?;
        assert_eq!(done.status.code(), Some(2), "{}", said(&done));
        assert!(said(&done).contains("cannot be probed or broken"));
    }
    let done = Command::new(env!("CARGO_BIN_EXE_gpubench"))
        .args([
            "plan",
            "--device",
            "virtual",
            "--victim-cmd",
            "./serve --model m",
        ])
        .output()?;
    let text = said(&done);
    assert!(
        text.contains("victim: ./serve --model m (seen by its requests)"),
        "{text}"
    );
    assert!(text.contains("the victim is a program"), "{text}");
    Ok(())
}
