//! Reads the committed rows of the sample logs that tenants map into memory.
//!
//! The layout is defined in `gpubench_record::sample`. A log is read through any [`Read`].

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use gpubench_record::SampleRow;
use gpubench_record::sample::{
    CAPACITY_OFFSET, COMMITTED_OFFSET, HEADER_BYTES, LOG_MAGIC, ROW_BYTES,
};

use super::error::{LogError, StoreError};
use super::regular;

/// A sample log being read, front to back.
#[derive(Debug)]
pub struct SampleLog<R> {
    source: R,
    committed: u64,
    lost: u64,
    next_row: u64,
}

impl SampleLog<BufReader<File>> {
    /// Opens the log at `path` and reads its header.
    ///
    /// # Errors
    /// When the file cannot be read or contradicts its header.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = regular::open(path)?;
        let bytes = file.metadata().map_err(StoreError::io("read", path))?.len();
        SampleLog::new(BufReader::with_capacity(1 << 18, file), bytes)
            .map_err(|source| StoreError::Log { path: path.to_path_buf(), source })
    }
}

impl<R: Read> SampleLog<R> {
    /// A log of `bytes` bytes, read from `source`.
    ///
    /// # Errors
    /// When the log contradicts its header.
    pub fn new(mut source: R, bytes: u64) -> Result<Self, LogError> {
        let mut header = [0u8; HEADER_BYTES];
        source.read_exact(&mut header).map_err(|_| LogError::NoHeader { bytes })?;
        if header[..LOG_MAGIC.len()] != LOG_MAGIC {
            return Err(LogError::Magic);
        }
        let capacity = header_word(&header, CAPACITY_OFFSET);
        let committed = header_word(&header, COMMITTED_OFFSET);
        if committed > capacity {
            return Err(LogError::Capacity { committed, capacity });
        }
        let rows_in_file = bytes.saturating_sub(HEADER_BYTES as u64) / ROW_BYTES as u64;
        Ok(Self {
            source,
            committed: committed.min(rows_in_file),
            lost: committed.saturating_sub(rows_in_file),
            next_row: 0,
        })
    }

    /// Rows that the tenant committed and that the file holds.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Committed rows behind the end of a file that was cut short.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What a file that was cut short lost, for a person.
    pub(super) fn loss(&self, name: &str) -> Option<String> {
        let all = self.committed + self.lost;
        (self.lost > 0)
            .then(|| format!("{name} is torn: {} of {all} committed rows are read", self.committed))
    }

    /// The next rows, `limit` at most; none at the end of the log.
    ///
    /// # Errors
    /// At the first row that this version cannot read.
    pub fn next_rows(&mut self, limit: usize) -> Result<Vec<SampleRow>, LogError> {
        let left = usize::try_from(self.committed - self.next_row).unwrap_or(usize::MAX);
        let mut rows = Vec::with_capacity(left.min(limit));
        let mut bytes = [0u8; ROW_BYTES];
        for _ in 0..left.min(limit) {
            let row = self.next_row;
            self.source.read_exact(&mut bytes).map_err(|source| LogError::Io { row, source })?;
            rows.push(
                SampleRow::from_bytes(&bytes).map_err(|source| LogError::Row { row, source })?,
            );
            self.next_row += 1;
        }
        Ok(rows)
    }
}

/// The committed rows of the log at `path`, of a torn one up to the tear.
///
/// # Errors
/// When the log cannot be read to its last committed row.
pub fn read_log(path: &Path) -> Result<Vec<SampleRow>, StoreError> {
    let mut log = SampleLog::open(path)?;
    log.next_rows(usize::MAX).map_err(|source| StoreError::Log { path: path.to_path_buf(), source })
}

fn header_word(header: &[u8; HEADER_BYTES], offset: usize) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(&header[offset..offset + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use gpubench_record::sample::{CAPACITY_OFFSET, COMMITTED_OFFSET, ROW_BYTES};
    use proptest::prelude::*;

    use super::{LogError, SampleLog};
    use crate::store::samples_for_tests::{any_row, log_bytes};

    fn read(bytes: &[u8]) -> Result<Vec<gpubench_record::SampleRow>, LogError> {
        SampleLog::new(bytes, bytes.len() as u64)?.next_rows(usize::MAX)
    }

    #[test]
    fn ignores_an_uncommitted_row() {
        let rows = vec![crate::store::samples_for_tests::row(0), row_with_seq(1)];
        let mut bytes = log_bytes(&rows, 4);
        bytes[COMMITTED_OFFSET] = 1;
        assert_eq!(read(&bytes).unwrap(), rows[..1]);
    }

    #[test]
    fn each_kind_of_damage_has_its_own_error() {
        let bytes = log_bytes(&[row_with_seq(0), row_with_seq(1)], 2);
        assert!(matches!(read(&bytes[..10]), Err(LogError::NoHeader { bytes: 10 })));
        assert!(matches!(read(&[0; 256]), Err(LogError::Magic)));
        let torn = &bytes[..bytes.len() - ROW_BYTES / 2];
        assert_eq!(read(torn).unwrap(), [row_with_seq(0)]);
        let log = SampleLog::new(torn, torn.len() as u64).unwrap();
        let loss = log.loss("the log").unwrap();
        assert_eq!(loss, "the log is torn: 1 of 2 committed rows are read");
        let mut greedy = bytes.clone();
        greedy[CAPACITY_OFFSET] = 1;
        assert!(matches!(read(&greedy), Err(LogError::Capacity { committed: 2, capacity: 1 })));
        let mut later = bytes;
        later[64 + ROW_BYTES + 52] = 77;
        let text = read(&later).unwrap_err().to_string();
        assert_eq!(text, "row 1: phase 77 is not one of 0 to 3");
    }

    fn row_with_seq(seq: u64) -> gpubench_record::SampleRow {
        crate::store::samples_for_tests::row(seq)
    }

    proptest! {
        #[test]
        fn logged_rows_are_read_back(
            rows in prop::collection::vec(any_row(), 0..40),
            spare in 0..9_u64,
        ) {
            let bytes = log_bytes(&rows, rows.len() as u64 + spare);
            prop_assert_eq!(read(&bytes).unwrap(), rows);
        }

        #[test]
        fn any_bytes_give_rows_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&bytes);
        }

        #[test]
        fn a_damaged_log_gives_rows_or_an_error(
            rows in prop::collection::vec(any_row(), 1..10),
            at in any::<prop::sample::Index>(),
            value in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = log_bytes(&rows, rows.len() as u64);
            let at = at.index(bytes.len());
            bytes[at] = value;
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Ok(read) = read(&bytes) {
                prop_assert!(read.len() <= rows.len());
            }
        }
    }
}
