//! The sample log of one tenant in one cell: a file mapped into memory, written row by row.
//!
//! `gpubench_record::sample` defines its layout. Writing a row is two memory writes: the row, then
//! the count that includes it, stored with release order. A tenant killed between the two loses
//! that row and no other.
#![expect(unsafe_code, reason = "maps a file and calls posix_fallocate")]

mod committed;

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gpubench_record::sample::{
    CAPACITY_OFFSET, COMMITTED_OFFSET, HEADER_BYTES, LOG_MAGIC, ROW_BYTES, STATUS_OFFSET, SampleRow,
};
use gpubench_record::{RefusalKind, SampleStatus, regular_file};
use memmap2::MmapRaw;

use crate::sync::AtomicU64;

/// Why a log cannot be created or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The number of rows is zero or too large.
    #[error("a log of {rows} rows, accepted are 1 to {ROWS_MAX}")]
    Rows { rows: u64 },
    /// The disk has too little space.
    #[error("no space for a log of {bytes} bytes at {path}")]
    NoSpace { bytes: u64, path: String },
    #[error("{doing} {path}: {source}")]
    Io { doing: &'static str, path: String, source: std::io::Error },
    /// The file is not a sample log.
    #[error("{path} is no sample log of this version")]
    OtherFormat { path: String },
    /// The file is shorter than its count of rows.
    #[error("{path} counts {committed} rows but has room for {present}")]
    Truncated {
        path: String,
        committed: u64,
        /// Rows for which it has room.
        present: u64,
    },
    /// A counted row cannot be read.
    #[error("row {row} of {path}: {source}")]
    Row {
        /// Number of the row, from 0.
        row: u64,
        path: String,
        source: gpubench_record::sample::RowError,
    },
}

impl LogError {
    /// The kind that the coordinator receives; it ends the run on a full disk.
    pub const fn kind(&self) -> RefusalKind {
        match self {
            Self::NoSpace { .. } => RefusalKind::NoSpace,
            _ => RefusalKind::Other,
        }
    }
}

/// Maximum number of rows in a log: a file of 4 GiB.
pub const ROWS_MAX: u64 = 1 << 26;

// Reads a sample log, also that of a killed tenant.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogContents {
    /// The counted rows, in the order in which their requests ended.
    pub rows: Vec<SampleRow>,
    /// Rows for which it has room.
    pub capacity_rows: u64,
}

/// Longest log that is read.
const BYTES_MAX: u64 = 1 << 30;

