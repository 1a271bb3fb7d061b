//! A user's program as the victim, end to end on a virtual GPU in wall time. Only what
//! holds on a busy machine is asked for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{Error, TestResult, binary};
use gpubench_record::user_victim::USER_VICTIM;
use gpubench_record::{
    CellResult, Condition, Gate, GateState, MechanismRow, OutcomeKind, RunRecord,
};

const SHORT: &str = include_str!("data/foreign.toml");

/// Where only proofs count and no figure.
const SHORTER: &str = include_str!("data/foreign_proofs.toml");

/// Builds the program; the linker that builds Rust programs is at hand.
fn program(folder: &Path) -> Result<PathBuf, Error> {
    let (source, built) = (folder.join("victim.c"), folder.join("victim"));
    std::fs::write(&source, include_str!("data/victim.c"))?;
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
    matrix_of(SHORT, folder, victim, &[])
}

fn matrix_of(text: &str, folder: &Path, victim: &str, more: &[&str]) -> Result<Output, Error> {
    let profile = folder.join("short.toml");
    std::fs::write(&profile, text)?;
    let done = binary()
        .args(["matrix", "--device", "virtual", "--victim-cmd", victim])
        .args(["--profile".as_ref(), profile.as_os_str()])
        .args(["--out".as_ref(), folder.join("out").as_os_str()])
        .args(more)
        .env("XDG_STATE_HOME", folder.join("state"))
        .env(MARK, folder)
        .stdin(Stdio::null())
        .output()?;
    Ok(done)
}

/// Set for a run and for all that descends from it.
const MARK: &str = "GPUBENCH_TEST_RUN";

