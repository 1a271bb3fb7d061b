//! Folders that one process makes, only its user can read, and that end with it.
//!
//! The process keeps a lock on the folder. One without a lock is of a dead process, and the guard
//! process, `gpubench cleanup` or the next process removes it. Containers that share a parent
//! folder have process ids of their own, so only the lock decides.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::TempDir;

/// A file in each folder that was made here: no other is removed.
const MARK: &str = ".gpubench";
/// A file that marks a folder to keep when the process that made it ends.
const KEPT: &str = "kept";
/// A file that gpubench 0.1 locked instead of the folder.
const ALIVE: &str = "alive";
/// Beginning of the names of those in the temporary folder.
const TEMPORARY: &str = "gpubench-private-";
/// Attempts to make a folder: another process may take a new one for a dead one before its lock.
const ATTEMPTS: u32 = 100;

/// A folder that is removed when dropped, and after the death of this process.
#[derive(Debug)]
pub struct PrivateFolder {
    root: TempDir,
    _lock: File,
}

impl PrivateFolder {
    /// Makes a folder in `parent` whose name begins with `prefix`.
    pub fn make_in(parent: &Path, prefix: &str) -> std::io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let root = tempfile::Builder::new()
                .prefix(prefix)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(parent)?;
            if let Ok(lock) = open(root.path())
                && lock.try_lock().is_ok()
                && is_same(&lock, root.path())
            {
                std::fs::write(root.path().join(MARK), b"")?;
                return Ok(Self { root, _lock: lock });
            }
        }
        let path = parent.display();
        Err(std::io::Error::other(format!("no folder stays in {path}")))
    }

    /// Makes a folder in the temporary folder.
    pub fn temporary() -> std::io::Result<Self> {
        Self::make_in(&std::env::temp_dir(), TEMPORARY)
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn keep(self) -> std::io::Result<PathBuf> {
        std::fs::write(self.root.path().join(KEPT), b"")?;
        Ok(self.root.keep())
    }
}

/// Makes a folder that this user alone can read and write, with those above it, unless it is there.
/// Fails when it cannot be made, is a link, or belongs to another user, who could exchange its
/// files.
pub fn make_own(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let folder = open(path)?;
    if folder.metadata()?.mode() & 0o077 != 0 {
        folder.set_permissions(Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Fails when a folder is a link or belongs to another user, who could exchange its files.
pub fn own(path: &Path) -> std::io::Result<()> {
    open(path).map(drop)
}

/// Opens a regular file of this user for reading, and no link.
/// Fails when it cannot be opened, is a link, a folder, a pipe or a device, or belongs to another
/// user.
pub fn own_file(path: &Path) -> std::io::Result<File> {
    let found = path.symlink_metadata()?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is no file of its own (accepted: a regular file)"));
    }
    // What is there now may be another file; a pipe must not be waited for.
    let file = of_user(path, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(Errno::INVAL.into()) }
}

/// Whether the process that made this folder has ended without keeping it.
pub fn is_dead(root: &Path) -> bool {
    let Ok(folder) = open(root) else {
        return !root.exists();
    };
    let is_free = |file: File| file.try_lock().is_ok();
    let by_older = || !File::open(root.join(ALIVE)).is_ok_and(|file| !is_free(file));
    !root.join(KEPT).exists() && by_older() && is_free(folder)
}

/// Removes the folders of dead processes of this user that were made here and whose names begin
/// with `prefix`. Returns their paths.
pub fn remove_dead(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let is_ours = |path: &PathBuf| [MARK, ALIVE].iter().any(|name| path.join(name).exists());
    let dead = named.map(|entry| entry.path()).filter(|path| is_ours(path) && is_dead(path));
    // Another process may remove the same folder at this time.
    dead.filter(|path| std::fs::remove_dir_all(path).is_ok()).collect()
}

pub fn remove_dead_temporary() -> Vec<PathBuf> {
    remove_dead(&std::env::temp_dir(), TEMPORARY)
}

/// Opens a folder of this user, and no link.
fn open(path: &Path) -> std::io::Result<File> {
    of_user(path, OFlags::NOFOLLOW | OFlags::DIRECTORY)
}

fn of_user(path: &Path, flags: OFlags) -> std::io::Result<File> {
    let found =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if found.metadata()?.uid() == rustix::process::geteuid().as_raw() {
        return Ok(found);
    }
    Err(std::io::Error::other("it belongs to another user"))
}

pub(super) fn is_same(held: &File, path: &Path) -> bool {
    let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    let (held, named) = (held.metadata().map(id), path.symlink_metadata().map(id));
    held.is_ok_and(|held| named.is_ok_and(|named| held == named))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::{MARK, Permissions, PrivateFolder, is_dead, make_own, own_file, remove_dead};

    #[test]
    fn a_parent_folder_of_another_user_or_behind_a_link_is_refused() -> std::io::Result<()> {
        let parent = tempfile::tempdir()?;
        let (own, link) = (parent.path().join("a/own"), parent.path().join("link"));
        make_own(&own)?;
        std::fs::set_permissions(&own, Permissions::from_mode(0o777))?;
        make_own(&own)?;
        assert_eq!(own.metadata()?.permissions().mode() & 0o777, 0o700);
        symlink(&own, &link)?;
        assert!(make_own(&link).is_err());
        let (file, linked) = (own.join("file"), own.join("linked"));
        std::fs::write(&file, "text")?;
        symlink(&file, &linked)?;
        assert!(own_file(&file).is_ok());
        for other in [&linked, &own, &own.join("absent")] {
            assert!(own_file(other).is_err(), "{}", other.display());
        }
        // Root alone can give a folder away.
        if chown(&own, Some(1), None).is_ok() {
            assert!(make_own(&own).is_err());
            chown(&file, Some(1), None)?;
            assert!(own_file(&file).is_err());
        }
        Ok(())
    }

    #[test]
    fn only_the_folders_of_dead_processes_are_removed() -> std::io::Result<()> {
        let parent = tempfile::tempdir()?;
        let alive = PrivateFolder::make_in(parent.path(), "x-")?;
        let kept = PrivateFolder::make_in(parent.path(), "x-")?.keep()?;
        // A folder that is not locked is of a process that was killed.
        let dead = parent.path().join("x-dead");
        let other = parent.path().join("other");
        let of_user = parent.path().join("x-of-user");
        for folder in [&dead, &other, &of_user] {
            std::fs::create_dir(folder)?;
        }
        std::fs::write(dead.join(MARK), b"")?;
        let link = parent.path().join("x-link");
        std::os::unix::fs::symlink(&other, &link)?;
        assert!(is_dead(&dead) && !is_dead(alive.path()) && !is_dead(&kept));
        assert_eq!(remove_dead(parent.path(), "x-"), [dead]);
        assert!(alive.path().is_dir() && kept.is_dir() && link.exists() && other.is_dir());
        assert!(of_user.is_dir(), "a user's folder with such a name");
        let path = alive.path().to_path_buf();
        drop(alive);
        assert!(!path.exists() && is_dead(&path));
        Ok(())
    }

    #[test]
    fn a_folder_that_an_older_version_locks_by_a_file_is_alive() -> std::io::Result<()> {
        let parent = tempfile::tempdir()?;
        let root = parent.path().join("x-old");
        std::fs::create_dir(&root)?;
        let alive = std::fs::File::create(root.join("alive"))?;
        alive.lock()?;
        assert!(!is_dead(&root));
        drop(alive);
        assert!(is_dead(&root));
        Ok(())
    }
}
