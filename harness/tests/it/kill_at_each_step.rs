//! Set-up and tear-down are killed at every step of the journal, on the real path: real processes,
//! driver calls, daemons and folders, on a virtual device that outlives them. Whatever is left,
//! `gpubench cleanup` brings the device back to how it was found. Every mechanism on every machine
//! that has it; nothing is measured, so that what it takes is processes and waiting, and several
//! devices are worked on at the same time.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use gpubench::mechanism::host::mps_processes;
use gpubench_virtual_gpu::cgroup::TREE;
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::machine::BUILT_IN;
use gpubench_virtual_gpu::session::ENV;
use crate::support::mechanism::device_that_stays;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// SIGKILL.
const KILLED: i32 = 9;
/// More steps than any mechanism has.
const STEPS_MAX: u32 = 64;
/// Devices that are worked on at the same time: most of it is waiting for processes.
const AT_ONCE: usize = 6;

/// Every mechanism that changes something on the host of some machine, and how much: a change has a
/// step when it is written down, made, undone and marked.
const MECHANISMS: [(&str, u32); 9] = [
    ("exclusive-process", 1),
    ("time-slicing", 1),
    // Three folders and a daemon; with static partitions; and a group and its limit for each.
    ("mps", 4),
    ("mps-quota", 4),
    ("mps-static", 4),
    ("mps-memory", 8),
    // The mode and two instances; the mode, one instance and what a daemon needs.
    ("mig", 3),
    ("mig-mps", 6),
    ("hami", 1),
];

/// What each machine lacks of them.
const LACKING: [(&str, &[&str]); 5] = [
    ("hopper", &[]),
    ("h200", &[]),
    ("h100-80", &["mps-static", "mps-memory", "hami"]),
    ("a100-80", &["mps-static", "mps-memory", "hami"]),
    (
        "turing",
        &["mps-static", "mps-memory", "mig", "mig-mps", "hami"],
    ),
];

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
    limited_groups: usize,
    groups: Vec<PathBuf>,
}

/// A device with folders for what runs on it.
struct Stage {
    device: Device,
    /// Variables with which programs find it.
    environment: Vec<(String, String)>,
    machine: String,
    dir: tempfile::TempDir,
}

