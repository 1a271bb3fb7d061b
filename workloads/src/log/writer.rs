//! Writes a sample log.
#![expect(unsafe_code, reason = "maps a file and calls posix_fallocate")]

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;

use gpubench_record::sample::{
    CAPACITY_OFFSET, COMMITTED_OFFSET, HEADER_BYTES, LOG_MAGIC, ROW_BYTES, SampleRow,
};
use memmap2::MmapRaw;

use super::{LogError, ROWS_MAX, committed};
use crate::sync::AtomicU64;

/// Smallest page size of supported machines: touching one byte in each touches every page.
const PAGE_BYTES: usize = 4096;

/// A log open for writing. Rows are written to memory; the kernel writes them to the file, also
/// after this process is killed.
#[derive(Debug)]
pub struct LogWriter {
    map: MmapRaw,
    capacity_rows: u64,
    committed_rows: u64,
    unlogged_rows: u64,
}

impl LogWriter {
    /// Creates the file and allocates its whole size, so that no later write runs out of disk
    /// space.
    ///
    /// # Errors
    /// When the file exists, cannot be created, or does not fit on the disk. A file that could not
    /// be allocated is removed again.
    pub fn create(path: &Path, capacity_rows: u64) -> Result<Self, LogError> {
        if !(1..=ROWS_MAX).contains(&capacity_rows) {
            return Err(LogError::Rows { rows: capacity_rows });
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(io("cannot create", path))?;
        let log = Self::allocated(&file, path, capacity_rows);
        if log.is_err() {
            // The caller already gets the reason of the failure. If the removal fails too, the file
            // stays and is found by its name.
            let _left_behind = std::fs::remove_file(path);
        }
        log
    }

    fn allocated(file: &File, path: &Path, capacity_rows: u64) -> Result<Self, LogError> {
        let bytes = HEADER_BYTES as u64 + capacity_rows * ROW_BYTES as u64;
        allocate(file, path, bytes)?;
        let map = MmapRaw::map_raw(file).map_err(io("cannot map", path))?;
        let mut log = Self { map, capacity_rows, committed_rows: 0, unlogged_rows: 0 };
        log.touch_every_page();
        log.write_at(CAPACITY_OFFSET, &capacity_rows.to_le_bytes());
        log.write_at(0, &LOG_MAGIC);
        Ok(log)
    }

    /// Appends one row. Without room it counts the row as unlogged and returns false.
    ///
    /// Neither allocates nor makes a system call.
    #[inline]
    pub fn push(&mut self, row: &SampleRow) -> bool {
        if self.committed_rows == self.capacity_rows {
            self.unlogged_rows += 1;
            return false;
        }
        // Fits in usize: the whole log was mapped.
        let at = HEADER_BYTES + self.committed_rows as usize * ROW_BYTES;
        self.write_at(at, &row.to_bytes());
        self.committed_rows += 1;
        committed::publish(self.committed(), self.committed_rows);
        true
    }

    /// Rows visible to a reader.
    #[must_use]
    pub fn committed_rows(&self) -> u64 {
        self.committed_rows
    }

    /// Rows for which there was no room.
    #[must_use]
    pub fn unlogged_rows(&self) -> u64 {
        self.unlogged_rows
    }

    #[inline]
    fn committed(&self) -> &AtomicU64 {
        // SAFETY: the map is at least a header long and starts on a page, so the word is in bounds
        // and aligned; this process writes it through this reference alone, and other processes
        // that map the file only read.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(COMMITTED_OFFSET).cast()) }
    }

    #[inline]
    fn write_at(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.map.len(), "a write beyond the log");
        // SAFETY: in bounds by the assertion; the map is writable, lives as long as `self`, and
        // `&mut self` makes this its only writer.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.map.as_mut_ptr().add(at),
                bytes.len(),
            );
        }
    }

    /// Takes the page faults now, so that none happens in the middle of a cell.
    fn touch_every_page(&mut self) {
        for at in (0..self.map.len()).step_by(PAGE_BYTES) {
            self.write_at(at, &[0]);
        }
    }
}

/// Allocates all blocks of the file.
fn allocate(file: &File, path: &Path, bytes: u64) -> Result<(), LogError> {
    let length = libc::off_t::try_from(bytes)
        .map_err(|_| LogError::Rows { rows: bytes / ROW_BYTES as u64 })?;
    loop {
        // SAFETY: the descriptor is open for writing for as long as `file` lives.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => return Ok(()),
            libc::EINTR => {}
            libc::ENOSPC | libc::EDQUOT => {
                return Err(LogError::NoSpace { bytes, path: path.display().to_string() });
            }
            errno => {
                let source = std::io::Error::from_raw_os_error(errno);
                return Err(io("cannot allocate", path)(source));
            }
        }
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> LogError {
    let path = path.display().to_string();
    move |source| LogError::Io { doing, path, source }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;

    #[test]
    fn a_full_disk_is_reported_before_the_first_row() {
        // Huge page files have as much room as the administrator reserved, which is never a
        // tebibyte, so the kernel returns the error of a full disk.
        // SAFETY: the name is a C string; the flag requests such a file.
        let descriptor = unsafe { libc::memfd_create(c"log".as_ptr(), libc::MFD_HUGETLB) };
        assert!(descriptor >= 0, "no file of huge pages: {}", std::io::Error::last_os_error());
        // SAFETY: the descriptor was just made and has no other owner.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let refused = LogWriter::allocated(&file, Path::new("/run/full/log"), 1 << 34);
        let message = refused.map(|_| ()).expect_err("a tebibyte of huge pages").to_string();
        assert_eq!(message, "no space for a log of 1099511627840 bytes at /run/full/log");
    }

    #[test]
    fn a_file_that_cannot_be_allocated_is_an_error_with_its_name() {
        let null = OpenOptions::new().write(true).open("/dev/null").expect("/dev/null");
        let refused = allocate(&null, Path::new("/dev/null"), 4096);
        assert!(matches!(refused, Err(LogError::Io { .. })), "{refused:?}");
    }
}
