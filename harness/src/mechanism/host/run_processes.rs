//! Finding and ending the processes of dead runs: tenants, daemons and servers, and what a user's
//! program started.
//!
//! A process belongs to the run that its environment names. Only processes of this user are
//! searched. A process that removed the variable is not found; tenants end with the coordinator in
//! any case.

use std::ffi::OsStr;
use std::time::Duration;

use gpubench_workloads::command::RUN;
use procfs::process::{Process, all_processes};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::process::is_mps;
use super::run_id::RunId;

/// Searches until no process is left, and the pause between two.
const ROUNDS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// Which processes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All but daemons and servers of MPS, which end by a command while their folder exists.
    ExceptMps,
    All,
}

/// Kills the processes of the runs for which `is_dead` holds. Returns how many it found.
pub fn end_run_processes(kind: Kind, is_dead: impl Fn(&RunId) -> bool) -> usize {
    let is_left = |process: &Process| {
        run_of(process).is_some_and(|run| is_dead(&run)) && (kind == Kind::All || !is_mps(process))
    };
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..ROUNDS {
        let left = own_processes().filter(|process| is_left(process));
        let left: Vec<i32> = left.map(|process| process.pid()).collect();
        if left.is_empty() {
            break;
        }
        for &pid in &left {
            kill(pid, &is_left);
        }
        found.extend(left);
        std::thread::sleep(PAUSE);
    }
    found.len()
}

/// The processes of this user without this one.
fn own_processes() -> impl Iterator<Item = Process> {
    let (own, user) = (std::process::id(), rustix::process::geteuid().as_raw());
    // `/proc` is readable wherever this program runs: it starts from `/proc/self/exe`. A process
    // that ends during the search is left out.
    let all = all_processes().into_iter().flatten().flatten();
    all.filter(move |process| {
        u32::try_from(process.pid()) != Ok(own) && process.uid().is_ok_and(|uid| uid == user)
    })
}

/// The run that a process belongs to; `None` for a process that has ended.
fn run_of(process: &Process) -> Option<RunId> {
    let environment = process.environ().ok()?;
    environment.get(OsStr::new(RUN))?.to_str()?.parse().ok()
}

/// Kills a process that still belongs to the run once a descriptor keeps its id from being reused.
fn kill(pid: i32, is_left: &dyn Fn(&Process) -> bool) {
    let Some(handle) = Pid::from_raw(pid) else {
        return;
    };
    // It may have ended since.
    let Ok(handle) = pidfd_open(handle, PidfdFlags::empty()) else {
        return;
    };
    if Process::new(pid).is_ok_and(|process| is_left(&process)) {
        let _ended = pidfd_send_signal(handle, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use gpubench_workloads::command::{Inherits, RUN, command};

    use super::{Kind, end_run_processes};
    use crate::mechanism::host::RunId;

    #[test]
    fn the_processes_of_a_run_are_ended_and_no_others() -> std::io::Result<()> {
        let own = RunId::own()?.to_string();
        let (dead, other) = (format!("{own}1"), format!("{own}2"));
        let sleeper = |run: &str| {
            let mut sleeper = command("sleep", Inherits::Listed);
            sleeper.arg("60").env(RUN, run).stdin(Stdio::null()).spawn()
        };
        let (mut first, mut second) = (sleeper(&dead)?, sleeper(&dead)?);
        let mut stays = sleeper(&other)?;
        // A new process has this environment once it runs its program.
        for child in [&first, &second, &stays] {
            let path = format!("/proc/{}/environ", child.id());
            while !String::from_utf8_lossy(&std::fs::read(&path)?).contains(&own) {
                std::thread::yield_now();
            }
        }
        let found = end_run_processes(Kind::All, |run| run.to_string() == dead);
        assert_eq!(found, 2);
        assert!(!first.wait()?.success() && !second.wait()?.success());
        assert!(stays.try_wait()?.is_none());
        stays.kill()?;
        stays.wait().map(|_| ())
    }
}
