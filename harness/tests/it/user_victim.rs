//! A user's program as the victim, on a virtual GPU in wall time. The checks hold on a busy
//! machine.

use std::process::Command;

use gpubench_record::user_victim::USER_VICTIM;
use gpubench_record::{
    CellResult, Condition, Gate, GateState, MechanismRow, OutcomeKind, RunRecord,
};

use crate::support::{
    Error, Finished, Lab, TestResult, finish, gpubench, processes_with, quick_hopper, wait_during,
};

const SHORT: &str = include_str!("data/user_victim.toml");

/// For tests that check proofs and no figures.
const SHORTER: &str = include_str!("data/user_victim_proofs.toml");

/// Compiles the victim in the lab's folder. Returns its path.
fn victim_program(lab: &Lab) -> Result<String, Error> {
    lab.write("victim.c", include_str!("data/victim.c"))?;
    let (source, built) = (lab.arg("victim.c"), lab.arg("victim"));
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-O1", "-o", &built, &source, "-ldl"]);
    finish(compiler)?.ended_with(0)?;
    Ok(built)
}

fn lab(profile: &str) -> Result<Lab, Error> {
    Lab::of_machine(&quick_hopper()?)?.profile(profile)
}

fn matrix(lab: &Lab, victim: &str, more: &[&str]) -> Result<Finished, Error> {
    let mut command = lab.matrix("out", more);
    command.args(["--victim-cmd", victim]).env(MARK, lab.path(""));
    let mut run = command.spawn()?;
    wait_during(&mut run, "the run itself is found", || !left_behind(lab).is_empty())?;
    Ok(run.wait_with_output()?.into())
}

/// Set for a run and all its descendants, which inherit variables with this beginning.
const MARK: &str = "XDG_GPUBENCH_TEST_RUN";

/// Command lines of the processes of a run that still exist.
fn left_behind(lab: &Lab) -> Vec<String> {
    processes_with(&format!("{MARK}={}", lab.arg("")))
}

/// Highest closed-loop rate of a condition: other work on the machine can only lower a rate.
fn rate_per_s(record: &RunRecord, condition: Condition) -> Result<f64, Error> {
    let of_condition = |cell: &&CellResult| cell.cell.condition == condition;
    let cells = record.cells.iter().filter(of_condition);
    let rates: Vec<f64> = cells.filter_map(|cell| cell.figures.closed_rate_per_s).collect();
    let highest = rates.into_iter().reduce(f64::max);
    highest.ok_or_else(|| format!("{condition:?} has no rate").into())
}

#[test]
fn a_program_is_measured_alone_and_beside_an_aggressor() -> TestResult {
    let lab = lab(SHORT)?;
    let victim = victim_program(&lab)?;
    let text = matrix(&lab, &victim, &[])?.ended_with(0)?.text();
    assert!(text.contains("does not limit itself to a share"), "{text}");
    let record = lab.record("out")?;
    assert_eq!(record.provenance.clock, "wall");
    assert_eq!(record.cells.len(), 30);
    let planned = record.plan.user_victim.as_ref().ok_or("no program in the plan")?;
    assert_eq!(planned.command, victim);
    // A record can come from another person: its command does not run without a word.
    let events = lab.path("out/events.jsonl");
    let all = std::fs::read_to_string(&events)?;
    let lines: Vec<&str> = all.lines().collect();
    std::fs::write(&events, lines[..lines.len() / 2].join("\n") + "\n")?;
    std::fs::remove_file(lab.path("out/record.json"))?;
    let refused = finish(lab.gpubench(["matrix", "--resume", "out"]))?.ended_with(2)?;
    assert!(refused.stderr.contains(&format!("--victim-cmd {victim}")), "{}", refused.text());
    let entry = &record.calibration.entries[USER_VICTIM];
    assert!(entry.native_rate_per_s > 0.0 && entry.unit == "requests");
    for cell in &record.cells {
        assert_ne!(cell.outcome.outcome, OutcomeKind::Failed, "{cell:?}");
        let victim = &cell.tenant_results[0];
        assert_eq!(victim.planned.workload.as_deref(), Some(USER_VICTIM));
        assert!(victim.rows > 0 && victim.schedule_hash.is_none(), "{cell:?}");
        let state = |gate| cell.gate_state(&gate);
        assert_eq!(state(Gate::ForeignProcess), Some(GateState::Passed), "{cell:?}");
        assert_eq!(state(Gate::TimeNamespace), Some(GateState::Passed), "{cell:?}");
        assert_eq!(state(Gate::Schedule), Some(GateState::NotEvaluated));
    }
    for row in &record.mechanisms {
        assert!(row.proof.iter().all(|proof| proof.holds), "{row:?}");
        assert!(!row.proof.is_empty(), "{row:?}");
    }
    // Two tenants that always have work get half of the device each, less the switches.
    let (solo, beside) = (rate_per_s(&record, Condition::S)?, rate_per_s(&record, Condition::C)?);
    assert!(beside < 0.8 * solo, "{beside} beside, {solo} alone");
    Ok(())
}

/// The row of a mechanism, and the names of its failed checks.
fn proved<'a>(
    record: &'a RunRecord,
    name: &str,
) -> Result<(&'a MechanismRow, Vec<&'a str>), Error> {
    let row = record.mechanisms.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| format!("{name} has no row"))?;
    let failed = row.proof.iter().filter(|proof| !proof.holds);
    Ok((row, failed.map(|proof| proof.check.as_str()).collect()))
}

