//! One run per physical GPU: an advisory lock on a file that every user can open.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

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
        /// UUID of the GPU.
        uuid: String,
        /// The holder's entry in the lock file.
        holder: String,
    },
    /// The file cannot be used.
    #[error("lock file {path}: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl GpuLock {
    /// Takes the lock of a GPU in `/run/lock`, else in the temporary folder.
    ///
    /// # Errors
    /// When another run holds it, or no file can be made.
    pub fn take(uuid: &str) -> Result<Self, LockError> {
        let run_lock = Path::new("/run/lock");
        let folder = if run_lock.is_dir() {
            run_lock.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        Self::take_in(&folder, uuid).or_else(|error| match error {
            LockError::Io { .. } if folder == run_lock => {
                Self::take_in(&std::env::temp_dir(), uuid)
            }
            error => Err(error),
        })
    }

    /// Takes the lock in a folder.
    ///
    /// # Errors
    /// When another run holds it, or the file cannot be made.
    pub fn take_in(folder: &Path, uuid: &str) -> Result<Self, LockError> {
        let path: PathBuf = folder.join(format!("gpubench-{uuid}.lock"));
        let io = |source| LockError::Io {
            path: path.display().to_string(),
            source,
        };
        let mut file = open(&path).map_err(io)?;
        // The umask of the creator may exclude other users. Only the owner can change the mode.
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o666));
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(io)?;
                let holder = match holder.trim() {
                    "" => "unknown process".to_owned(),
                    known => known.to_owned(),
                };
                return Err(LockError::Held {
                    uuid: uuid.to_owned(),
                    holder,
                });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        writeln!(file, "process {}", std::process::id()).map_err(io)?;
        Ok(Self { _file: file })
    }
}

/// Opens the lock file of any user, or creates it, in two calls. In a folder that all users can
/// write to, the kernel refuses to open another user's file with `O_CREAT` (`fs.protected_regular`,
/// proc_sys_fs(5)), and two users would hold two locks.
fn open(path: &Path) -> std::io::Result<File> {
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        let mut fresh = OpenOptions::new();
        fresh.read(true).write(true).create_new(true).mode(0o666);
        match fresh.open(path) {
            // Another process has created it since.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GpuLock, LockError};

    #[test]
    fn a_second_run_is_refused_with_the_holder() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let first = GpuLock::take_in(dir.path(), "GPU-1")?;
        let taken = GpuLock::take_in(dir.path(), "GPU-1")
            .map(|_| ())
            .map_err(|e| e.to_string());
        let expected = format!(
            "GPU GPU-1 is in use by another run (process {})",
            std::process::id()
        );
        assert_eq!(taken, Err(expected));
        assert!(
            GpuLock::take_in(dir.path(), "GPU-2").is_ok(),
            "another GPU is free"
        );
        drop(first);
        assert!(GpuLock::take_in(dir.path(), "GPU-1").is_ok());
        let nowhere = GpuLock::take_in(&dir.path().join("none"), "GPU-1");
        assert!(matches!(nowhere, Err(LockError::Io { .. })));
        Ok(())
    }
}
