//! Who belongs to a process group: a program of the user's may be a shell with children, and NVML
//! lists whichever of them has a context.

/// Those of `pids` that are in the process group `leader`.
#[must_use]
pub fn members(leader: u32, pids: impl Iterator<Item = u32>) -> Vec<u32> {
    pids.filter(|pid| group_of(*pid) == Some(leader)).collect()
}

/// The process group of a process; nothing if it is gone or the system does not tell.
fn group_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    group_in(&stat)
}

/// The third field after the command's name, which may hold blanks and brackets (proc(5)).
fn group_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{group_in, group_of, members};

    #[test]
    fn the_group_is_found_behind_any_name() {
        assert_eq!(group_in("77 (a) b) S 1 55 55 0 -1"), Some(55));
        assert_eq!(group_in("77 (sh"), None);
        assert_eq!(group_of(0), None);
        let own = std::process::id();
        let group = group_of(own).unwrap_or(0);
        assert_ne!(group, 0);
        assert_eq!(members(group, [0, own].into_iter()), [own]);
    }
}
