//! gpubench is killed at every step of the set-up and tear-down of every mechanism on every
//! machine. `gpubench cleanup` then restores the device. Processes, driver calls, daemons and
//! folders are real; the virtual device outlives them. Nothing is measured.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpubench_host::mechanism::host::mps_processes;
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::machine::BUILT_IN;

use super::support::guarded::Resident;
use super::support::guarded::Settings;
use crate::support::{
    Error, Finished, Lab, SHORT, TestResult, driver_client, finish, machine_text, wait_for,
    with_changes,
};

const SIGKILL: i32 = 9;
/// More steps than any mechanism has.
const STEPS_MAX: u32 = 64;
/// Devices tested at the same time: most of the time goes into waiting for processes.
const AT_ONCE: usize = 6;

/// Every mechanism that changes a host, with its number of changes. A change has four steps:
/// journal entry, change, undo, and the mark of the undo.
const MECHANISMS: [(&str, u32); 10] = [
    ("exclusive-process", 1),
    ("time-slicing", 1),
    // As mps-memory.
    ("time-slicing-capped", 8),
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

const SMALL: &[&str] =
    &["time-slicing-capped", "mps-static", "mps-memory", "mig", "mig-mps", "hami"];

/// The mechanisms that a machine does not support.
const LACKING: [(&str, &[&str]); 9] = [
    ("hopper", &[]),
    ("b200", &[]),
    ("h200", &[]),
    ("h100-80", &["time-slicing-capped", "mps-static", "mps-memory"]),
    ("a100-80", &["time-slicing-capped", "mps-static", "mps-memory", "hami"]),
    ("turing", SMALL),
    ("t4", SMALL),
    ("l4", SMALL),
    ("a10", SMALL),
];

/// A device whose settings are compared before and after a kill.
struct Stage {
    host: Resident,
    device: Device,
    machine: String,
}

impl Stage {
    fn new(machine: &str, options: &str) -> Result<Self, Error> {
        // Creating a MIG instance takes a second on these machines, and this creates many.
        let text = machine_text(machine)?.replace("instance_ms = 1000", "instance_ms = 0");
        // Device time for all mechanisms, so that none is skipped: nothing is measured.
        let profile = SHORT.to_owned() + "[time-slicing]\nslice = \"short\"\n" + options;
        let profile =
            with_changes(&profile, &[("device_time = \"60s\"", "device_time = \"10min\"")])?;
        let host = Resident::start(Lab::of_machine(&text)?.profile(&profile)?)?;
        let device = host.open()?;
        Ok(Self { host, device, machine: machine.to_owned() })
    }

    fn gpubench(&self, args: &[&str], die_after: Option<u32>) -> Result<Finished, Error> {
        let mut command = self.host.gpubench(args);
        if let Some(steps) = die_after {
            command.env("GPUBENCH_DIE_AFTER_STEPS", steps.to_string());
        }
        finish(command)
    }

    fn plan(&self, more: &[&str], die_after: Option<u32>) -> Result<Finished, Error> {
        let args = ["plan", "--allow-reconfigure", "--profile", "short.toml"];
        self.gpubench(&[&args[..], more].concat(), die_after)
    }

    fn rehearse(&self, mechanism: &str, die_after: Option<u32>) -> Result<Finished, Error> {
        self.plan(&["--rehearse", "--mechanism", mechanism], die_after)
    }

    /// The mechanisms that would change something on this device's host, by name.
    fn changing(&self) -> Result<Vec<String>, Error> {
        let planned = self.plan(&["--format", "json"], None)?;
        let document: serde_json::Value = serde_json::from_str(&planned.stdout)?;
        let rows = document["plan"]["mechanisms"].as_array().ok_or("no plan")?;
        let changes = |row: &&serde_json::Value| {
            row["host_changes"].as_array().is_some_and(|changes| !changes.is_empty())
        };
        let name = |row: &serde_json::Value| row["name"].as_str().unwrap_or_default().to_owned();
        Ok(rows.iter().filter(changes).map(name).collect())
    }

    fn settings(&self) -> Result<Settings, Error> {
        Settings::of(&self.device)
    }

    /// Kills gpubench at one step, cleans up, and compares the settings with those from before.
    /// False when the mechanism has no such step.
    fn kill_at(&self, mechanism: &str, step: u32) -> Result<bool, Error> {
        let found = self.settings()?;
        let killed = self.rehearse(mechanism, Some(step))?;
        let what = format!("{}: {mechanism} killed at step {step}", self.machine);
        let died = killed.signal == Some(SIGKILL);
        assert!(died || killed.code == Some(0), "{what}: {}", killed.stderr);
        let left = self.host.left_in("run");
        let pipes: Vec<PathBuf> = left.iter().map(|folder| folder.join("pipe")).collect();
        if died && step % 3 == 1 {
            // The clean-up is killed too, and repeated.
            let _ = self.gpubench(&["cleanup"], Some(step % 4))?;
        }
        let cleaned = self.gpubench(&["cleanup"], None)?;
        assert_eq!(cleaned.code, Some(0), "{what}: {}", cleaned.stderr);
        assert_eq!(self.settings()?, found, "{what}");
        assert_eq!(self.host.left_in("run"), Vec::<PathBuf>::new(), "{what}");
        assert_eq!(self.host.left_in("state/gpubench"), Vec::<PathBuf>::new(), "{what}");
        for pipe in pipes {
            assert_eq!(mps_processes(&pipe), Vec::<u32>::new(), "{what}");
        }
        Ok(died)
    }

    /// Kills at every step of a mechanism and returns how many there are.
    fn kill_at_each(&self, mechanism: &str) -> Result<u32, Error> {
        for step in 0..STEPS_MAX {
            if !self.kill_at(mechanism, step)? {
                return Ok(step);
            }
        }
        Err(format!("{mechanism} has more than {STEPS_MAX} steps").into())
    }
}

/// Mechanisms whose changes the driver of an a100-80 refuses.
const REFUSED: [&str; 3] = ["time-slicing", "mig", "mig-mps"];

/// Runs jobs on several threads and returns the first error.
fn all<T: Sync>(jobs: &[T], work: impl Fn(&T) -> TestResult + Sync) -> TestResult {
    let next = AtomicUsize::new(0);
    let one = || -> TestResult {
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
            result.map_err(|_| "a job panicked; its message is above")??;
        }
        Ok(())
    })
}

