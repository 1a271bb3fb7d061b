//! The two logs of a daemon. Their timestamps are those of the device's clock.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::MpsError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Control,
    Server,
}

/// `control.log` and `server.log`.
#[derive(Debug)]
pub struct Log {
    files: Mutex<[File; 2]>,
}

impl Log {
    /// Opens the logs in a folder, which is created if needed.
    pub fn open(folder: &Path) -> Result<Self, MpsError> {
        std::fs::create_dir_all(folder).map_err(MpsError::io(folder))?;
        let open = |name: &str| {
            let path = folder.join(name);
            let file = File::options().create(true).append(true).open(&path);
            file.map_err(MpsError::io(&path))
        };
        Ok(Self { files: Mutex::new([open("control.log")?, open("server.log")?]) })
    }

    pub fn write(&self, which: Which, now_ns: u64, text: &str) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let (index, who) = match which {
            Which::Control => (0, "Control"),
            Which::Server => (1, "Server"),
        };
        let (seconds, rest) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
        let pid = std::process::id();
        // A full disk must not end the daemon.
        let _ = writeln!(files[index], "[{seconds}.{:06} {who} {pid}] {text}", rest / 1000);
    }
}
