//! The standard error of a tenant's process: copied to the coordinator's, and searched for reports
//! of a preloaded library that a limit is off. Some libraries report that nowhere else.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::mechanism::LIBRARY_FAULTS;

/// Reports that are kept of one process. The first one decides.
const KEPT: usize = 16;
/// Longest piece that is read at once.
const PIECE_BYTES: u64 = 4096;
/// Prefixes of lines of HAMi-core and of its stand-in. Such lines are numerous and not copied.
const MARKS: [&str; 3] = ["[HAMI-core ", "[4pdvGPU ", "[vgpu stand-in "];

/// The reports of one process.
#[derive(Debug, Clone)]
pub struct StderrCapture(Arc<Mutex<Vec<String>>>);

impl StderrCapture {
    /// Reads the other end of a process's standard error until it is closed.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn keep(pipe: OwnedFd) -> std::io::Result<Self> {
        let kept = Self(Arc::default());
        let into = kept.clone();
        let named = std::thread::Builder::new().name("tenant stderr".to_owned());
        named.spawn(move || into.read(BufReader::new(File::from(pipe)), &mut std::io::stderr()))?;
        Ok(kept)
    }

    /// The lines that report a limit as off.
    pub fn library_faults(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read(&self, mut from: impl BufRead, copy_to: &mut impl Write) {
        // A line that is longer than one piece is read in several, and a report can be cut in two.
        let (mut line, mut is_marked) = (Vec::new(), false);
        loop {
            let begins = line.is_empty();
            let old = line.len();
            let read = from.by_ref().take(PIECE_BYTES).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let text = String::from_utf8_lossy(&line);
            if begins {
                is_marked = MARKS.iter().any(|mark| text.starts_with(mark));
            }
            if !is_marked {
                // Our own standard error may be closed.
                let _ = copy_to.write_all(&line[old..]);
            }
            if LIBRARY_FAULTS.iter().any(|report| text.contains(report)) {
                let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < KEPT {
                    kept.push(text.trim().to_owned());
                }
                line.clear();
            } else if line.ends_with(b"\n") {
                line.clear();
            } else {
                let longest = LIBRARY_FAULTS.iter().map(|report| report.len()).max();
                let keep = longest.unwrap_or(0).min(line.len());
                line.drain(..line.len() - keep);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StderrCapture;
    use std::sync::Arc;

    fn captured(text: &str) -> (Vec<String>, String) {
        let (capture, mut copied) = (StderrCapture(Arc::default()), Vec::new());
        capture.read(text.as_bytes(), &mut copied);
        (capture.library_faults(), String::from_utf8_lossy(&copied).into_owned())
    }

    #[test]
    fn finds_a_report_after_a_megabyte_of_output() {
        let line = format!("[HAMI-core {}\n", "x".repeat(1000));
        let report = "[HAMI-core ERROR (7:1:utils.c:9)]: host pid is error!";
        let (faults, copied) = captured(&format!("{}{report}\nlast\n", line.repeat(1000)));
        assert_eq!(faults, [report]);
        assert_eq!(copied, "last\n", "lines of the library are not copied");
        let (faults, _) = captured("x\n[vgpu stand-in 7] SET_TASK_PID FAILED.\n");
        assert_eq!(faults.len(), 1);
        let (faults, copied) = captured("[HAMI-core Warn(7:1:utils.c:9)]: other\nx\n");
        assert_eq!((faults.len(), copied.as_str()), (0, "x\n"));
    }

    #[test]
    fn finds_a_report_that_the_end_of_a_piece_cuts() {
        for before in 4_070..4_110 {
            let text = format!("{}host pid is error!{}", "y".repeat(before), "z".repeat(9_000));
            let (faults, copied) = captured(&text);
            assert_eq!((faults.len(), copied == text), (1, true), "{before}");
        }
    }
}