impl Stage {
    fn new(machine: &str, options: &str) -> Result<Self, Error> {
        let dir = tempfile::tempdir()?;
        let built_in = BUILT_IN.iter().find(|(name, _)| *name == machine);
        // Making an instance takes a second on these machines, and there are many to make.
        let text = built_in.ok_or("an unknown machine")?.1;
        let quick = text.replace("instance_ms = 1000", "instance_ms = 0");
        let file = dir.path().join("machine.toml");
        std::fs::write(&file, quick)?;
        std::fs::create_dir(dir.path().join("run"))?;
        let short = include_str!("data/short.toml").to_owned() + "[time-slicing]\nslice = \"short\"\n";
        // As much time as all mechanisms together would take, were any measured.
        let short = short.replace("device_time = \"20s\"", "device_time = \"10min\"") + options;
        std::fs::write(dir.path().join("profile.toml"), short)?;
        let program = Path::new(env!("CARGO_BIN_EXE_gpubench"));
        let environment = device_that_stays(program, &file, &dir.path().join("cache"))?;
        let folder = environment.iter().find(|(name, _)| name == ENV);
        let device = Device::open(Path::new(&folder.ok_or("no device")?.1))?;
        Ok(Self {
            device,
            environment,
            machine: machine.to_owned(),
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

    fn plan(&self, more: &[&str], die_after: Option<u32>) -> Result<Output, Error> {
        let profile = self.path("profile.toml").display().to_string();
        let args = ["plan", "--allow-reconfigure", "--profile", &profile];
        self.gpubench(&[&args[..], more].concat(), die_after)
    }

    fn rehearse(&self, mechanism: &str, die_after: Option<u32>) -> Result<Output, Error> {
        self.plan(&["--rehearse", "--mechanism", mechanism], die_after)
    }

    /// The mechanisms that would change something on this device's host, by name.
    fn changing(&self) -> Result<Vec<String>, Error> {
        let planned = self.plan(&["--format", "json"], None)?;
        let document: serde_json::Value = serde_json::from_slice(&planned.stdout)?;
        let rows = document["plan"]["mechanisms"].as_array().ok_or("no plan")?;
        let changes = |row: &&serde_json::Value| {
            row["host_changes"]
                .as_array()
                .is_some_and(|changes| !changes.is_empty())
        };
        let name = |row: &serde_json::Value| row["name"].as_str().unwrap_or_default().to_owned();
        Ok(rows.iter().filter(changes).map(name).collect())
    }

    fn settings(&self) -> Result<Settings, Error> {
        self.device.reap_dead_processes()?;
        let folders = std::fs::read_dir(self.device.dir().join(TREE));
        let folders = folders
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let groups = folders.filter(|path| path.is_dir()).collect();
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
                limited_groups: state
                    .memory_groups
                    .live()
                    .iter()
                    .filter(|row| row.live)
                    .count(),
                groups,
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
        let killed = self.rehearse(mechanism, Some(step))?;
        let what = format!("{}: {mechanism} killed at step {step}", self.machine);
        let told = String::from_utf8_lossy(&killed.stderr).into_owned();
        let died = killed.status.signal() == Some(KILLED);
        assert!(died || killed.status.success(), "{what}: {told}");
        let pipes: Vec<PathBuf> = self.left_in("run").iter().map(|f| f.join("pipe")).collect();
        if died && step % 3 == 1 {
            // The one who cleans up may be killed too, and comes again.
            let _ = self.gpubench(&["cleanup"], Some(step % 4))?;
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

/// What the driver of an a100-80 refuses when it is asked.
const REFUSED: [&str; 3] = ["time-slicing", "mig", "mig-mps"];

/// Runs jobs on several threads; the first error of any.
fn all<T: Sync>(jobs: &[T], work: impl Fn(&T) -> Result<(), Error> + Sync) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let one = || -> Result<(), Error> {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(job)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one)).collect();
        let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        let ended: Vec<_> = ended.collect();
        for result in ended {
            result.map_err(|_| "a job failed; its message stands above")??;
        }
        Ok(())
    })
}

#[test]
fn every_mechanism_comes_back_from_every_step_on_every_machine() -> Result<(), Error> {
    let machines: Vec<&str> = LACKING.iter().map(|(name, _)| *name).collect();
    let built_in: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let mut jobs = Vec::new();
    for name in built_in {
        assert!(machines.contains(&name), "{name} is not in the table");
    }
    for (machine, lacking) in LACKING {
        let has = MECHANISMS
            .iter()
            .filter(|(name, _)| !lacking.contains(name));
        let has: Vec<_> = has.copied().collect();
        let names: Vec<&str> = has.iter().map(|(name, _)| *name).collect();
        let stage = Stage::new(machine, "")?;
        assert_eq!(stage.changing()?, names, "{machine}");
        jobs.extend(
            has.into_iter()
                .map(|(mechanism, changes)| (machine, mechanism, changes)),
        );
    }
    // Those that take longest first.
    jobs.sort_by_key(|(_, _, changes)| std::cmp::Reverse(*changes));
    all(&jobs, |&(machine, mechanism, changes)| {
        // Of an a100-80 the MIG mode waits for a reset and turns have one length: the change is
        // refused, and taken back.
        let refused = machine == "a100-80" && REFUSED.contains(&mechanism);
        let steps = if refused { 3 } else { 4 * changes };
        let stage = Stage::new(machine, "")?;
        assert_eq!(
            stage.kill_at_each(mechanism)?,
            steps,
            "{machine}: {mechanism}"
        );
        Ok(())
    })
}

#[test]
fn the_mode_beside_a_daemon_comes_back_from_every_step_too() -> Result<(), Error> {
    let guarded = "[mps]\nexclusive_process = true\n[mps-memory]\nby = \"namespace\"\n";
    let jobs = [("hopper", "mps-memory"), ("turing", "mps-quota")];
    all(&jobs, |(machine, mechanism)| {
        // Mode, three folders and a daemon.
        let stage = Stage::new(machine, guarded)?;
        assert_eq!(stage.kill_at_each(mechanism)?, 20, "{machine}: {mechanism}");
        Ok(())
    })
}

/// Stands in front of the daemon's command. Where a daemon is started for an instance, another
/// process takes the instance first; the daemon is then started, or is not.
const INTRUDER: &str = r#"#!/bin/sh
if [ "$1" = -d ] && [ ! -e "$HERE/said" ]; then
    CLIENT hold < "$HERE/held" > "$HERE/said" 2> /dev/null &
    for i in $(seq 500); do grep -q holding "$HERE/said" && break; sleep 0.02; done
    [ "$REFUSES" = 1 ] && { echo "no daemon today" >&2; exit 1; }
fi
exec "$STAND_IN" "$@"
"#;

/// Puts the intruder before the daemon's command; whoever it starts lives until what is returned is
/// dropped.
fn place_intruder(stage: &mut Stage, refuses: bool) -> Result<std::fs::File, Error> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent).ok_or("no target")?;
    let client = target.join("examples/driver_client").display().to_string();
    let script = stage.path("bin").join("nvidia-cuda-mps-control");
    std::fs::create_dir(stage.path("bin"))?;
    std::fs::write(&script, INTRUDER.replace("CLIENT", &client))?;
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let made = Command::new("mkfifo").arg(stage.path("held")).status()?;
    assert!(made.success());
    let here = stage.path("").display().to_string();
    let path = stage
        .environment
        .iter_mut()
        .find(|(name, _)| name == "PATH");
    let (_, path) = path.ok_or("no PATH")?;
    let commands = path.split(':').next().unwrap_or_default();
    let stand_in = format!("{commands}/nvidia-cuda-mps-control");
    *path = format!("{here}/bin:{path}");
    for (name, value) in [
        ("HERE", here),
        ("STAND_IN", stand_in),
        ("REFUSES", u8::from(refuses).to_string()),
    ] {
        stage.environment.push((name.to_owned(), value));
    }
    // It is open on both sides, so that neither waits for the other to open it.
    let mut both = std::fs::OpenOptions::new();
    Ok(both.read(true).write(true).open(stage.path("held"))?)
}

