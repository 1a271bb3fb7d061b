//! The two logs of a daemon, with stamps and words of the vendor's where a public log has the event
//! (`reports/facts`). The stamps are those of the device's clock, from 1970 on.

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
        let line = line(now_ns / 1_000_000, who, std::process::id(), text);
        // A full disk must not end the daemon.
        let _ = files[index].write_all(line.as_bytes());
    }
}

/// A line as the vendor writes it; the date stands still.
fn line(now_ms: u64, who: &str, pid: u32, text: &str) -> String {
    let [hours, minutes, seconds] = [3_600_000, 60_000, 1000].map(|unit| now_ms / unit);
    let (minutes, seconds, ms) = (minutes % 60, seconds % 60, now_ms % 1000);
    format!("[1970-01-01 {hours:02}:{minutes:02}:{seconds:02}.{ms:03} {who} {pid:>5}] {text}\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_has_the_form_of_the_vendors() {
        let facts = "/../../../reports/facts/h200_580.159.04/mps-control.log";
        let facts = std::fs::read_to_string(env!("CARGO_MANIFEST_DIR").to_owned() + facts);
        let facts = facts.unwrap_or_default();
        let first = facts.lines().next().unwrap_or_default();
        let text = "Starting control daemon using socket $CUDA_MPS_PIPE_DIRECTORY/control";
        let line = super::line(((18 * 60 + 31) * 60 + 41) * 1000 + 146, "Control", 569, text);
        assert_eq!(line.trim_end(), first.replace("2026-11-26", "1970-01-01"));
    }
}
