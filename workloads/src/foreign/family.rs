//! Everything that descends from a process: what a program of the user's has started must end with
//! it, also what has left its process group.
//!
//! A tenant that runs a program adopts orphans (`PR_SET_CHILD_SUBREAPER`, prctl(2)), so that what
//! descends from the program descends from the tenant for as long as that lives.
#![expect(
    unsafe_code,
    reason = "signals, adoption and waiting for any child have no safe form in std"
)]

use std::time::Duration;

/// Looks until nobody is left: whoever is told to end may start others meanwhile.
const ROUNDS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// What the system tells of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kin {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// That of its group's leader.
    pub group: u32,
    /// Whether it has ended and only waits to be asked how.
    pub is_gone: bool,
}

impl Kin {
    /// A process; nothing if it is gone or the system does not tell.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::read(pid, &stat)
    }

    /// State, parent and group stand after the command's name, which may hold blanks and brackets
    /// (proc_pid_stat(5)).
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

/// Has this process adopt the orphans of all that it starts.
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
    let told = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut found) };
    told == 0 && found == 1
}

/// Who descends from a process and lives.
#[must_use]
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let everybody = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pid = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let kin: Vec<Kin> = everybody.filter_map(pid).filter_map(Kin::of).collect();
    among(&kin, ancestor)
}

fn among(kin: &[Kin], ancestor: u32) -> Vec<u32> {
    let mut known = vec![ancestor];
    let mut at = 0;
    while let Some(&parent) = known.get(at) {
        let born = kin
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

/// Ends whoever descends from a process, by SIGKILL; those that are still there afterwards.
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

/// Ends all that was adopted, and asks how it ended, so that nothing of it is left.
pub(super) fn end_adopted() {
    let _stays = end_descendants(std::process::id());
    // SAFETY: plain calls; with no place to write to, nothing is written. None of the children that
    // could be met here is anybody else's to wait for: the program itself was waited for.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// Sends a signal to one process; one that is gone needs none.
fn signal(pid: u32, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(pid)
        && pid > 1
    {
        // SAFETY: plain call; the process was just seen to descend from one that is ours to end.
        unsafe { libc::kill(pid, signal) };
    }
}

#[cfg(test)]
mod tests {
    use super::{Kin, among};

    fn kin(pid: u32, parent: u32) -> Kin {
        Kin {
            pid,
            parent,
            group: pid,
            is_gone: false,
        }
    }

    #[test]
    fn fields_are_found_behind_any_name() {
        let found = Kin::read(77, "77 (a) b) S 1 55 54 0 -1").expect("a line of the system's");
        let told = (found.parent, found.group, found.is_gone);
        assert_eq!(told, (1, 55, false));
        assert!(Kin::read(77, "77 (sh) Z 1 55 54").is_some_and(|kin| kin.is_gone));
        assert_eq!(Kin::read(77, "77 (sh"), None);
        assert_eq!(Kin::of(0), None);
    }

    #[test]
    fn grandchildren_count_and_strangers_and_the_dead_do_not() {
        let mut all = [
            kin(9, 7),
            kin(8, 7),
            kin(10, 9),
            kin(11, 10),
            kin(20, 1),
            kin(12, 8),
        ];
        assert_eq!(among(&all, 7), [9, 8, 10, 12, 11]);
        all[5].is_gone = true;
        assert_eq!(among(&all, 7), [9, 8, 10, 11]);
        assert_eq!(among(&all, 99), [] as [u32; 0]);
    }
}
