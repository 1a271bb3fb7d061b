//! Ctrl-C at any moment of a run: the run ends soon with status 130, its tenants and daemons are
//! gone, the host is restored, and the record can be read.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use crate::support::mechanism::daemons;
use crate::support::{Error, LIVENESS, Lab, TestResult, finish, processes_with, text};
use gpubench_record::{Json, RunRecord};

/// `SIGINT`.
const INTERRUPT: i32 = 2;
/// Number of moments in a geometric series. They cover argument parsing, device start, calibration,
/// daemons and instances, cells, and the writing of the record.
const MOMENTS: u32 = 24;
const FIRST_US: f64 = 1_000.0;
const RATIO: f64 = 1.45;

fn interrupt(run: Child) -> Result<Output, Error> {
    end_by("-INT", run)
}

fn end_by(signal: &str, mut run: Child) -> Result<Output, Error> {
    let sent = Command::new("kill").args([signal, &run.id().to_string()]).status()?;
    assert!(sent.success() || run.try_wait()?.is_some(), "no signal sent");
    let begin = Instant::now();
    while run.try_wait()?.is_none() {
        assert!(begin.elapsed() < LIVENESS, "the run does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(run.wait_with_output()?)
}

/// Command lines of processes with the lab's folder in their environment.
fn left(lab: &Lab) -> Vec<String> {
    processes_with(&lab.arg("state"))
}

/// When the signal comes.
#[derive(Debug, Clone, Copy)]
enum Moment {
    After(Duration),
    /// As soon as the first file of the record exists.
    FirstFile,
}

impl Moment {
    fn wait(self, out: &Path) {
        match self {
            Self::After(time) => std::thread::sleep(time),
            Self::FirstFile => {
                let begin = Instant::now();
                while !out.join("events.jsonl").is_file() && begin.elapsed() < LIVENESS {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// Interrupts a run; whether its record had begun, and whether the run was complete.
fn interrupt_at(moment: Moment) -> Result<(bool, bool), Error> {
    let lab = Lab::on("hopper")?;
    let run = lab.reconfigure("mps,mig,time-slicing", "out").spawn()?;
    moment.wait(&lab.path("out"));
    let journal = lab.journal();
    let ended = interrupt(run)?;
    let stderr = text(&ended.stderr);
    let out = lab.path("out");
    let begun = out.join("events.jsonl").is_file();
    match (ended.status.code(), ended.status.signal()) {
        (Some(130), _) => assert!(!stderr.contains("panic"), "{moment:?}: {stderr}"),
        (Some(0), _) => assert!(out.join("record.json").is_file(), "{moment:?}: {stderr}"),
        // The signal kills gpubench only before it has a handler, so before it changes anything.
        (None, Some(INTERRUPT)) => assert!(!begun, "{moment:?}: {stderr}"),
        other => panic!("{moment:?}: {other:?}: {stderr}"),
    }
    // Processes end shortly after their parent.
    let begin = Instant::now();
    while !left(&lab).is_empty() && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left(&lab), Vec::<String>::new(), "{moment:?}");
    assert_eq!(daemons(&journal), Vec::<u32>::new(), "{moment:?}");
    assert_eq!(lab.journal(), "", "{moment:?}: {stderr}");
    if begun {
        let folder = out.display().to_string();
        let report = finish(lab.gpubench(["report", &folder, "--format", "json"]))?;
        assert_eq!(report.code, Some(0), "{moment:?}: {}", report.stderr);
        let record = RunRecord::from_json(report.stdout.as_bytes())?;
        assert_eq!(record.complete, ended.status.code() == Some(0), "{moment:?}");
    }
    Ok((begun, ended.status.code() == Some(0)))
}

#[test]
fn ctrl_c_at_any_moment_stops_everything_and_leaves_a_record() -> TestResult {
    let (mut before, mut during, mut after) = (0, 0, 0);
    for moment in 0..MOMENTS {
        let us = FIRST_US * RATIO.powi(moment.cast_signed());
        match interrupt_at(Moment::After(Duration::from_micros(us as u64)))? {
            (_, true) => after += 1,
            (false, false) => before += 1,
            (true, false) => during += 1,
        }
        if after > 1 {
            break;
        }
    }
    // The moments covered the time before the record and the cells.
    assert!(before >= 2 && during >= 5, "{before}, {during}, {after}");
    Ok(())
}

#[test]
fn a_run_with_a_record_handles_the_signal() -> TestResult {
    for _ in 0..10 {
        assert_eq!(interrupt_at(Moment::FirstFile)?, (true, false));
    }
    Ok(())
}

#[test]
fn sigterm_among_the_fault_trials_leaves_a_scored_record_of_them() -> TestResult {
    let lab = Lab::on("hopper")?;
    let more = ["--mechanism", "time-slicing", "--faults", "--fault-trials", "500"];
    let run = lab.matrix("out", &more).spawn()?;
    let events = lab.path("out").join("events.jsonl");
    let begin = Instant::now();
    let ended = |text: String| text.matches("fault-trial-ended").count();
    while std::fs::read_to_string(&events).map_or(0, ended) < 20 {
        assert!(begin.elapsed() < LIVENESS, "no fault trials");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = end_by("-TERM", run)?;
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let record = lab.record("out")?;
    assert!(!record.complete && record.fault_trials.len() >= 20);
    let tallied = record.fault_tallies.iter().map(|tally| tally.trials);
    assert!(tallied.sum::<u32>() >= 20);
    assert!(record.matrix.iter().any(|row| row.retention.is_some()));
    Ok(())
}
