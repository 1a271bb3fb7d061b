//! A device whose runs are killed, with every folder that a run uses in the lab, and what is left
//! afterwards.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use gpubench_virtual_gpu::cgroup::TREE;
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::session::ENV;

use super::fault::signal;
use super::{Error, Lab, TestResult, finish, processes_with, program, quick_hopper, wait_for};

/// By when nothing of a dead run is left.
const GONE: Duration = Duration::from_secs(10);

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

// The state of a virtual device that runs change and must restore.

/// Every state of a device that a mechanism can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub compute_mode: u32,
    pub mig: (bool, bool),
    pub slice_level: u32,
    pub instances: Vec<(u32, u32)>,
    pub engines: usize,
    pub daemons: usize,
    pub servers: usize,
    pub contexts: usize,
    pub limited_groups: usize,
    pub groups: Vec<PathBuf>,
}

impl Settings {
    /// The settings now. What dead processes held is freed first.
    pub fn of(device: &Device) -> Result<Self, Error> {
        device.reap_dead_processes()?;
        let folders = std::fs::read_dir(device.dir().join(TREE));
        let folders = folders.into_iter().flatten().flatten().map(|entry| entry.path());
        let groups = folders.filter(|path| path.is_dir()).collect();
        Ok(device.shared().read(|state| {
            let rows = state.instances.live().iter().filter(|row| row.live);
            Self {
                compute_mode: state.compute_mode as u32,
                mig: (state.mig.current, state.mig.pending),
                slice_level: state.slice_level,
                instances: rows.map(|row| (row.profile, row.slot_start)).collect(),
                engines: state.engines.live().iter().filter(|row| row.live).count(),
                daemons: state.daemons.live().iter().filter(|row| row.live).count(),
                servers: state.servers.live().iter().filter(|row| row.live).count(),
                contexts: state.contexts.live().iter().filter(|row| row.live).count(),
                limited_groups: state.memory_groups.live().iter().filter(|row| row.live).count(),
                groups,
            }
        })?)
    }
}

// A virtual device that outlives its programs, which find it through their environment.

/// A lab with a running device.
pub struct Resident {
    pub lab: Lab,
    environment: Vec<(String, String)>,
}

impl Resident {
    pub fn start(lab: Lab) -> Result<Self, Error> {
        Self::start_by(program(), lab)
    }

    /// Starts the lab's machine with this copy of the binary. The vendor commands are links to it.
    pub fn start_by(program: &Path, lab: Lab) -> Result<Self, Error> {
        std::fs::create_dir(lab.path("run"))?;
        let mut command = Command::new(program);
        command
            .args(["virtual-gpu", "env", "--machine", lab.machine()])
            .env("XDG_CACHE_HOME", lab.path("cache"));
        let exports = finish(command)?.ended_with(0)?.stdout;
        let variable = |line: &str| {
            let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('\'').to_owned()))
        };
        let environment = exports.lines().filter_map(variable).collect();
        Ok(Self { lab, environment })
    }

    /// A variable of the programs on the device.
    pub fn variable(&self, name: &str) -> Result<&str, Error> {
        let mut all = self.environment.iter();
        let found = all.find(|(known, _)| known == name);
        Ok(&found.ok_or_else(|| format!("no variable {name}"))?.1)
    }

    pub fn folder(&self) -> Result<PathBuf, Error> {
        Ok(PathBuf::from(self.variable(ENV)?))
    }

    /// The device, to read and set its state.
    pub fn open(&self) -> Result<Device, Error> {
        Ok(Device::open(&self.folder()?)?)
    }

    /// The variables by which programs find the device.
    pub fn environment(&self) -> impl Iterator<Item = (&String, &String)> {
        self.environment.iter().map(|(name, value)| (name, value))
    }

    /// The binary on this device.
    pub fn gpubench(&self, args: &[&str]) -> Command {
        let mut command = self.lab.gpubench(args);
        command.envs(self.environment()).env("XDG_RUNTIME_DIR", self.lab.path("run"));
        command
    }

    /// Puts a script before the vendor command of that name on `PATH`. In the script, `HERE` is the
    /// lab's folder and `STAND_IN` the replaced command: vendor commands inherit neither.
    pub fn shadow(&mut self, name: &str, script: &str) -> TestResult {
        let bin = self.lab.path("bin");
        std::fs::create_dir(&bin)?;
        let path = self.variable("PATH")?.to_owned();
        let commands = path.split(':').next().unwrap_or_default();
        let replaced = Path::new(commands).join(name).display().to_string();
        for (known, value) in &mut self.environment {
            if known == "PATH" {
                *value = format!("{}:{path}", bin.display());
            }
        }
        let here = self.lab.path("").display().to_string();
        let here = here.trim_end_matches('/');
        let variables = format!("#!/bin/sh\nHERE='{here}' STAND_IN='{replaced}'\n");
        let script = script.replacen("#!/bin/sh\n", &variables, 1);
        std::fs::write(bin.join(name), script)?;
        std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755))?;
        Ok(())
    }

    /// Files that a run left in a folder of the lab.
    pub fn left_in(&self, name: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.lab.path(name));
        let entries = entries.into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| !path.ends_with("calibrations")).collect()
    }
}
