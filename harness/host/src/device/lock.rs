//! One run per physical GPU: an advisory lock on a file that every user can open.
//!
//! The file stays empty: its lock is all that counts, and `/proc/locks` names the holder. Its
//! folder is shared by all users, so it can be a link or a pipe that another user planted; only a
//! regular file with one name is used, and it is opened for reading alone.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::Current as _;
use procfs::process::Process;
use procfs::{LockType, Locks};
use rustix::fs::{OFlags, major, minor};

use super::private_folder::is_same;

/// First argument of a guard process, which holds the lock for a short time after its run died.
pub const GUARD_ARG: &str = "__guard";
/// Errors with which a folder refuses a new file.
const CLOSED: [ErrorKind; 2] = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem];
/// Longest wait for a guard process.
const GUARD_LIMIT: Duration = Duration::from_secs(10);
/// Longest wait for a holder that has ended or released the lock while it was looked for. A process
/// that a dead run had just forked keeps a copy of the lock until it runs its program.
const ENDED_LIMIT: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(20);

/// Holds the GPU until it is dropped or the process ends.
#[derive(Debug)]
pub struct GpuLock {
    _file: File,
}

/// Why the lock cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run has the GPU.
    #[error("GPU {uuid} is in use by another run ({holder})")]
    Held {
        uuid: String,
        /// The process that holds the lock, or the owner of the file.
        holder: String,
    },
    #[error("lock file {path}: {source}")]
    Io {
        path: String,
        /// The error of the operating system, or what is wrong with the file.
        source: Error,
    },
}

impl GpuLock {
    /// Takes the lock of a GPU in `/run/lock`, else in the temporary folder. Where the guard
    /// process of a dead run restores the host, its end is waited for.
    pub fn take(uuid: &str) -> Result<Self, LockError> {
        let run_lock = Path::new("/run/lock");
        let folder = if run_lock.is_dir() { run_lock.to_path_buf() } else { std::env::temp_dir() };
        Self::take_in(&folder, uuid).or_else(|error| match error {
            LockError::Io { ref source, .. }
                if folder == run_lock && CLOSED.contains(&source.kind()) =>
            {
                Self::take_in(&std::env::temp_dir(), uuid)
            }
            error => Err(error),
        })
    }

    pub fn take_in(folder: &Path, uuid: &str) -> Result<Self, LockError> {
        let path: PathBuf = folder.join(format!("gpubench-{uuid}.lock"));
        let io = |source| LockError::Io { path: path.display().to_string(), source };
        let mut waited = Duration::ZERO;
        loop {
            let file = open(&path).map_err(io)?;
            match file.try_lock() {
                // Another user may have renamed the file before it was locked.
                Ok(()) if is_same(&file, &path) => return Ok(Self { _file: file }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = holder(&file);
                    if waited >= patience_with(holder) {
                        return Err(LockError::Held {
                            uuid: uuid.to_owned(),
                            holder: describe(holder, &file),
                        });
                    }
                    std::thread::sleep(STEP);
                    waited += STEP;
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
        }
    }
}

/// Opens the lock file of any user, or creates it, in two calls. In a folder that all users can
/// write to, the kernel refuses to open another user's file with `O_CREAT` (`fs.protected_regular`,
/// proc_sys_fs(5)), and two users would hold two locks.
fn open(path: &Path) -> std::io::Result<File> {
    // A pipe that another user planted must not block.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    loop {
        let mut known = OpenOptions::new();
        match known.read(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return checked(opened?),
        }
        let mut fresh = OpenOptions::new();
        fresh.read(true).write(true).create_new(true).mode(0o644);
        match fresh.custom_flags(flags).open(path) {
            // Another process has created it since.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                let file = made?;
                // The umask may have excluded other users, who need to read it to lock it.
                file.set_permissions(Permissions::from_mode(0o644))?;
                return Ok(file);
            }
        }
    }
}

/// Refuses what no gpubench made: anything but a regular file with one name.
fn checked(file: File) -> std::io::Result<File> {
    let meta = file.metadata()?;
    if meta.is_file() && meta.nlink() <= 1 {
        return Ok(file);
    }
    let owner = meta.uid();
    Err(Error::other(format!(
        "it is no regular file with one name (its owner is user {owner}); remove it"
    )))
}

