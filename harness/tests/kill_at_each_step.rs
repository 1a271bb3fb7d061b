//! Set-up and tear-down are killed at every step of the journal, on the real path: real processes,
//! driver calls, daemons and folders, on a virtual device that outlives them. Whatever is left,
//! `gpubench cleanup` brings the device back to how it was found.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gpubench::mechanism::host::mps_processes;
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::machine::BUILT_IN;
use gpubench_virtual_gpu::session::ENV;

type Error = Box<dyn std::error::Error>;

/// SIGKILL.
const KILLED: i32 = 9;
/// More steps than any mechanism has.
const STEPS_MAX: u32 = 64;

/// Everything of a device that a mechanism can change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    compute_mode: u32,
    mig: (bool, bool),
    slice_level: u32,
    instances: Vec<(u32, u32)>,
    engines: usize,
    daemons: usize,
    servers: usize,
    contexts: usize,
}

/// A device with folders for what runs on it.
struct Stage {
    device: Device,
    /// Variables with which programs find it.
    environment: Vec<(String, String)>,
    dir: tempfile::TempDir,
}

impl Stage {
    fn new(machine: &str) -> Result<Self, Error> {
        let dir = tempfile::tempdir()?;
        let built_in = BUILT_IN.iter().find(|(name, _)| *name == machine);
        // Making an instance takes a second on these machines, and there are many to make.
        let text = built_in.ok_or("an unknown machine")?.1;
        let quick = text.replace("instance_ms = 1000", "instance_ms = 0");
        let file = dir.path().join("machine.toml");
        std::fs::write(&file, quick)?;
        std::fs::create_dir(dir.path().join("run"))?;
        let short = include_str!("short.toml").to_owned() + "[time-slicing]\nslice = \"short\"\n";
        std::fs::write(dir.path().join("profile.toml"), short)?;
        // The commands that stand in for the vendor's are the program that makes the device.
        let made = Command::new(env!("CARGO_BIN_EXE_gpubench"))
            .args(["virtual-gpu", "env", "--machine"])
            .arg(&file)
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .output()?;
        let text = String::from_utf8(made.stdout)?;
        let variable = |line: &str| {
            let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('\'').to_owned()))
        };
        let environment: Vec<(String, String)> = text.lines().filter_map(variable).collect();
        let folder = environment.iter().find(|(name, _)| name == ENV);
        let device = Device::open(Path::new(&folder.ok_or("no device")?.1))?;
        Ok(Self {
            device,
            environment,
            dir,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn gpubench(&self, args: &[&str], die_after: Option<u32>) -> Result<Output, Error> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubench"));
        command
            .args(args)
            .envs(self.environment.iter().cloned())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .stdin(Stdio::null());
        if let Some(steps) = die_after {
            command.env("GPUBENCH_DIE_AFTER_STEPS", steps.to_string());
        }
        Ok(command.output()?)
    }

    fn rehearse(&self, mechanism: &str, die_after: u32) -> Result<Output, Error> {
        let profile = self.path("profile.toml").display().to_string();
        let args = [
            "plan",
            "--rehearse",
            "--allow-reconfigure",
            "--profile",
            &profile,
        ];
        self.gpubench(
            &[&args[..], &["--mechanism", mechanism]].concat(),
            Some(die_after),
        )
    }

    fn settings(&self) -> Result<Settings, Error> {
        self.device.bury_the_dead()?;
        Ok(self.device.shared().read(|state| {
            let rows = state.instances.live().iter().filter(|row| row.live);
            Settings {
                compute_mode: state.compute_mode as u32,
                mig: (state.mig.current, state.mig.pending),
                slice_level: state.slice_level,
                instances: rows.map(|row| (row.profile, row.slot_start)).collect(),
                engines: state.engines.live().iter().filter(|row| row.live).count(),
                daemons: state.daemons.live().iter().filter(|row| row.live).count(),
                servers: state.servers.live().iter().filter(|row| row.live).count(),
                contexts: state.contexts.live().iter().filter(|row| row.live).count(),
            }
        })?)
    }

    /// Files in a folder that should be empty.
    fn left_in(&self, name: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path(name));
        let entries = entries.into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Kills at one step, cleans up, and holds what is there against what was found. False when
    /// the mechanism has no such step.
    fn kill_at(&self, mechanism: &str, step: u32) -> Result<bool, Error> {
        let found = self.settings()?;
        let killed = self.rehearse(mechanism, step)?;
        let what = format!("{mechanism} killed at step {step}");
        let told = String::from_utf8_lossy(&killed.stderr).into_owned();
        let died = killed.status.signal() == Some(KILLED);
        assert!(died || killed.status.success(), "{what}: {told}");
        let pipes: Vec<PathBuf> = self.left_in("run").iter().map(|f| f.join("pipe")).collect();
        if died {
            // The one who cleans up may be killed too, and comes again.
            let _ = self.gpubench(&["cleanup"], Some(step % 3))?;
        }
        let cleaned = self.gpubench(&["cleanup"], None)?;
        let said = String::from_utf8_lossy(&cleaned.stderr).into_owned();
        assert!(cleaned.status.success(), "{what}: {said}");
        assert_eq!(self.settings()?, found, "{what}");
        assert_eq!(self.left_in("run"), Vec::<PathBuf>::new(), "{what}");
        assert_eq!(
            self.left_in("state/gpubench"),
            Vec::<PathBuf>::new(),
            "{what}"
        );
        for pipe in pipes {
            assert_eq!(mps_processes(Path::new(&pipe)), Vec::<u32>::new(), "{what}");
        }
        Ok(died)
    }

    /// How many steps a mechanism has, each of which was the last one once.
    fn kill_at_each(&self, mechanism: &str) -> Result<u32, Error> {
        for step in 0..STEPS_MAX {
            if !self.kill_at(mechanism, step)? {
                return Ok(step);
            }
        }
        Err(format!("{mechanism} never ends").into())
    }
}

