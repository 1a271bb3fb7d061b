//! Control groups of the host, stood in for by a folder beside the device's state. A process is in
//! the group whose `cgroup.procs` lists it or one of its ancestors. The memory limit of a group
//! applies to the sum over all contexts of its processes.
//!
//! The rules follow the vendor's MPS documentation (release 615, "MPS v3 Memory Partitioning"). The
//! hard limit bounds what the group can allocate, contexts included, and is the total memory that
//! its processes see. The soft limit is stored only: the model never evicts memory. Groups do not
//! nest.

use std::io;
use std::path::{Path, PathBuf};

use crate::machine::Machine;
use crate::state::{MemoryGroup, State};

/// Name of the tree, in the device's folder.
pub const TREE: &str = "cgroup";
/// First version of the MPS interface that supports memory limits of control groups.
pub const PROTOCOL_MIN: u32 = 3;
/// File that lists the processes of a group, one per line.
const MEMBERS: &str = "cgroup.procs";

/// Creates the tree of a device, where its driver supports memory limits of control groups.
/// Fails when the folder cannot be written.
pub fn make(device: &Path, machine: &Machine) -> io::Result<()> {
    if machine.mps.as_ref().is_none_or(|mps| mps.protocol < PROTOCOL_MIN) {
        return Ok(());
    }
    let tree = device.join(TREE);
    std::fs::create_dir(&tree)?;
    let bytes = machine.memory.total_mib << 20;
    for (file, text) in [
        ("cgroup.controllers", "dmem\n".to_owned()),
        ("cgroup.subtree_control", "dmem\n".to_owned()),
        ("dmem.capacity", format!("virtual/vidmem {bytes}\n")),
    ] {
        std::fs::write(tree.join(file), text)?;
    }
    Ok(())
}

/// Key of the control group of a process; 0 for none.
pub fn of_process(device: &Path, pid: u32) -> u64 {
    let Ok(entries) = std::fs::read_dir(device.join(TREE)) else { return 0 };
    // Mostly there is none, and this is asked for every allocation.
    let groups = entries.flatten().map(|entry| entry.path());
    let mut groups = groups.filter(|path| path.is_dir()).peekable();
    if groups.peek().is_none() {
        return 0;
    }
    let line = ancestry(pid);
    let found = groups.find(|group| {
        let members = std::fs::read_to_string(group.join(MEMBERS)).unwrap_or_default();
        let mut members = members.lines().filter_map(|line| line.trim().parse().ok());
        members.any(|member: u32| line.contains(&member))
    });
    found.map_or(0, |group| folder_key(&group))
}

/// Hash of a folder's path, which identifies it in the state: a control group or a pipe directory.
pub fn folder_key(dir: &std::path::Path) -> u64 {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let hash = blake3::hash(dir.as_os_str().as_encoded_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// A process and its ancestors, as far as the system lists them.
fn ancestry(pid: u32) -> Vec<u32> {
    let mut line = vec![pid];
    let mut at = pid;
    while let Some(parent) = parent(at).filter(|parent| *parent > 1 && !line.contains(parent)) {
        line.push(parent);
        at = parent;
    }
    line
}

fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line?.trim().parse().ok()
}

/// The folder of a group, if the path names a group in this device's tree.
pub fn folder(device: &Path, named: &str) -> Option<PathBuf> {
    let folder = Path::new(named).canonicalize().ok()?;
    let tree = device.join(TREE).canonicalize().ok()?;
    (folder.is_dir() && folder.parent() == Some(&tree)).then_some(folder)
}

pub fn limits(state: &State, key: u64) -> Option<MemoryGroup> {
    let mut rows = state.memory_groups.live().iter();
    rows.find(|row| row.live && row.key == key && key != 0).copied()
}

/// Sets the limits of a group; a hard limit of 0 means none. False when the table is full.
pub fn limit(
    state: &mut State,
    machine: &Machine,
    key: u64,
    (soft_bytes, hard_bytes): (u64, u64),
) -> bool {
    let rows = state.memory_groups.live();
    let known = rows.iter().position(|row| row.live && row.key == key);
    let Some(row) = known.or_else(|| state.memory_groups.claim(|row| !row.live)) else {
        return false;
    };
    state.memory_groups.rows[row] = MemoryGroup {
        live: soft_bytes > 0 || hard_bytes > 0,
        key,
        soft_bytes,
        hard_bytes,
        enforced_bytes: machine.defects.with_overshoot(hard_bytes),
    };
    true
}

/// Deletes the limits of groups that no longer exist.
pub fn forget_gone(state: &mut State, device: &Path) {
    if !state.memory_groups.live().iter().any(|row| row.live) {
        return;
    }
    let entries = std::fs::read_dir(device.join(TREE));
    let there: Vec<u64> =
        entries.into_iter().flatten().flatten().map(|entry| folder_key(&entry.path())).collect();
    for row in state.memory_groups.live_mut() {
        row.live &= there.contains(&row.key);
    }
}

#[cfg(test)]
mod tests {
    use super::{TREE, ancestry, folder, folder_key, forget_gone, limit, limits, make, of_process};
    use crate::machine::Machine;
    use crate::state::State;

    type Error = Box<dyn std::error::Error>;

    #[test]
    fn a_process_is_in_the_group_that_lists_it_or_its_parent() -> Result<(), Error> {
        let device = tempfile::tempdir()?;
        make(device.path(), &Machine::load("turing")?)?;
        assert!(!device.path().join(TREE).exists(), "an older driver");
        make(device.path(), &Machine::load("hopper")?)?;
        let group = device.path().join(TREE).join("mine");
        let own = std::process::id();
        assert_eq!(of_process(device.path(), own), 0);
        std::fs::create_dir(&group)?;
        assert_eq!(of_process(device.path(), own), 0, "the group is empty");
        for member in [ancestry(own)[1], own] {
            std::fs::write(group.join("cgroup.procs"), format!("1\n{member}\n"))?;
            assert_eq!(of_process(device.path(), own), folder_key(&group));
        }
        let named = |path: &std::path::Path| folder(device.path(), &path.display().to_string());
        assert!(named(&group).is_some());
        for none in [device.path(), &group.join("none"), &device.path().join(TREE)] {
            assert_eq!(named(none), None, "{}", none.display());
        }
        Ok(())
    }

    #[test]
    fn limits_are_deleted_with_their_group() -> Result<(), Error> {
        let device = tempfile::tempdir()?;
        make(device.path(), &Machine::load("hopper")?)?;
        let group = device.path().join(TREE).join("mine");
        std::fs::create_dir(&group)?;
        let mut state = State::new(1, 0);
        let key = folder_key(&group);
        let machine = Machine::load("hopper")?;
        assert!(limit(&mut state, &machine, key, (0, 1 << 30)));
        assert!(limit(&mut state, &machine, key, (0, 2 << 30)), "anew");
        assert_eq!(state.memory_groups.used, 1);
        forget_gone(&mut state, device.path());
        let hard = |state: &State| limits(state, key).map(|found| found.hard_bytes);
        assert_eq!(hard(&state), Some(2 << 30));
        std::fs::remove_dir(&group)?;
        forget_gone(&mut state, device.path());
        assert_eq!(hard(&state), None);
        assert!(limits(&state, 0).is_none());
        Ok(())
    }
}