/// Processes of a run, whoever their parents are.
fn left_behind(folder: &Path) -> Vec<String> {
    let mark = format!("{MARK}={}", folder.display());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_ours = |pid: &std::fs::DirEntry| {
        let set = std::fs::read(pid.path().join("environ")).unwrap_or_default();
        set.split(|&byte| byte == 0)
            .any(|variable| variable == mark.as_bytes())
    };
    let told = |pid: std::fs::DirEntry| {
        let line = std::fs::read(pid.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    };
    entries.filter(is_ours).map(told).collect()
}

fn record(folder: &Path) -> Result<RunRecord, Error> {
    let bytes = std::fs::read(folder.join("out/record.json"))?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Greatest closed-loop rate of a condition: what else the machine does can only slow it.
fn rate_per_s(record: &RunRecord, condition: Condition) -> Result<f64, Error> {
    let of_condition = |cell: &&CellResult| cell.cell.condition == condition;
    let cells = record.cells.iter().filter(of_condition);
    let rates: Vec<f64> = cells
        .filter_map(|cell| cell.rates.get("closed_rate_per_s").copied())
        .collect();
    let greatest = rates.into_iter().reduce(f64::max);
    greatest.ok_or_else(|| format!("{condition:?} has no rate").into())
}

#[test]
fn a_foreign_program_is_measured_alone_and_beside_an_aggressor() -> TestResult {
    let dir = tempfile::tempdir()?;
    let victim = program(dir.path())?.display().to_string();
    let done = matrix(dir.path(), &victim)?;
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let text = said(&done);
    assert!(text.contains("which no share binds"), "{text}");
    let record = record(dir.path())?;
    assert_eq!(record.provenance.clock, "wall");
    assert_eq!(record.cells.len(), 30);
    let planned = record
        .plan
        .user_victim
        .as_ref()
        .ok_or("no program in the plan")?;
    assert_eq!(planned.command, victim);
    let entry = &record.calibration.entries[USER_VICTIM];
    assert!(entry.native_rate_per_s > 0.0 && entry.unit == "requests");
    for cell in &record.cells {
        assert_ne!(cell.outcome.outcome, OutcomeKind::Failed, "{cell:?}");
        let victim = &cell.tenant_results[0];
        assert_eq!(victim.planned.workload.as_deref(), Some(USER_VICTIM));
        assert!(
            victim.rows > 0 && victim.schedule_hash.is_none(),
            "{cell:?}"
        );
        let state = |gate| cell.gate_state(&gate);
        assert_eq!(
            state(Gate::ForeignProcess),
            Some(GateState::Passed),
            "{cell:?}"
        );
        assert_eq!(state(Gate::Schedule), Some(GateState::NotEvaluated));
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

/// The proofs of a mechanism, and its outcome with the reason.
fn proved<'a>(
    record: &'a RunRecord,
    name: &str,
) -> Result<(&'a MechanismRow, Vec<&'a str>), Error> {
    let row = record.mechanisms.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| format!("{name} has no row"))?;
    let failed = row.proof.iter().filter(|proof| !proof.holds);
    Ok((row, failed.map(|proof| proof.check.as_str()).collect()))
}

/// Of those whose proofs are alike one is enough here; `ci/check_victim.py` asks for every one.
#[test]
fn mechanisms_of_processes_hold_a_program_and_others_waive_it() -> TestResult {
    let dir = tempfile::tempdir()?;
    let victim = program(dir.path())?.display().to_string();
    let with_variables = "the program was started with the variables of its mechanism";
    let in_instance = "NVML lists the program in the instance that it was handed";
    let clients = "every tenant is a client of our MPS daemon";
    let all = [
        ("exclusive-process", "a second process is refused with 46"),
        ("mps-static", with_variables),
        ("mig-mps", clients),
        ("mig-mps", in_instance),
        ("hami", "the library is in every tenant"),
    ];
    let inside = ["green-context", "stream-priority"];
    let mut names: Vec<&str> = all.iter().map(|(name, _)| *name).chain(inside).collect();
    names.dedup();
    let names = format!("exclusive,{}", names.join(","));
    let more = ["--allow-reconfigure", "--mechanism", &names];
    let done = matrix_of(SHORTER, dir.path(), &victim, &more)?;
    // Two were named and are not there; the rest is measured.
    assert_eq!(done.status.code(), Some(3), "{}", said(&done));
    let missing = "requested by --mechanism and waived: green-context";
    assert!(said(&done).contains(missing), "{}", said(&done));
    let record = record(dir.path())?;
    for (name, check) in all {
        let (row, failed) = proved(&record, name)?;
        assert!(row.outcome.is_measured() && failed.is_empty(), "{row:?}");
        let has = row.proof.iter().any(|proof| proof.check == check);
        assert!(has, "{row:?}");
    }
    for name in inside {
        let (row, _) = proved(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Waived, "{row:?}");
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert!(reason.ends_with("and the victim is a program"), "{reason}");
    }
    assert_eq!(left_behind(dir.path()), [] as [String; 0]);
    Ok(())
}

#[test]
fn a_program_that_drops_what_it_was_handed_is_not_under_its_mechanism() -> TestResult {
    let dir = tempfile::tempdir()?;
    let dropped = "env -u LD_PRELOAD -u CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
    let victim = format!("{dropped} {}", program(dir.path())?.display());
    let more = ["--mechanism", "exclusive,mps-quota,hami"];
    matrix_of(SHORTER, dir.path(), &victim, &more)?;
    let record = record(dir.path())?;
    for (name, check, told) in [
        (
            "mps-quota",
            "the program was started with the variables of its mechanism",
            "lacks CUDA_MPS_ACTIVE_THREAD_PERCENTAGE as it was set",
        ),
        (
            "hami",
            "the library is in every tenant",
            "victim: not mapped",
        ),
    ] {
        let (row, failed) = proved(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Failed, "{row:?}");
        assert!(failed.contains(&check), "{row:?}");
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert!(
            reason.starts_with("not in force: ") && reason.contains(told),
            "{reason}"
        );
    }
    Ok(())
}

/// Commands that never become a victim, and what is told of each.
const NO_VICTIMS: [(&str, &[&str], &str); 8] = [
    (
        "/no/such/program --serve",
        &[],
        "exit status 127, which is the shell's for a command not found",
    ),
    ("exit 1", &[], "the program ended: exit status 1"),
    ("true", &["--victim-reports", "lines"], "exit status 0"),
    (
        "while :; do echo garbage >&$GPUBENCH_VICTIM_FD; done",
        &[],
        "line 1 of the program, \"garbage\": it is no JSON object (accepted: {\"ready\":true}",
    ),
    (
        "echo '{\"error\":\"no model\"}' >&$GPUBENCH_VICTIM_FD; sleep 600",
        &[],
        "the program says: no model",
    ),
    (
        "sleep 600",
        &["--victim-ready", "1s"],
        "it was not ready within 1 s, which --victim-ready sets: no {\"ready\":true} came",
    ),
    (
        "sleep 600",
        &["--victim-reports", "lines", "--victim-ready", "1500ms"],
        "it was not ready within 1.5 s, which --victim-ready sets: it printed no line",
    ),
    (
        "VICTIM badly",
        &[],
        "line 2 of the program, \"hello\": it is no JSON object",
    ),
];

#[test]
fn what_is_no_victim_ends_the_run_with_one_line_and_leaves_nothing() -> TestResult {
    let dir = tempfile::tempdir()?;
    let victim = program(dir.path())?.display().to_string();
    for (command, more, told) in NO_VICTIMS {
        // Beside a process that has left the group and does not heed SIGTERM.
        let stubborn = "trap '' TERM; (setsid sleep 600 &); sleep 600 &";
        let command = format!(
            "{stubborn} {}",
            command.replace("VICTIM badly", &format!("{victim} badly"))
        );
        let done = matrix_of(SHORT, dir.path(), &command, more)?;
        std::fs::remove_dir_all(dir.path().join("out"))?;
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(3), "{command}: {text}");
        let line = text.lines().find(|line| line.starts_with("error: "));
        let line = line.ok_or_else(|| format!("{command}: {text}"))?;
        let start = "error: victim program cannot be measured: ";
        assert!(
            line.starts_with(start) && line.contains(told),
            "{command}: {line}"
        );
        assert!(text.contains("workloads/README.md"), "{text}");
        assert_eq!(left_behind(dir.path()), [] as [String; 0], "{command}");
    }
    Ok(())
}

#[test]
fn a_program_without_a_context_is_told_so() -> TestResult {
    let dir = tempfile::tempdir()?;
    let victim = "while :; do echo step; sleep 0.002; done";
    let more = ["--victim-reports", "lines"];
    let more = [&more[..], &["--mechanism", "exclusive,time-slicing,mps"]].concat();
    let done = matrix_of(SHORTER, dir.path(), victim, &more)?;
    assert_eq!(done.status.code(), Some(4), "{}", said(&done));
    let record = record(dir.path())?;
    for (name, told) in [
        ("exclusive", "the victim has no context on the device"),
        ("time-slicing", "the program has no context on the device"),
        ("mps", "without ["),
    ] {
        let (row, _) = proved(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Failed, "{row:?}");
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert!(reason.contains(told), "{reason}");
    }
    assert_eq!(left_behind(dir.path()), [] as [String; 0]);
    Ok(())
}

#[test]
fn a_program_that_does_harm_fails_its_cells_and_leaves_nothing() -> TestResult {
    let dir = tempfile::tempdir()?;
    let (program, count) = (program(dir.path())?, dir.path().join("orders"));
    let victim = format!("{} wicked {}", program.display(), count.display());
    let done = matrix(dir.path(), &victim)?;
    assert_eq!(done.status.code(), Some(4), "{}", said(&done));
    assert_eq!(left_behind(dir.path()), [] as [String; 0]);
    let record = record(dir.path())?;
    let failed: Vec<&str> = record
        .cells
        .iter()
        .filter(|cell| cell.outcome.outcome == OutcomeKind::Failed)
        .map(|cell| cell.outcome.reason.as_deref().unwrap_or_default())
        .collect();
    // In the order of the lives that victim.c has them in.
    let wanted = [
        "of the program, \"took 3 ms\": it is no JSON object",
        "the program ended: exit status 137, which is the shell's for a process killed by signal 9",
        "the program ended: exit status 0",
        "more than 100000 requests a second, which no GPU does",
        "the program did not report {\"done\":true} within 10 s of until_ns",
    ];
    assert_eq!(failed.len(), wanted.len(), "{failed:#?}");
    for (failed, wanted) in failed.iter().zip(wanted) {
        assert!(
            failed.contains(wanted) && !failed.contains('\n'),
            "{failed}"
        );
    }
    // A fresh program has been measured in between.
    let measured = record
        .cells
        .iter()
        .filter(|cell| cell.outcome.is_measured());
    assert!(measured.count() > 12);
    Ok(())
}

#[test]
fn what_does_not_go_with_a_program_is_refused_before_anything_runs() -> TestResult {
    for more in ["--probes", "--faults"] {
        let done = binary()
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
        assert!(said(&done).contains("need built-in victims"), "{more}");
    }
    let done = binary()
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
        text.contains(
            "victim: ./serve --model m (measured by its requests), restarted for most cells, ready \
             within 1min"
        ),
        "{text}"
    );
    assert!(text.contains("the victim is a program"), "{text}");
    Ok(())
}
