//! Marks writes to device memory in progress: meanwhile no effect is recorded or replayed.

use crate::process::Process;

/// A write to device memory, from before its first byte until after its last.
pub struct WriteGuard<'a>(&'a Process);

impl<'a> WriteGuard<'a> {
    /// Begins a write. The caller must not hold the tables, here or when the guard is dropped.
    pub fn begin(process: &'a Process) -> Self {
        let mut tables = process.tables();
        let writing = &mut tables.launches.writing;
        (writing.now, writing.begun) = (writing.now + 1, writing.begun + 1);
        Self(process)
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.0.tables().launches.writing.now -= 1;
    }
}
