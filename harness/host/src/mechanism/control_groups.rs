//! The host's control groups (version 2): whether a group can limit the device memory of a tenant,
//! and how a process joins a group.
//!
//! The kernel shows groups below one folder. A group is a folder that a process with write access
//! makes, a process joins when its id is written to `cgroup.procs`, and a child is in its parent's
//! group. If the kernel has the controller of device memory (6.14), a group has limits only if its
//! parent enables the controller (MPS documentation, release 615, "MPS v3 Memory Partitioning");
//! otherwise the driver counts by itself.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;

use super::host::RunId;

/// The mount point of version 2 if version 1 is not in use.
const MOUNTED: &str = "/sys/fs/cgroup";
/// The controller of device memory.
const CONTROLLER: &str = "dmem";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlGroups {
    pub path: PathBuf,
    /// Why no group in it can have a limit on device memory, with the remedy.
    pub problem: Option<(String, String)>,
}

impl ControlGroups {
    /// The tree at a path, else at its mount point; `None` for version 1.
    pub fn find(at: Option<&Path>) -> Option<Self> {
        let path = at.unwrap_or(Path::new(MOUNTED));
        // Only version 2 has this file at its root.
        let found = path.join("cgroup.controllers").is_file();
        found.then(|| Self { path: path.to_path_buf(), problem: problem(path) })
    }

    /// The path of a new group.
    pub fn fresh(&self) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Without `/proc` a group of that name can exist, and making it is refused.
        let run = RunId::own().map_or_else(|_| std::process::id().to_string(), |run| run.short());
        self.path.join(format!("gpubench-{run}-{number}"))
    }
}

fn problem(root: &Path) -> Option<(String, String)> {
    let passed_on = root.join("cgroup.subtree_control");
    let shown = root.display();
    let in_kernel = root.join(format!("{CONTROLLER}.capacity")).is_file();
    // An unreadable list reads as one without the controller, which waives the mechanism.
    let text = std::fs::read_to_string(&passed_on).unwrap_or_default();
    if in_kernel && !text.split_whitespace().any(|name| name == CONTROLLER) {
        return Some((
            format!("{shown} does not pass the controller {CONTROLLER} on to its groups"),
            format!("echo +{CONTROLLER} > {}", passed_on.display()),
        ));
    }
    let locked = OpenOptions::new().write(true).open(&passed_on).err()?;
    Some((
        format!("no control group can be made in {shown}: {locked}"),
        "run as root, with a writable cgroup file system".to_owned(),
    ))
}

/// Moves a process into a group.
pub fn join(group: &Path, pid: u32) -> std::io::Result<()> {
    let members = group.join("cgroup.procs");
    let mut file = OpenOptions::new().append(true).create(true).open(members)?;
    file.write_all(format!("{pid}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{ControlGroups, join};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn a_tree_reports_why_its_groups_can_have_no_limit() -> TestResult {
        let dir = tempfile::tempdir()?;
        let find = || ControlGroups::find(Some(dir.path()));
        assert_eq!(find(), None, "the first version");
        std::fs::write(dir.path().join("cgroup.controllers"), "cpu memory\n")?;
        let reason = || find().and_then(|found| found.problem).map(|(reason, _)| reason);
        let read_only = reason().ok_or("a tree without a file to write")?;
        assert!(read_only.contains("no control group can be made"), "{read_only}");
        std::fs::write(dir.path().join("cgroup.subtree_control"), "memory\n")?;
        assert_eq!(reason(), None, "the driver counts by itself");
        std::fs::write(dir.path().join("dmem.capacity"), "nvidia/x/vidmem 1\n")?;
        let (why, remedy) = find().and_then(|found| found.problem).ok_or("no problem found")?;
        assert!(why.contains("does not pass the controller dmem on"), "{why}");
        assert!(remedy.starts_with("echo +dmem > "), "{remedy}");
        std::fs::write(dir.path().join("cgroup.subtree_control"), "memory dmem\n")?;
        assert_eq!(reason(), None);
        let group = find().ok_or("no tree")?.fresh();
        assert!(join(&group, 7).is_err(), "the group does not exist");
        std::fs::create_dir(&group)?;
        join(&group, 7)?;
        join(&group, 8)?;
        assert_eq!(std::fs::read_to_string(group.join("cgroup.procs"))?, "7\n8\n");
        Ok(())
    }
}
