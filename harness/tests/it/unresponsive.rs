//! Ctrl-C and SIGTERM end a run soon and with their status, whatever hangs: a vendor's command, a
//! call of NVML, the clock that all processes of a virtual device share.
//!
//! The limits are generous: without them each of these runs waits for much longer.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpubench_record::RunRecord;
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::machine::BUILT_IN;
use gpubench_virtual_gpu::session::ENV;
use crate::support::mechanism::{PATIENCE, Place, TestResult, device_that_stays, text};

type Error = Box<dyn std::error::Error>;

/// Longest time from the signal to the end. A command of the vendor's that hangs is given 20 s each
/// time, and a run asks twice before it gives up; NVML and the shared clock would hang for ever.
const SOON: Duration = Duration::from_secs(35);

/// Stands in for the command of the MPS daemon: it notes that it was called, and never answers.
const NEVER_ANSWERS: &str = "#!/bin/sh\necho called >> \"$HERE/called\"\nexec sleep 3600\n";

/// A device on the wall clock that outlives a run, with folders of its own.
struct Host {
    environment: Vec<(String, String)>,
    dir: tempfile::TempDir,
}

impl Host {
    fn new() -> Result<Self, Error> {
        let dir = tempfile::tempdir()?;
        let hopper = BUILT_IN.iter().find(|(name, _)| *name == "hopper");
        let file = dir.path().join("machine.toml");
        std::fs::write(&file, hopper.ok_or("no hopper")?.1)?;
        std::fs::write(dir.path().join("short.toml"), include_str!("data/short.toml"))?;
        std::fs::create_dir(dir.path().join("run"))?;
        let program = Path::new(env!("CARGO_BIN_EXE_gpubench"));
        let environment = device_that_stays(program, &file, &dir.path().join("cache"))?;
        Ok(Self { environment, dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder of the device.
    fn device(&self) -> Result<PathBuf, Error> {
        let folder = self.environment.iter().find(|(name, _)| name == ENV);
        Ok(folder
            .map(|(_, folder)| PathBuf::from(folder))
            .ok_or("no device")?)
    }

    /// Puts a command before the vendor's of that name.
    fn shadow(&mut self, name: &str, script: &str) -> TestResult {
        let bin = self.path("bin");
        std::fs::create_dir(&bin)?;
        std::fs::write(bin.join(name), script)?;
        std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755))?;
        let path = self.environment.iter_mut().find(|(name, _)| name == "PATH");
        let (_, path) = path.ok_or("no PATH")?;
        *path = format!("{}:{path}", bin.display());
        let here = self.dir.path().display().to_string();
        self.environment.push(("HERE".to_owned(), here));
        Ok(())
    }

    fn matrix(&self, mechanisms: &str) -> std::io::Result<Child> {
        Command::new(env!("CARGO_BIN_EXE_gpubench"))
            .args(["matrix", "--mechanism", mechanisms, "--profile"])
            .arg(self.path("short.toml"))
            .arg("--out")
            .arg(self.path("out"))
            .envs(self.environment.iter().cloned())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

/// Waits until something has happened in a run.
fn until(run: &mut Child, what: &str, happened: impl Fn() -> bool) -> TestResult {
    let begin = Instant::now();
    while !happened() {
        if begin.elapsed() > PATIENCE || run.try_wait()?.is_some() {
            return Err(format!("{what} did not happen").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Ends a run by a signal; its status, its error output, and how long it took.
fn ended(mut run: Child, signal: &str) -> Result<(Option<i32>, String, Duration), Error> {
    let sent = Command::new("kill")
        .args([signal, &run.id().to_string()])
        .status()?;
    assert!(sent.success());
    let begin = Instant::now();
    while run.try_wait()?.is_none() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = begin.elapsed();
    // One that does not hear its signal fails the test, and is not left behind.
    run.kill()?;
    let output = run.wait_with_output()?;
    Ok((output.status.code(), text(&output.stderr), took))
}

fn is_interrupted(out: &Path, (code, said, took): (Option<i32>, String, Duration)) -> TestResult {
    assert_eq!(code, Some(130), "after {took:?}: {said}");
    assert!(took < SOON, "after {took:?}: {said}");
    let record = std::fs::read(out.join("record.json"))?;
    let record: RunRecord = serde_json::from_slice(&record)?;
    assert!(!record.complete);
    Ok(())
}

#[test]
fn an_mps_daemon_that_never_answers_does_not_hold_up_the_end() -> TestResult {
    for signal in ["-TERM", "-INT"] {
        let mut host = Host::new()?;
        host.shadow("nvidia-cuda-mps-control", NEVER_ANSWERS)?;
        let mut run = host.matrix("mps")?;
        let called = host.path("called");
        until(&mut run, "the daemon's command", || called.exists())?;
        is_interrupted(&host.path("out"), ended(run, signal)?)?;
        // What was set up until then is taken back.
        let journals = std::fs::read_dir(host.path("state/gpubench"));
        assert_eq!(journals.map_or(0, Iterator::count), 0);
    }
    Ok(())
}

#[test]
fn an_nvml_call_that_never_returns_does_not_hold_up_the_end() -> TestResult {
    let host = Host::new()?;
    let mut run = host.matrix("exclusive")?;
    let events = host.path("out/events.jsonl");
    let proved = || {
        let events = std::fs::read_to_string(&events).unwrap_or_default();
        events.contains("\"event\":\"proved\"")
    };
    until(&mut run, "a proof", proved)?;
    let hangs = host
        .device()?
        .join(gpubench_virtual_gpu::session::NVML_HANGS);
    std::fs::write(&hangs, "")?;
    let entered = hangs.with_extension("entered");
    until(&mut run, "a call that hangs", || entered.exists())?;
    is_interrupted(&host.path("out"), ended(run, "-TERM")?)
}

/// The folder of the virtual device that a run has made for itself, as its tenants are told it.
fn private_device(place: &Place) -> Option<PathBuf> {
    let state = place.path("state").display().to_string();
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
fn a_shared_clock_that_stands_does_not_hold_up_the_end() -> TestResult {
    let place = Place::new("hopper")?;
    let mut run = place.matrix("exclusive,time-slicing", "out").spawn()?;
    let out = place.path("out");
    let events = out.join("events.jsonl");
    until(&mut run, "a cell", || {
        let events = std::fs::read_to_string(&events).unwrap_or_default();
        events.contains("\"event\":\"cell-began\"")
    })?;
    let device = Device::open(&private_device(&place).ok_or("no device")?)?;
    // As a process does that is stopped in the middle of a change.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let shared = device.shared();
        let done = shared.transact(|_, _| held.recv_timeout(PATIENCE * 2));
        done.map(|_| ())
    });
    std::thread::sleep(Duration::from_millis(500));
    let ended = ended(run, "-TERM");
    drop(release);
    holder.join().map_err(|_| "the holder panicked")??;
    is_interrupted(&out, ended?)
}

#[test]
fn a_time_slice_beyond_the_clock_is_refused_with_the_range() -> TestResult {
    let change = [("slice_us = 2000", "slice_us = 18446744073709551615")];
    let place = Place::bent("hopper", &change, "")?;
    let output = place.matrix("exclusive,time-slicing", "out").output()?;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("scheduler.slice_us") && said.contains("1 to 3600000000"),
        "{said}"
    );
    Ok(())
}