/// Reads every counted row and ignores unfinished rows behind the count.
/// Fails when the file cannot be read, is not a log, or is shorter than its header says.
pub fn read_log(path: &Path) -> Result<LogContents, LogError> {
    let name = || path.display().to_string();
    let bytes = regular_file::read(path, BYTES_MAX).map_err(|source| LogError::Io {
        doing: "cannot read",
        path: name(),
        source,
    })?;
    let (capacity_rows, committed) =
        header(&bytes).ok_or_else(|| LogError::OtherFormat { path: name() })?;
    let (rows, _rest) = bytes[HEADER_BYTES..].as_chunks::<ROW_BYTES>();
    let present = rows.len() as u64;
    if committed > present || committed > capacity_rows {
        return Err(LogError::Truncated { path: name(), committed, present });
    }
    let rows = (0u64..committed)
        .zip(rows)
        .map(|(row, bytes)| {
            SampleRow::from_bytes(bytes).map_err(|source| LogError::Row {
                row,
                path: name(),
                source,
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(LogContents { rows, capacity_rows })
}

/// Marks the rows of these requests, which completed, as wrong results.
/// Fails when the log cannot be read or written.
pub fn mark_wrong(path: &Path, requests: &[u64]) -> Result<(), LogError> {
    let rows = read_log(path)?.rows;
    let file = OpenOptions::new().write(true).open(path).map_err(io("cannot open", path))?;
    for (place, row) in rows.iter().enumerate() {
        if row.status == SampleStatus::Ok && requests.contains(&row.seq) {
            let at = HEADER_BYTES + place * ROW_BYTES + STATUS_OFFSET;
            let status = [SampleStatus::WrongResult as u8];
            file.write_all_at(&status, at as u64).map_err(io("cannot write", path))?;
        }
    }
    Ok(())
}

/// Capacity and count, if these bytes start with the header of a log.
fn header(bytes: &[u8]) -> Option<(u64, u64)> {
    let head = bytes.get(..HEADER_BYTES)?;
    let word = |at: usize| Some(u64::from_le_bytes(*head.get(at..)?.first_chunk()?));
    head.starts_with(&LOG_MAGIC).then_some(())?;
    Some((word(CAPACITY_OFFSET)?, word(COMMITTED_OFFSET)?))
}

// Writes a sample log.

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
    /// Fails when the file exists, cannot be created, or does not fit on the disk. A file that
    /// could not be allocated is removed again.
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

    pub fn committed_rows(&self) -> u64 {
        self.committed_rows
    }

    /// Rows for which there was no room.
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
    use std::path::PathBuf;

    use gpubench_record::sample::{MISSING, Phase, SampleStatus};

    use super::*;

    type Checked = Result<(), Box<dyn std::error::Error>>;

    fn row(seq: u64) -> SampleRow {
        SampleRow {
            seq,
            t_sched_ns: seq * 1_000,
            t_issue_ns: seq * 1_000 + 10,
            t_ret_ns: seq * 1_000 + 20,
            t_done_ns: seq * 1_000 + 30,
            gpu_ns: MISSING,
            error: 0,
            phase: Phase::Closed,
            status: SampleStatus::Ok,
            issuer_idle: true,
        }
    }

    fn log_in(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().join("victim.samples")
    }

    #[test]
    fn rows_are_read_in_order_and_a_full_log_counts_lost_rows() -> Checked {
        let folder = tempfile::tempdir()?;
        let mut log = LogWriter::create(&log_in(&folder), 100)?;
        for seq in 0..100 {
            assert!(log.push(&row(seq)));
        }
        assert!(!log.push(&row(100)));
        assert!(!log.push(&row(101)));
        assert_eq!((log.committed_rows(), log.unlogged_rows()), (100, 2));
        // Read while it is still mapped, as after a kill: the process did not flush it.
        let read = read_log(&log_in(&folder))?;
        assert_eq!(read.capacity_rows, 100);
        assert_eq!(read.rows, (0..100).map(row).collect::<Vec<_>>());
        Ok(())
    }

    #[test]
    fn wrong_results_are_marked_in_their_rows_and_in_no_other() -> Checked {
        let folder = tempfile::tempdir()?;
        let path = log_in(&folder);
        let mut log = LogWriter::create(&path, 8)?;
        let failed = SampleRow { status: SampleStatus::Error, ..row(5) };
        for row in [row(3), failed, row(4)] {
            assert!(log.push(&row));
        }
        mark_wrong(&path, &[4, 5])?;
        let wrong = SampleRow { status: SampleStatus::WrongResult, ..row(4) };
        assert_eq!(read_log(&path)?.rows, [row(3), failed, wrong]);
        Ok(())
    }

    /// What is read of a log of eight rows whose bytes have changed.
    fn changed(
        change: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Result<LogContents, LogError>, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = log_in(&folder);
        let mut log = LogWriter::create(&path, 8)?;
        (0..8).for_each(|seq| assert!(log.push(&row(seq))));
        drop(log);
        let mut bytes = std::fs::read(&path)?;
        change(&mut bytes);
        std::fs::write(&path, &bytes)?;
        Ok(read_log(&path))
    }

    #[test]
    fn rows_behind_the_count_are_ignored_and_damaged_ones_are_named() -> Checked {
        let behind = changed(|bytes| {
            bytes[COMMITTED_OFFSET] = 3;
            bytes[HEADER_BYTES + 3 * ROW_BYTES..].fill(0xff);
        })??;
        assert_eq!(behind.rows, [row(0), row(1), row(2)]);
        let damaged = changed(|bytes| bytes[HEADER_BYTES + 2 * ROW_BYTES + 52] = 99)?;
        assert!(matches!(damaged, Err(LogError::Row { row: 2, .. })), "{damaged:?}");
        let truncated = changed(|bytes| bytes.truncate(HEADER_BYTES + 5 * ROW_BYTES + 17))?;
        let is_named =
            matches!(truncated, Err(LogError::Truncated { committed: 8, present: 5, .. }));
        assert!(is_named, "{truncated:?}");
        Ok(())
    }

    #[test]
    fn the_space_is_allocated_before_the_first_row() -> Checked {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir()?;
        let log = LogWriter::create(&log_in(&folder), 10_000)?;
        let allocated = std::fs::metadata(log_in(&folder))?.blocks() * 512;
        assert!(allocated >= 10_000 * 64, "only {allocated} bytes are allocated");
        drop(log);
        Ok(())
    }

    #[test]
    fn a_file_that_is_not_a_log_is_refused() -> Checked {
        let folder = tempfile::tempdir()?;
        let path = log_in(&folder);
        for bytes in [&b""[..], b"GPBSAMP1", &[7; 200]] {
            std::fs::write(&path, bytes)?;
            assert!(matches!(read_log(&path), Err(LogError::OtherFormat { .. })));
        }
        assert!(matches!(read_log(&folder.path().join("none")), Err(LogError::Io { .. })));
        Ok(())
    }

    #[test]
    fn impossible_sizes_and_existing_files_are_refused() -> Checked {
        let folder = tempfile::tempdir()?;
        let path = log_in(&folder);
        for rows in [0, super::ROWS_MAX + 1, u64::MAX] {
            assert!(matches!(LogWriter::create(&path, rows), Err(LogError::Rows { .. })));
        }
        assert!(!path.exists());
        std::fs::write(&path, "kept")?;
        assert!(matches!(LogWriter::create(&path, 1), Err(LogError::Io { .. })));
        assert_eq!(std::fs::read(&path)?, b"kept");
        Ok(())
    }

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
