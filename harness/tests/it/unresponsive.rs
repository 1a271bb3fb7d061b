//! Ctrl-C and SIGTERM end a run with their status while something hangs: a vendor's command, an
//! NVML call, the clock that all processes of a virtual device share.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::session::{ENV, NVML_HANGS};

use crate::support::mechanism::signal;
use crate::support::resident::Resident;
use crate::support::{
    Error, Finished, LIVENESS, Lab, TestResult, finish, quick_hopper, record, text, wait_during,
};

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
fn interrupt(mut run: Child, name: &str) -> Result<(Finished, Duration), Error> {
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
    for signal in ["TERM", "INT"] {
        let mut host = Resident::start(Lab::of_machine(&quick_hopper()?)?)?;
        host.shadow("nvidia-cuda-mps-control", NEVER_ANSWERS)?;
        let mut run = matrix(&host, "mps")?;
        let called = host.lab.path("called");
        wait_during(&mut run, "the daemon's command", || called.exists())?;
        is_interrupted(&host.lab.path("out"), interrupt(run, signal)?)?;
        // The set-up until then is undone.
        assert_eq!(host.left_in("state/gpubench"), Vec::<PathBuf>::new());
    }
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
    is_interrupted(&host.lab.path("out"), interrupt(run, "TERM")?)
}

/// Whether a file exists and contains this text.
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
    let ended = interrupt(run, "TERM");
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
