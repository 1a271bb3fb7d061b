//! A device whose runs are killed, with every folder that a run uses in the lab, and what is left
//! afterwards.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use gpubench_virtual_gpu::device::Device;

use super::mechanism::signal;
use super::resident::Resident;
use super::settings::Settings;
use super::{Error, Lab, TestResult, processes_with, quick_hopper, wait_for};

/// By when nothing of a dead run is left.
const GONE: Duration = Duration::from_secs(3);

/// A resident device with folders of its own for runs.
pub struct Guarded {
    pub host: Resident,
    device: Device,
    found: Settings,
}

impl Guarded {
    pub fn new() -> Result<Self, Error> {
        let host = Resident::start(Lab::of_machine(&quick_hopper()?)?)?;
        std::fs::create_dir(host.lab.path("tmp"))?;
        let device = host.open()?;
        let found = Settings::of(&device)?;
        Ok(Self { host, device, found })
    }

    /// The binary on this device.
    pub fn gpubench(&self, args: &[&str]) -> Command {
        let mut command = self.host.gpubench(args);
        command
            .env("TMPDIR", self.host.lab.path("tmp"))
            .env("XDG_CACHE_HOME", self.host.lab.path("run-cache"));
        command
    }

    /// A run of a mechanism that may change settings.
    pub fn matrix(&self, mechanism: &str, out: &str) -> Command {
        self.gpubench(&[
            "matrix",
            "--allow-reconfigure",
            "--profile",
            "short.toml",
            "--mechanism",
            mechanism,
            "--out",
            out,
        ])
    }

    /// What is left of runs: processes, folders, journals, and settings.
    fn left(&self) -> Result<Vec<String>, Error> {
        let mut left = processes_with(&self.host.lab.arg("state"));
        let folders = ["run", "tmp", "state/gpubench", "run-cache/gpubench"];
        let paths = folders.iter().flat_map(|name| self.host.left_in(name));
        left.extend(paths.map(|path: PathBuf| path.display().to_string()));
        let now = Settings::of(&self.device)?;
        if now != self.found {
            left.push(format!("settings {now:?} instead of {:?}", self.found));
        }
        Ok(left)
    }

    /// An error unless nothing is left soon.
    pub fn is_clean(&self, what: &str) -> TestResult {
        let begin = Instant::now();
        loop {
            let left = self.left()?;
            if left.is_empty() {
                return Ok(());
            }
            if begin.elapsed() > GONE {
                return Err(format!("{what}: left after {GONE:?}: {left:#?}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether anything is left.
    pub fn has_left(&self) -> Result<bool, Error> {
        Ok(!self.left()?.is_empty())
    }
}

/// The process id of the guard process of a run; `None` while there is none.
pub fn guard_of(run: &Child) -> Option<u32> {
    let coordinator = format!(":{}:", run.id());
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = super::text(&arguments);
        let mut arguments = arguments.split('\0').skip(1);
        arguments.next() == Some("__guard")
            && arguments.next().is_some_and(|run| run.contains(&coordinator))
    })
}

/// Kills a run and its guard process together: the run is stopped meanwhile, so that it starts no
/// other guard process.
pub fn kill_both(run: &mut Child) -> TestResult {
    signal(run.id(), "STOP")?;
    let guard = guard_of(run).ok_or("no guard process")?;
    signal(guard, "KILL")?;
    run.kill()?;
    run.wait()?;
    wait_for("the end of the guard process", || guard_of(run).is_none())
}
