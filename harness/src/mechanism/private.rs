//! Paths for private folders that hold sockets.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::host::RunId;

/// Longest path of a Unix socket without the terminating zero (`sun_path` in sys/un.h is 108).
const SOCKET_PATH_MAX: usize = 107;
/// The longest name of a socket of MPS in its folder.
const LONGEST_SOCKET: &str = "pipe/tenants/p999/control_privileged";

/// The path of a new folder, short enough for the sockets in it: in the user's runtime folder, else
/// in a temporary one. The folder is not made here: its journal line must come first.
#[must_use]
pub fn short_folder() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let parents = runtime.into_iter().chain([std::env::temp_dir(), PathBuf::from("/tmp")]);
    parents
        .filter(|parent| parent.is_absolute() && parent.is_dir())
        .find_map(|parent| free_name(&parent))
}

fn free_name(parent: &Path) -> Option<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // The journal of a dead run names its folders, so no later run may have one of the same name.
    let run = RunId::own().ok()?.short();
    (0..100).find_map(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpubench-{run}-{number}");
        let path = parent.join(name);
        let fits = path.join(LONGEST_SOCKET).as_os_str().len() <= SOCKET_PATH_MAX;
        (fits && !path.exists()).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::{free_name, short_folder};
    use std::path::Path;

    #[test]
    fn skips_a_parent_folder_whose_path_is_too_long() {
        let long = Path::new("/").join("x".repeat(90));
        assert_eq!(free_name(&long), None);
        assert!(free_name(Path::new("/run/user/1000")).is_some());
        assert_ne!(short_folder(), short_folder());
    }
}
