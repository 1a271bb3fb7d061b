//! Reads a sample log, also that of a killed tenant.

use std::path::Path;

use gpubench_record::sample::{
    CAPACITY_OFFSET, COMMITTED_OFFSET, HEADER_BYTES, LOG_MAGIC, ROW_BYTES, SampleRow,
};

use super::LogError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogContents {
    /// The counted rows, in the order in which their requests ended.
    pub rows: Vec<SampleRow>,
    /// Rows for which it has room.
    pub capacity_rows: u64,
}

/// Reads every counted row and ignores unfinished rows behind the count.
///
/// # Errors
/// When the file cannot be read, is not a log, or is shorter than its header says.
pub fn read_log(path: &Path) -> Result<LogContents, LogError> {
    let name = || path.display().to_string();
    let bytes = std::fs::read(path).map_err(|source| LogError::Io {
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

/// Capacity and count, if these bytes start with the header of a log.
fn header(bytes: &[u8]) -> Option<(u64, u64)> {
    let head = bytes.get(..HEADER_BYTES)?;
    let word = |at: usize| Some(u64::from_le_bytes(*head.get(at..)?.first_chunk()?));
    head.starts_with(&LOG_MAGIC).then_some(())?;
    Some((word(CAPACITY_OFFSET)?, word(COMMITTED_OFFSET)?))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use gpubench_record::sample::{MISSING, Phase, SampleStatus};

    use super::super::LogWriter;
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
    fn a_row_behind_the_count_is_ignored() -> Checked {
        let folder = tempfile::tempdir()?;
        let mut log = LogWriter::create(&log_in(&folder), 8)?;
        for seq in 0..4 {
            log.push(&row(seq));
        }
        drop(log);
        let mut bytes = std::fs::read(log_in(&folder))?;
        bytes[COMMITTED_OFFSET] = 3;
        bytes[HEADER_BYTES + 3 * ROW_BYTES..].fill(0xff);
        std::fs::write(log_in(&folder), &bytes)?;
        assert_eq!(read_log(&log_in(&folder))?.rows, [row(0), row(1), row(2)]);
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
    fn a_truncated_log_reports_its_size() -> Checked {
        let folder = tempfile::tempdir()?;
        let path = log_in(&folder);
        let mut log = LogWriter::create(&path, 8)?;
        for seq in 0..8 {
            log.push(&row(seq));
        }
        drop(log);
        let bytes = std::fs::read(&path)?;
        std::fs::write(&path, &bytes[..HEADER_BYTES + 5 * ROW_BYTES + 17])?;
        assert!(matches!(
            read_log(&path),
            Err(LogError::Truncated { committed: 8, present: 5, .. })
        ));
        Ok(())
    }

    #[test]
    fn a_damaged_row_is_named() -> Checked {
        let folder = tempfile::tempdir()?;
        let path = log_in(&folder);
        let mut log = LogWriter::create(&path, 4)?;
        for seq in 0..4 {
            log.push(&row(seq));
        }
        drop(log);
        let mut bytes = std::fs::read(&path)?;
        bytes[HEADER_BYTES + 2 * ROW_BYTES + 52] = 99;
        std::fs::write(&path, &bytes)?;
        assert!(matches!(read_log(&path), Err(LogError::Row { row: 2, .. })));
        Ok(())
    }

    #[test]
    fn impossible_sizes_and_existing_files_are_refused() -> Checked {
        let folder = tempfile::tempdir()?;
        let path = log_in(&folder);
        for rows in [0, super::super::ROWS_MAX + 1, u64::MAX] {
            assert!(matches!(LogWriter::create(&path, rows), Err(LogError::Rows { .. })));
        }
        assert!(!path.exists());
        std::fs::write(&path, "kept")?;
        assert!(matches!(LogWriter::create(&path, 1), Err(LogError::Io { .. })));
        assert_eq!(std::fs::read(&path)?, b"kept");
        Ok(())
    }
}