#[test]
fn every_mechanism_is_restored_after_a_kill_at_every_step_on_every_machine() -> TestResult {
    let machines: Vec<&str> = LACKING.iter().map(|(name, _)| *name).collect();
    let built_in: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let mut jobs = Vec::new();
    for name in built_in {
        assert!(machines.contains(&name), "{name} is not in the table");
    }
    for (machine, lacking) in LACKING {
        let has = MECHANISMS.iter().filter(|(name, _)| !lacking.contains(name));
        let has: Vec<_> = has.copied().collect();
        let names: Vec<&str> = has.iter().map(|(name, _)| *name).collect();
        let stage = Stage::new(machine, "")?;
        assert_eq!(stage.changing()?, names, "{machine}");
        jobs.extend(has.into_iter().map(|(mechanism, changes)| (machine, mechanism, changes)));
    }
    // The longest jobs first.
    jobs.sort_by_key(|(_, _, changes)| std::cmp::Reverse(*changes));
    all(&jobs, |&(machine, mechanism, changes)| {
        // On an a100-80 the MIG mode waits for a reset and the time slice is fixed: the change is
        // refused and undone.
        let refused = machine == "a100-80" && REFUSED.contains(&mechanism);
        let steps = if refused { 3 } else { 4 * changes };
        let stage = Stage::new(machine, "")?;
        assert_eq!(stage.kill_at_each(mechanism)?, steps, "{machine}: {mechanism}");
        Ok(())
    })
}

