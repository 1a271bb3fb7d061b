//! The processes below a process. All processes that a user's program starts must end with it, also
//! those that leave its process group.
//!
//! A tenant that runs a program adopts orphans (`PR_SET_CHILD_SUBREAPER`, prctl(2)), so descendants
//! of the program stay descendants of the tenant as long as the tenant lives.
#![expect(
    unsafe_code,
    reason = "signals, adoption and waiting for any child have no safe form in std"
)]

use std::time::Duration;

/// Rounds of killing until no descendant is left: a process may start others before it ends.
const ROUNDS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// A process as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Whether it has ended and waits to be reaped.
    pub is_gone: bool,
}

impl Process {
    /// The process with that PID; `None` if it does not exist or `/proc` cannot be read.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::read(pid, &stat)
    }

    /// State, parent and group stand behind the command's name, which may contain spaces and
    /// brackets (proc_pid_stat(5)).
    fn read(pid: u32, stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut words = rest.split_whitespace();
        let state = words.next()?;
        Some(Self {
            pid,
            parent: words.next()?.parse().ok()?,
            group: words.next()?.parse().ok()?,
            is_gone: matches!(state, "Z" | "X"),
        })
    }
}

/// Makes this process adopt the orphans of all its descendants.
///
/// # Errors
/// When the system refuses.
pub fn adopt_orphans() -> std::io::Result<()> {
    // SAFETY: plain call with a plain flag.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Whether this process adopts orphans.
pub(super) fn adopts() -> bool {
    let mut found: libc::c_int = 0;
    // SAFETY: the call writes one int, which is there.
    let status = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut found) };
    status == 0 && found == 1
}

/// The living descendants of a process.
#[must_use]
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pid = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let processes: Vec<Process> = entries.filter_map(pid).filter_map(Process::of).collect();
    among(&processes, ancestor)
}

fn among(processes: &[Process], ancestor: u32) -> Vec<u32> {
    let mut known = vec![ancestor];
    let mut at = 0;
    while let Some(&parent) = known.get(at) {
        let born = processes
            .iter()
            .filter(|one| one.parent == parent && !one.is_gone);
        let new: Vec<u32> = born
            .map(|one| one.pid)
            .filter(|pid| !known.contains(pid))
            .collect();
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
            signal(pid, libc::SIGKILL);
        }
        std::thread::sleep(PAUSE);
    }
    descendants(ancestor)
}

/// Kills and reaps all adopted processes.
pub(super) fn end_adopted() {
    let _stays = end_descendants(std::process::id());
    // SAFETY: plain calls; with a null status pointer nothing is written. Every child left here is
    // an adopted one: the program itself was waited for.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// Sends a signal to one process; a missing process is not an error.
fn signal(pid: u32, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(pid)
        && pid > 1
    {
        // SAFETY: plain call; the process is a descendant of one that this tenant started.
        unsafe { libc::kill(pid, signal) };
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, among};

    fn process(pid: u32, parent: u32) -> Process {
        Process {
            pid,
            parent,
            group: pid,
            is_gone: false,
        }
    }

    #[test]
    fn fields_are_found_behind_any_name() {
        let found =
            Process::read(77, "77 (a) b) S 1 55 54 0 -1").expect("a line of /proc/PID/stat");
        let fields = (found.parent, found.group, found.is_gone);
        assert_eq!(fields, (1, 55, false));
        assert!(Process::read(77, "77 (sh) Z 1 55 54").is_some_and(|found| found.is_gone));
        assert_eq!(Process::read(77, "77 (sh"), None);
        assert_eq!(Process::of(0), None);
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
