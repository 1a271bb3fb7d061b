//! Ctrl-C at any moment of a run: the run ends soon with status 130, its tenants and daemons are
//! gone, the host is restored, and the record can be read. A tenant that a signal ends or stops
//! costs its cell.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use gpubench_record::{Json, RunEvent, RunRecord};
use gpubench_store::read_events;
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::session::{ENV, NVML_HANGS};

use super::resume::{count, is_whole, planned, resume};
use super::support::fault::{daemons, signal};
use super::support::guarded::Resident;
use crate::support::{
    Error, Finished, LIVENESS, Lab, TestResult, finish, processes_with, quick_hopper, record, text,
    wait_during,
};

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

// Ctrl-C and SIGTERM end a run with their status while something hangs: a vendor's command, an
// NVML call, the clock that all processes of a virtual device share.

/// Longest time from the signal to the end. A vendor command that hangs is killed after 20 s, and a
/// run calls two of them; without the limits under test these runs never end.
const LIMIT: Duration = Duration::from_secs(35);

/// Replaces the command of the MPS daemon: records that it was called, and never ends.
const NEVER_ANSWERS: &str = "#!/bin/sh\necho called >> \"$HERE/called\"\nexec sleep 3600\n";

/// `matrix` on a device on the wall clock.
fn matrix(host: &Resident, mechanisms: &str) -> std::io::Result<Child> {
    let args = ["matrix", "--profile", "short.toml", "--out", "out"];
    host.gpubench(&args).args(["--mechanism", mechanisms]).spawn()
}

/// Ends a run by a signal. Returns its result and the elapsed time.
fn interrupt_hanging(mut run: Child, name: &str) -> Result<(Finished, Duration), Error> {
    signal(run.id(), name)?;
    let begin = Instant::now();
    while run.try_wait()?.is_none() && begin.elapsed() < LIVENESS {
        std::thread::sleep(Duration::from_millis(20));
    }
    let elapsed = begin.elapsed();
    // A run that ignores its signal fails the test and must not outlive it.
    run.kill()?;
    Ok((run.wait_with_output()?.into(), elapsed))
}

fn is_interrupted(out: &Path, (done, elapsed): (Finished, Duration)) -> TestResult {
    assert_eq!(done.code, Some(130), "after {elapsed:?}: {}", done.stderr);
    assert!(elapsed < LIMIT, "after {elapsed:?}: {}", done.stderr);
    assert!(!record(out)?.complete);
    Ok(())
}

#[test]
fn a_hung_mps_daemon_does_not_delay_the_end() -> TestResult {
    let mut host = Resident::start(Lab::of_machine(&quick_hopper()?)?)?;
    host.shadow("nvidia-cuda-mps-control", NEVER_ANSWERS)?;
    let mut run = matrix(&host, "mps")?;
    let called = host.lab.path("called");
    wait_during(&mut run, "the daemon's command", || called.exists())?;
    // The tests below send SIGTERM.
    is_interrupted(&host.lab.path("out"), interrupt_hanging(run, "INT")?)?;
    // The set-up until then is undone.
    assert_eq!(host.left_in("state/gpubench"), Vec::<PathBuf>::new());
    Ok(())
}

#[test]
fn a_hung_nvml_call_does_not_delay_the_end() -> TestResult {
    let host = Resident::start(Lab::of_machine(&quick_hopper()?)?)?;
    let mut run = matrix(&host, "exclusive")?;
    let events = host.lab.path("out/events.jsonl");
    wait_during(&mut run, "a proof", || contains(&events, "\"event\":\"proved\""))?;
    let hangs = host.folder()?.join(NVML_HANGS);
    std::fs::write(&hangs, "")?;
    let entered = hangs.with_extension("entered");
    wait_during(&mut run, "a call that hangs", || entered.exists())?;
    is_interrupted(&host.lab.path("out"), interrupt_hanging(run, "TERM")?)
}

fn contains(file: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains(wanted))
}

/// The folder of the virtual device of a run, read from the environment of its tenants.
fn private_device(lab: &Lab) -> Option<PathBuf> {
    let state = lab.arg("state");
    let folder = format!("{ENV}=");
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let environ = text(&environ);
        if environ.contains(&state) {
            let mut variables = environ.split('\0');
            let found = variables.find_map(|variable| variable.strip_prefix(&folder));
            if let Some(found) = found {
                return Some(PathBuf::from(found));
            }
        }
    }
    None
}

#[test]
fn a_stopped_shared_clock_does_not_delay_the_end() -> TestResult {
    let lab = Lab::on("hopper")?;
    let mut run = lab.reconfigure("exclusive,time-slicing", "out").spawn()?;
    let events = lab.path("out/events.jsonl");
    wait_during(&mut run, "a cell", || contains(&events, "\"event\":\"cell-began\""))?;
    let device = Device::open(&private_device(&lab).ok_or("no device")?)?;
    // A process that is stopped during a change holds the lock like this.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let shared = device.shared();
        let done = shared.transact(|_, _| held.recv_timeout(LIVENESS * 2));
        done.map(|_| ())
    });
    std::thread::sleep(Duration::from_millis(500));
    let ended = interrupt_hanging(run, "TERM");
    drop(release);
    holder.join().map_err(|_| "the holder panicked")??;
    is_interrupted(&lab.path("out"), ended?)
}

