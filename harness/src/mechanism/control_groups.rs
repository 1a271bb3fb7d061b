//! The host's control groups, of the second version: whether a tenant can be put in a group whose
//! device memory the driver limits, and how it is put there.
//!
//! The kernel shows them below one folder. A group is a folder that anybody with the rights makes,
//! processes are moved by writing their number into its `cgroup.procs`, and children stay with
//! their parent. Where the kernel has the controller of device memory (6.14), a group has limits
//! only if the one above passes the controller on (MPS documentation, release 615, "MPS v3 Memory
//! Partitioning"); where it has none, the driver counts by itself.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;

/// Where the kernel shows them, if they are of the second version alone.
const MOUNTED: &str = "/sys/fs/cgroup";
/// The controller of device memory.
const CONTROLLER: &str = "dmem";

/// The tree of control groups as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlGroups {
    /// Its root.
    pub path: PathBuf,
    /// Why no group made there could have limits on device memory, and what would change that.
    pub problem: Option<(String, String)>,
}

impl ControlGroups {
    /// The tree at a place, or where the kernel shows it; nothing if it is of the first version.
    #[must_use]
    pub fn find(at: Option<&Path>) -> Option<Self> {
        let path = at.unwrap_or(Path::new(MOUNTED));
        // Only the second version has this file at its root.
        let found = path.join("cgroup.controllers").is_file();
        found.then(|| Self {
            path: path.to_path_buf(),
            problem: problem(path),
        })
    }

    /// A group that is not there yet.
    #[must_use]
    pub fn fresh(&self) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpubench-{}-{number}", std::process::id());
        self.path.join(name)
    }
}

fn problem(root: &Path) -> Option<(String, String)> {
    let passed_on = root.join("cgroup.subtree_control");
    let shown = root.display();
    let of_kernel = root.join(format!("{CONTROLLER}.capacity")).is_file();
    let text = std::fs::read_to_string(&passed_on).unwrap_or_default();
    if of_kernel && !text.split_whitespace().any(|name| name == CONTROLLER) {
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

/// Puts a process into a group.
///
/// # Errors
/// When the group is gone, or does not take it.
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
    fn a_tree_says_what_keeps_its_groups_from_limits() -> TestResult {
        let dir = tempfile::tempdir()?;
        let find = || ControlGroups::find(Some(dir.path()));
        assert_eq!(find(), None, "the first version");
        std::fs::write(dir.path().join("cgroup.controllers"), "cpu memory\n")?;
        let reason = || {
            find()
                .and_then(|found| found.problem)
                .map(|(reason, _)| reason)
        };
        let no_place = reason().ok_or("a tree without a file to write")?;
        assert!(
            no_place.contains("no control group can be made"),
            "{no_place}"
        );
        std::fs::write(dir.path().join("cgroup.subtree_control"), "memory\n")?;
        assert_eq!(reason(), None, "the driver counts by itself");
        std::fs::write(dir.path().join("dmem.capacity"), "nvidia/x/vidmem 1\n")?;
        let (why, way) = find().and_then(|found| found.problem).ok_or("nothing")?;
        assert!(
            why.contains("does not pass the controller dmem on"),
            "{why}"
        );
        assert!(way.starts_with("echo +dmem > "), "{way}");
        std::fs::write(dir.path().join("cgroup.subtree_control"), "memory dmem\n")?;
        assert_eq!(reason(), None);
        let group = find().ok_or("no tree")?.fresh();
        assert!(join(&group, 7).is_err(), "it was never made");
        std::fs::create_dir(&group)?;
        join(&group, 7)?;
        join(&group, 8)?;
        assert_eq!(
            std::fs::read_to_string(group.join("cgroup.procs"))?,
            "7\n8\n"
        );
        Ok(())
    }
}