/// The process that locked a file, if it is of a namespace that this process sees.
fn holder(file: &File) -> Option<u32> {
    let (meta, locks) = (file.metadata().ok()?, Locks::current().ok()?);
    let device = (major(meta.dev()), minor(meta.dev()));
    let mut found = locks.0.into_iter().filter(|lock| {
        lock.lock_type == LockType::FLock
            && lock.inode == meta.ino()
            && (lock.devmaj, lock.devmin) == device
    });
    let pid = found.find_map(|lock| lock.pid)?;
    u32::try_from(pid).ok().filter(|&pid| pid > 0)
}

fn describe(holder: Option<u32>, file: &File) -> String {
    let owner = file.metadata().map(|meta| meta.uid());
    match (holder, owner) {
        (Some(pid), _) => format!("process {pid}"),
        (None, Ok(owner)) => {
            format!("a process that is not visible here; user {owner} owns the lock file")
        }
        (None, Err(_)) => "a process that is not visible here".to_owned(),
    }
}

/// How long to wait for a holder. Another run is not waited for.
fn patience_with(holder: Option<u32>) -> Duration {
    let process = holder.and_then(|pid| Process::new(i32::try_from(pid).ok()?).ok());
    // A process that has ended and was not waited for has no arguments.
    let arguments = process.and_then(|process| process.cmdline().ok());
    match arguments.as_deref() {
        None | Some([]) => ENDED_LIMIT,
        Some([_, first, ..]) if first == GUARD_ARG => GUARD_LIMIT,
        Some(_) => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::{GpuLock, LockError};

    type Tested = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn a_second_run_is_refused_with_the_holder() -> Tested {
        let dir = tempfile::tempdir()?;
        let first = GpuLock::take_in(dir.path(), "GPU-1")?;
        let taken = GpuLock::take_in(dir.path(), "GPU-1").map(|_| ()).map_err(|e| e.to_string());
        let expected =
            format!("GPU GPU-1 is in use by another run (process {})", std::process::id());
        assert_eq!(taken, Err(expected));
        assert!(GpuLock::take_in(dir.path(), "GPU-2").is_ok(), "another GPU is free");
        drop(first);
        assert!(GpuLock::take_in(dir.path(), "GPU-1").is_ok());
        let nowhere = GpuLock::take_in(&dir.path().join("none"), "GPU-1");
        assert!(matches!(nowhere, Err(LockError::Io { .. })));
        Ok(())
    }

    #[test]
    fn what_another_user_planted_is_refused_and_stays_as_it_is() -> Tested {
        let dir = tempfile::tempdir()?;
        let target = dir.path().join("target");
        std::fs::write(&target, "precious")?;
        std::fs::set_permissions(&target, PermissionsExt::from_mode(0o600))?;
        let lock = |name: &str| dir.path().join(format!("gpubench-{name}.lock"));
        symlink(&target, lock("link"))?;
        std::fs::hard_link(&target, lock("hard"))?;
        std::fs::create_dir(lock("folder"))?;
        let made = std::process::Command::new("mkfifo").arg(lock("pipe")).status()?;
        assert!(made.success());
        for name in ["link", "hard", "folder", "pipe"] {
            let taken = GpuLock::take_in(dir.path(), name);
            assert!(matches!(taken, Err(LockError::Io { .. })), "{name}: {taken:?}");
        }
        assert_eq!(std::fs::read_to_string(&target)?, "precious");
        assert_eq!(target.metadata()?.permissions().mode() & 0o777, 0o600);
        Ok(())
    }

    #[test]
    fn an_existing_file_keeps_its_content_and_mode() -> Tested {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("gpubench-old.lock");
        std::fs::write(&path, "process 7\n")?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o604))?;
        drop(GpuLock::take_in(dir.path(), "old")?);
        assert_eq!(std::fs::read_to_string(&path)?, "process 7\n");
        assert_eq!(path.metadata()?.permissions().mode() & 0o777, 0o604);
        Ok(())
    }
}