#[test]
fn the_compute_mode_beside_a_daemon_is_restored_after_a_kill_at_every_step() -> TestResult {
    let guarded = "[mps]\nexclusive_process = true\n[mps-memory]\nby = \"namespace\"\n";
    let jobs = [("hopper", "mps-memory"), ("turing", "mps-quota")];
    all(&jobs, |(machine, mechanism)| {
        // Mode, three folders and a daemon.
        let stage = Stage::new(machine, guarded)?;
        assert_eq!(stage.kill_at_each(mechanism)?, 20, "{machine}: {mechanism}");
        Ok(())
    })
}

/// A script in place of the MPS control command. Before the daemon of an instance starts, another
/// process, which is none of the run, takes the instance; the daemon then starts or is refused.
const INTRUDER: &str = r#"#!/bin/sh
if [ "$1" = -d ] && [ ! -e "$HERE/output" ]; then
    env -u GPUBENCH_RUN CLIENT hold < "$HERE/held" > "$HERE/output" 2> /dev/null &
    for i in $(seq 500); do grep -q holding "$HERE/output" && break; sleep 0.02; done
    [ REFUSES = 1 ] && { echo "refused" >&2; exit 1; }
fi
exec "$STAND_IN" "$@"
"#;

/// Installs the script. The process that it starts lives until the returned file is dropped.
fn install_intruder(stage: &mut Stage, refuses: bool) -> Result<std::fs::File, Error> {
    let client = driver_client()?.display().to_string();
    let refuses = if refuses { "1" } else { "0" };
    let script = INTRUDER.replace("CLIENT", &client).replace("REFUSES", refuses);
    stage.host.shadow("nvidia-cuda-mps-control", &script)?;
    let held = stage.host.lab.path("held");
    assert!(Command::new("mkfifo").arg(&held).status()?.success());
    // Opened for both directions, so that no side waits for the other to open it.
    let mut both = std::fs::OpenOptions::new();
    Ok(both.read(true).write(true).open(held)?)
}

/// A process takes the instance while `mig-mps` is set up, and ends after the mechanism failed to
/// destroy it.
fn intrude(refuses: bool) -> TestResult {
    let mut stage = Stage::new("hopper", "")?;
    let found = stage.settings()?;
    let held = install_intruder(&mut stage, refuses)?;
    let is_busy = |what: &str, done: &Finished| {
        assert_eq!(done.code, Some(6), "{what}: {}", done.stderr);
        for part in ["MIG instance 7g.80gb at 0: destroying a MIG instance", "cleanup"] {
            assert!(done.stderr.contains(part), "{what}: {}", done.stderr);
        }
    };
    is_busy("the run", &stage.rehearse("mig-mps", None)?);
    let half = stage.settings()?;
    let left = (half.mig, half.instances.len(), half.engines, half.daemons, half.contexts);
    // The instance and the MIG mode that it needs stay; everything else is gone.
    assert_eq!(left, ((true, true), 1, 1, 0, 1));
    assert_eq!(stage.host.left_in("run"), Vec::<PathBuf>::new());
    is_busy("cleanup", &stage.gpubench(&["cleanup"], None)?);
    assert_eq!(stage.settings()?, half, "a failed clean-up changes nothing");
    let refused = stage.rehearse("mps", None)?;
    assert_eq!(refused.code, Some(6), "a run is refused before the clean-up");
    drop(held);
    wait_for("the intruder ends", || stage.settings().is_ok_and(|now| now.contexts == 0))?;
    stage.gpubench(&["cleanup"], None)?.ended_with(0)?;
    assert_eq!(stage.settings()?, found);
    assert_eq!(stage.host.left_in("state/gpubench"), Vec::<PathBuf>::new());
    Ok(())
}

#[test]
fn a_busy_instance_is_reported_kept_whole_and_destroyed_by_a_later_cleanup() -> TestResult {
    // At tear-down, and after a set-up that fails.
    all(&[false, true], |refuses| intrude(*refuses))
}