/// Has somebody take the instance while `mig-mps` is set up, and ends that only after the mechanism
/// wanted to destroy it.
fn intrude(refuses: bool) -> Result<(), Error> {
    let mut stage = Stage::new("hopper", "")?;
    let found = stage.settings()?;
    let held = place_intruder(&mut stage, refuses)?;
    let busy = |what: &str, output: &Output| {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{what}: {told}");
        for part in [
            "MIG instance 7g.80gb at 0: destroying a MIG instance",
            "cleanup",
        ] {
            assert!(told.contains(part), "{what}: {told}");
        }
    };
    busy("the run", &stage.rehearse("mig-mps", None)?);
    let half = stage.settings()?;
    let left = (
        half.mig,
        half.instances.len(),
        half.engines,
        half.daemons,
        half.contexts,
    );
    // The instance is whole, and so is the mode that it needs; all that was beside it is gone.
    assert_eq!(left, ((true, true), 1, 1, 0, 1));
    assert_eq!(stage.left_in("run"), Vec::<PathBuf>::new());
    busy("cleanup", &stage.gpubench(&["cleanup"], None)?);
    assert_eq!(stage.settings()?, half, "nothing was half torn down");
    let refused = stage.rehearse("mps", None)?;
    assert_eq!(
        refused.status.code(),
        Some(6),
        "the next run is refused until it is clean"
    );
    drop(held);
    for _ in 0..500 {
        if stage.settings()?.contexts == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let cleaned = stage.gpubench(&["cleanup"], None)?;
    let told = String::from_utf8_lossy(&cleaned.stderr).into_owned();
    assert_eq!(cleaned.status.code(), Some(0), "{told}");
    assert_eq!(stage.settings()?, found);
    assert_eq!(stage.left_in("state/gpubench"), Vec::<PathBuf>::new());
    Ok(())
}

#[test]
fn an_instance_that_somebody_holds_is_told_kept_whole_and_finished_later() -> Result<(), Error> {
    // At tear-down, and at a set-up that fails on the way.
    all(&[false, true], |refuses| intrude(*refuses))
}