#[test]
fn a_time_slice_beyond_the_clock_is_refused_with_the_range() -> TestResult {
    let change = [("slice_us = 2000", "slice_us = 18446744073709551615")];
    let lab = Lab::changed("hopper", &change, "")?;
    let refused = finish(lab.reconfigure("exclusive,time-slicing", "out"))?.ended_with(2)?;
    for part in ["scheduler.slice_us", "1 to 3600000000"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    Ok(())
}

// A signal to a tenant.

/// Runs the shortest profile, and sends the first tenant a signal once the events have a text so
/// often.
fn signalled(lab: &Lab, by: &str, sign: &str, times: usize) -> Result<Finished, Error> {
    let mut run = lab.matrix("out", &["--mechanism", "time-slicing"]).spawn()?;
    wait_during(&mut run, sign, || count(lab, sign) >= times)?;
    let events = read_events(&lab.path("out"))?.events;
    let pid = events.iter().find_map(|event| match event {
        RunEvent::TenantStarted { pid, .. } => Some(*pid),
        _ => None,
    });
    signal(pid.ok_or("no tenant started")?, by)?;
    let ended = run.wait_with_output()?;
    Ok(Finished {
        code: ended.status.code(),
        signal: None,
        stdout: text(&ended.stdout),
        stderr: text(&ended.stderr),
    })
}

#[test]
fn a_tenant_that_dies_in_the_calibration_is_a_failed_trial() -> TestResult {
    for (by, said) in [
        ("KILL", "the run failed: victim ended: killed by signal 9"),
        ("STOP", "the run failed: victim was stopped by a signal for 6 s while"),
    ] {
        // On a busy host the signal may come after the calibration.
        let found = (0..8).find_map(|_| -> Option<Result<_, Error>> {
            let tried = || -> Result<_, Error> {
                let lab = Lab::on("hopper")?;
                let run = signalled(&lab, by, "\"tenant-started\"", 2)?;
                Ok((count(&lab, "\"cell-began\"") == 0).then_some((lab, run)))
            };
            tried().transpose()
        });
        let (lab, run) = found.ok_or("no signal came within the calibration")??;
        let run = run.ended_with(4)?;
        assert!(run.stderr.contains(said), "{}", run.stderr);
        // The calibration is made anew.
        resume(&lab)?.ended_with(0)?;
    }
    Ok(())
}

/// Also one that is not waited for: the other one is waited for alone.
#[test]
fn each_stopped_tenant_is_said_within_seconds() -> TestResult {
    let lab = Lab::on("hopper")?;
    let mut run = lab.matrix("out", &["--mechanism", "time-slicing"]).spawn()?;
    let started = || -> Result<Vec<u32>, Error> {
        let events = read_events(&lab.path("out"))?.events.into_iter();
        Ok(events
            .filter_map(|event| match event {
                RunEvent::TenantStarted { pid, .. } => Some(pid),
                _ => None,
            })
            .collect())
    };
    wait_during(&mut run, "two tenants", || started().is_ok_and(|pids| pids.len() >= 2))?;
    let pids = &started()?[..2];
    for &pid in pids {
        signal(pid, "STOP")?;
    }
    let begin = Instant::now();
    let mut said = Vec::new();
    let lines = BufReader::new(run.stderr.take().ok_or("no standard error")?).lines();
    for line in lines.map_while(Result::ok).filter(|line| line.contains(" is stopped by a signal"))
    {
        said.push((line, begin.elapsed()));
    }
    run.wait()?;
    for pid in pids {
        let name = format!("(process {pid}) is stopped");
        let of_this = said.iter().find(|(line, _)| line.contains(&name));
        assert!(of_this.is_some_and(|(_, at)| at.as_secs() < 5), "{pid}: {said:?}");
    }
    Ok(())
}

#[test]
fn a_stopped_tenant_is_said_and_its_cell_is_measured_again() -> TestResult {
    let lab = Lab::on("hopper")?;
    let run = signalled(&lab, "STOP", "\"cell-began\"", 9)?.ended_with(4)?;
    assert!(run.stderr.contains(" is stopped by a signal: kill -CONT "), "{}", run.stderr);
    let plan = planned(&lab)?;
    let refused = resume(&lab)?.ended_with(2)?.stderr;
    assert!(refused.contains("1 cells or trials failed"), "{refused}");
    let again = ["matrix", "--resume", "out", "--full", "--retry-failed"];
    finish(lab.gpubench(again))?.ended_with(0)?;
    let record = lab.record("out")?;
    is_whole(&lab, &plan, &record)?;
    let why = record.interruptions[0].reason.as_deref();
    assert_eq!(why, Some("what failed is measured again"));
    let refused = finish(lab.gpubench(again))?.ended_with(2)?.stderr;
    assert!(refused.contains("all that was planned ran"), "{refused}");
    Ok(())
}