#[test]
fn what_holds_a_setting_alone_comes_back_from_every_step() -> Result<(), Error> {
    let stage = Stage::new("hopper")?;
    // Each change has a step when it is written down, made, undone and marked.
    for (mechanism, changes) in [("exclusive-process", 1), ("time-slicing", 1), ("hami", 1)] {
        assert_eq!(stage.kill_at_each(mechanism)?, 4 * changes, "{mechanism}");
    }
    Ok(())
}

#[test]
fn daemons_come_back_from_every_step() -> Result<(), Error> {
    let stage = Stage::new("hopper")?;
    // Three folders and a daemon.
    for mechanism in ["mps", "mps-quota", "mps-static"] {
        assert_eq!(stage.kill_at_each(mechanism)?, 16, "{mechanism}");
    }
    Ok(())
}

#[test]
fn instances_come_back_from_every_step() -> Result<(), Error> {
    let stage = Stage::new("hopper")?;
    // The mode and two instances; the mode, one instance and what a daemon needs.
    for (mechanism, steps) in [("mig", 12), ("mig-mps", 24)] {
        assert_eq!(stage.kill_at_each(mechanism)?, steps, "{mechanism}");
    }
    Ok(())
}

#[test]
fn on_every_other_machine_too() -> Result<(), Error> {
    const PLAIN: [&str; 4] = ["exclusive-process", "time-slicing", "mps", "mps-quota"];
    // The mode of an a100-80 waits for a reset, so that it is taken back without being in force.
    for (machine, more) in [
        ("turing", &[][..]),
        ("a100-80", &["mig"]),
        ("h100-80", &["mig", "mig-mps"]),
        ("h200", &["mig", "mig-mps", "hami"]),
    ] {
        let stage = Stage::new(machine)?;
        for mechanism in PLAIN.iter().chain(more) {
            // Another step on each machine, and the next ones at a distance.
            let first = u32::try_from(machine.len())? % 4;
            let mut steps = (first..STEPS_MAX).step_by(5);
            let lived = steps.find_map(|step| match stage.kill_at(mechanism, step) {
                Ok(true) => None,
                other => Some(other),
            });
            let lived = lived.ok_or_else(|| format!("{mechanism} never ends"))?;
            assert!(!lived?, "{machine}: {mechanism}");
        }
    }
    Ok(())
}