#[test]
fn a_program_that_drops_its_variables_is_not_under_its_mechanism() -> TestResult {
    let lab = lab(SHORTER)?;
    let dropped = "env -u LD_PRELOAD -u CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
    let victim = format!("{dropped} {}", victim_program(&lab)?);
    let more = ["--mechanism", "exclusive,mps-quota,hami"];
    matrix(&lab, &victim, &more)?;
    let record = lab.record("out")?;
    for (name, check, evidence) in [
        (
            "mps-quota",
            "the program was started with the variables of its mechanism",
            "lacks CUDA_MPS_ACTIVE_THREAD_PERCENTAGE as it was set",
        ),
        ("hami", "the library is mapped into every tenant", "of the victim's program"),
    ] {
        let (row, failed) = proved(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Failed, "{row:?}");
        assert!(failed.contains(&check), "{row:?}");
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert!(reason.starts_with("not in force: ") && reason.contains(evidence), "{reason}");
    }
    Ok(())
}

/// Commands that cannot be measured, their arguments, and the error.
const NO_VICTIMS: [(&str, &[&str], &str); 7] = [
    (
        "/no/such/program --serve",
        &[],
        "exit status 127, which is the shell's for a command not found",
    ),
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
    ("VICTIM badly", &[], "line 2 of the program, \"hello\": it is no JSON object"),
];

#[test]
fn a_command_that_cannot_be_measured_ends_the_run_with_one_error() -> TestResult {
    let lab = lab(SHORT)?;
    let victim = victim_program(&lab)?;
    for (command, more, error) in NO_VICTIMS {
        // Also starts a process that leaves the group and one that ignores SIGTERM.
        let stubborn = "trap '' TERM; (setsid sleep 600 &); sleep 600 &";
        let command =
            format!("{stubborn} {}", command.replace("VICTIM badly", &format!("{victim} badly")));
        let run = matrix(&lab, &command, more)?;
        std::fs::remove_dir_all(lab.path("out"))?;
        let text = run.stderr;
        assert_eq!(run.code, Some(3), "{command}: {text}");
        let line = text.lines().find(|line| line.starts_with("error: "));
        let line = line.ok_or_else(|| format!("{command}: {text}"))?;
        let start = "error: victim program cannot be measured: ";
        assert!(line.starts_with(start) && line.contains(error), "{command}: {line}");
        assert!(text.contains("Your own program"), "{text}");
        assert_eq!(left_behind(&lab), [] as [String; 0], "{command}");
    }
    Ok(())
}

#[test]
fn a_program_without_a_context_fails_its_mechanisms() -> TestResult {
    let lab = lab(SHORTER)?;
    let victim = "while :; do echo step; sleep 0.002; done";
    let more = ["--victim-reports", "lines"];
    let more = [&more[..], &["--mechanism", "exclusive,time-slicing,mps"]].concat();
    matrix(&lab, victim, &more)?.ended_with(4)?;
    let record = lab.record("out")?;
    for (name, evidence) in [
        ("exclusive", "the victim has no context on the device"),
        ("time-slicing", "the program has no context on the device"),
        ("mps", "without ["),
    ] {
        let (row, _) = proved(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Failed, "{row:?}");
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert!(reason.contains(evidence), "{reason}");
    }
    assert_eq!(left_behind(&lab), [] as [String; 0]);
    Ok(())
}

#[test]
fn a_misbehaving_program_fails_its_cells_and_leaves_no_process() -> TestResult {
    let lab = lab(SHORT)?;
    let (program, count) = (victim_program(&lab)?, lab.arg("orders"));
    matrix(&lab, &format!("{program} wicked {count}"), &[])?.ended_with(4)?;
    assert_eq!(left_behind(&lab), [] as [String; 0]);
    let record = lab.record("out")?;
    let failed: Vec<&str> = record
        .cells
        .iter()
        .filter(|cell| cell.outcome.outcome == OutcomeKind::Failed)
        .map(|cell| cell.outcome.reason.as_deref().unwrap_or_default())
        .collect();
    // In the order of `do_harm` in victim.c.
    let expected = [
        "of the program, \"took 3 ms\": it is no JSON object",
        "the program ended: exit status 137, which is the shell's for a process killed by signal 9",
        "the program ended: exit status 0",
        "more than 100000 requests a second, which no GPU does",
        "the program did not report {\"done\":true} within 10 s of until_ns",
    ];
    assert_eq!(failed.len(), expected.len(), "{failed:#?}");
    for (failed, expected) in failed.iter().zip(expected) {
        assert!(failed.contains(expected) && !failed.contains('\n'), "{failed}");
    }
    // Between these failures a new process of the program is measured.
    let measured = record.cells.iter().filter(|cell| cell.outcome.is_measured());
    assert!(measured.count() > 12);
    Ok(())
}

#[test]
fn options_that_conflict_with_a_program_are_refused_before_the_run() -> TestResult {
    let device = ["--device", "virtual"];
    for option in ["--probes", "--faults"] {
        let mut command = gpubench(["matrix", "--victim-cmd", "true", option]);
        command.args(device);
        let text = finish(command)?.ended_with(2)?.text();
        assert!(text.contains("need built-in victims"), "{option}: {text}");
    }
    let mut command = gpubench(["plan", "--victim-cmd", "./serve --model m"]);
    command.args(device).env("COLUMNS", "400");
    let text = finish(command)?.text();
    assert!(
        text.contains(
            "victim: ./serve --model m (measured by its requests), restarted for each mechanism, \
             ready within 1min"
        ),
        "{text}"
    );
    assert!(text.contains("the victim is a program"), "{text}");
    Ok(())
}
