//! The processes below a process. All processes that a user's program starts must end with it, also
//! those that leave its process group.
//!
//! A tenant that runs a program adopts orphans (`PR_SET_CHILD_SUBREAPER`, prctl(2)), so descendants
//! of the program stay descendants of the tenant as long as the tenant lives.

use std::time::Duration;

use rustix::process::{self, Signal, WaitOptions};

/// Rounds of killing until no descendant is left: a process may start others before it ends.
const ROUNDS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// A process as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    pub is_gone: bool,
    pub is_stopped: bool,
}

impl Process {
    /// The process with that PID; `None` if it does not exist or `/proc` cannot be read.
    pub fn of(pid: u32) -> Option<Self> {
        let process = procfs::process::Process::new(pid.try_into().ok()?).ok()?;
        Self::read(&process.stat().ok()?)
    }

    fn read(stat: &procfs::process::Stat) -> Option<Self> {
        Some(Self {
            pid: stat.pid.try_into().ok()?,
            parent: stat.ppid.try_into().ok()?,
            group: stat.pgrp.try_into().ok()?,
            // Ended and not reaped (proc_pid_stat(5)).
            is_gone: matches!(stat.state, 'Z' | 'X'),
            is_stopped: stat.state == 'T',
        })
    }
}

pub fn adopt_orphans() -> std::io::Result<()> {
    // Any process id switches it on (`PR_SET_CHILD_SUBREAPER`, prctl(2)).
    Ok(process::set_child_subreaper(Some(process::getpid()))?)
}

/// Whether this process adopts orphans.
pub(super) fn adopts() -> bool {
    matches!(process::child_subreaper(), Ok(Some(_)))
}

/// The living descendants of a process.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    // `/proc` is readable wherever gpubench runs: it starts its tenants from `/proc/self/exe`. A
    // process that ends during the search is left out.
    let all = procfs::process::all_processes().into_iter().flatten();
    let stats = all.filter_map(|process| process.ok()?.stat().ok());
    let processes: Vec<Process> = stats.filter_map(|stat| Process::read(&stat)).collect();
    among(&processes, ancestor)
}

fn among(processes: &[Process], ancestor: u32) -> Vec<u32> {
    let mut known = vec![ancestor];
    let mut at = 0;
    while let Some(&parent) = known.get(at) {
        let born = processes.iter().filter(|one| one.parent == parent && !one.is_gone);
        let new: Vec<u32> = born.map(|one| one.pid).filter(|pid| !known.contains(pid)).collect();
        known.extend(new);
        at += 1;
    }
    known.split_off(1)
}

/// Kills the descendants of a process; returns those that still live.
pub fn end_descendants(ancestor: u32) -> Vec<u32> {
    for _ in 0..ROUNDS {
        let left = descendants(ancestor);
        if left.is_empty() {
            return left;
        }
        for pid in left {
            signal_process(pid, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
    descendants(ancestor)
}

/// Kills and reaps all adopted processes.
pub(super) fn end_adopted() {
    let _stays = end_descendants(std::process::id());
    // Every child left here is an adopted one: the program itself was waited for.
    while matches!(process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
}

/// Sends a signal to one process; a missing process is not an error.
pub fn signal_process(pid: u32, signal: Signal) {
    if let Some(pid) = target(pid) {
        let _ended = process::kill_process(pid, signal);
    }
}

/// Sends a signal to a process group. A group that has ended is no error.
pub fn signal_group(leader: u32, signal: Signal) {
    if let Some(leader) = target(leader) {
        let _ended = process::kill_process_group(leader, signal);
    }
}

/// The process of that number; `None` for 0 and 1, which no signal may reach.
fn target(pid: u32) -> Option<process::Pid> {
    process::Pid::from_raw(pid.try_into().ok()?).filter(|pid| !pid.is_init())
}

#[cfg(test)]
mod tests {
    use super::{Process, among};

    fn process(pid: u32, parent: u32) -> Process {
        Process { pid, parent, group: pid, is_gone: false, is_stopped: false }
    }

    #[test]
    fn a_zombie_is_gone_and_a_live_process_is_not() -> std::io::Result<()> {
        let mut child = std::process::Command::new("true").spawn()?;
        let found = Process::of(child.id()).expect("a child that was not waited for");
        assert_eq!(found.parent, std::process::id());
        let is_gone = || Process::of(child.id()).is_some_and(|found| found.is_gone);
        while !is_gone() {
            std::thread::sleep(super::PAUSE);
        }
        child.wait()?;
        assert_eq!(Process::of(child.id()), None);
        assert_eq!(Process::of(0), None);
        Ok(())
    }

    #[test]
    fn grandchildren_are_descendants_and_other_or_dead_processes_are_not() {
        let mut all = [
            process(9, 7),
            process(8, 7),
            process(10, 9),
            process(11, 10),
            process(20, 1),
            process(12, 8),
        ];
        assert_eq!(among(&all, 7), [9, 8, 10, 12, 11]);
        all[5].is_gone = true;
        assert_eq!(among(&all, 7), [9, 8, 10, 11]);
        assert_eq!(among(&all, 99), [] as [u32; 0]);
    }
}
