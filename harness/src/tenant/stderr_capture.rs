//! The standard error of a tenant's process: copied to the coordinator's, and its beginning kept.
//! Some libraries report only there that they ignore their settings.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are kept of one process.
const KEPT_BYTES: usize = 64 << 10;
/// Longest line that is read as one.
const LINE_BYTES: u64 = 4096;
/// Prefixes of lines of HAMi-core and of its stand-in. Such lines are numerous: they are kept as
/// evidence and not copied.
const MARKS: [&str; 3] = ["[HAMI-core ", "[4pdvGPU ", "[vgpu stand-in "];

/// The kept output of one process.
#[derive(Debug, Clone)]
pub struct StderrCapture(Arc<Mutex<String>>);

impl StderrCapture {
    /// Reads the other end of a process's standard error until it is closed.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn keep(pipe: OwnedFd) -> std::io::Result<Self> {
        let kept = Self(Arc::default());
        let into = kept.clone();
        let named = std::thread::Builder::new().name("tenant stderr".to_owned());
        named.spawn(move || into.read(BufReader::new(File::from(pipe))))?;
        Ok(kept)
    }

    /// The kept output.
    pub fn text(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn read(&self, mut from: impl BufRead) {
        loop {
            let mut line = Vec::new();
            let read = from.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let text = String::from_utf8_lossy(&line);
            if !MARKS.iter().any(|mark| text.starts_with(mark)) {
                // Our own standard error may be closed.
                let _ = std::io::stderr().write_all(&line);
            }
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < KEPT_BYTES {
                kept.push_str(&text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES, StderrCapture};
    use std::sync::Arc;

    #[test]
    fn keeps_the_beginning_and_drains_the_rest() {
        let capture = StderrCapture(Arc::default());
        let line = format!("[HAMI-core {}\n", "x".repeat(1000));
        capture.read(format!("[HAMI-core first\n{}", line.repeat(100)).as_bytes());
        let text = capture.text();
        assert!(text.starts_with("[HAMI-core first\n"));
        assert!((KEPT_BYTES..KEPT_BYTES + 4096).contains(&text.len()));
    }
}
