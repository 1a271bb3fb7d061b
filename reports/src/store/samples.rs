//! `samples.parquet`, written from the cell logs and compared with them.

use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::parquet::{self, ROW_GROUP_ROWS};
use super::parquet_reader::Reader;
use super::replace::replace;
use super::sample_columns::{RowGroup, SegmentKey, TABLE, rows_of, segments_of};
use super::sample_log::SampleLog;

/// A sample log and its tenant and cell.
#[derive(Debug, Clone)]
pub(super) struct StoredLog {
    /// Tenant and cell of its rows.
    pub(super) key: SegmentKey,
    /// Path of the log.
    pub(super) path: PathBuf,
}

/// Writes the logs, in their order, as the Parquet file at `path`. The file is read back and
/// compared before it replaces an older one. Returns the number of its rows.
pub(super) fn write_samples(path: &Path, logs: &[StoredLog]) -> Result<u64, StoreError> {
    let mut rows = 0;
    replace(
        path,
        |file, part| {
            parquet::write(file, part, &TABLE, |writer| {
                for_each_group(logs, |group| {
                    rows += group.rows().len() as u64;
                    writer.row_group(group.rows().len(), group.to_columns())
                })
            })
        },
        |part| compare(part, logs),
    )?;
    Ok(rows)
}

/// Calls `each` with all rows of the logs, a row group at a time.
fn for_each_group(
    logs: &[StoredLog],
    mut each: impl FnMut(&RowGroup) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut group = RowGroup::default();
    for stored in logs {
        let mut log = SampleLog::open(&stored.path)?;
        loop {
            let room = ROW_GROUP_ROWS - group.rows().len();
            let rows = log
                .next_rows(room)
                .map_err(|source| StoreError::Log { path: stored.path.clone(), source })?;
            if rows.is_empty() {
                break;
            }
            group.push(&stored.key, &rows);
            if rows.len() == room {
                each(&group)?;
                group.clear();
            }
        }
    }
    if group.rows().is_empty() { Ok(()) } else { each(&group) }
}

/// Compares every row of the Parquet file, and its tenant and cell, with the logs.
fn compare(path: &Path, logs: &[StoredLog]) -> Result<(), StoreError> {
    let reader = Reader::open(path, &TABLE)?;
    let differs = |reason: String| StoreError::Differs { path: path.to_path_buf(), reason };
    let total = reader.row_count();
    let mut start = 0;
    for_each_group(logs, |group| {
        let end = start + group.rows().len();
        if end > total {
            return Err(differs(format!("{total} rows, and the logs have more")));
        }
        let rows = reader.read(start..end, &TABLE.names())?;
        if rows_of(&rows)? != group.rows() || segments_of(&rows)? != group.segments() {
            return Err(differs(format!("among the rows from {start} to {end}")));
        }
        start = end;
        Ok(())
    })?;
    if total != start {
        return Err(differs(format!("{total} rows, and the logs have {start}")));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use gpubench_record::SampleRow;
    use gpubench_record::sample::MISSING;

    use super::{Reader, SegmentKey, StoredLog, TABLE, compare, write_samples};
    use crate::store::StoreError;
    use crate::store::samples_for_tests::{log_bytes, row};

    pub(crate) fn stored(dir: &std::path::Path, rows: &[SampleRow], tenant: &str) -> StoredLog {
        let path = dir.join("one.samples");
        std::fs::write(&path, log_bytes(rows, rows.len() as u64)).unwrap();
        let key =
            SegmentKey { session: 0, block: 0, cell: "c".to_owned(), tenant: tenant.to_owned() };
        StoredLog { key, path }
    }

    #[test]
    fn a_file_that_differs_from_the_logs_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("samples.parquet");
        let rows: Vec<_> = (0..9).map(row).collect();
        let log = stored(dir.path(), &rows, "victim");
        assert_eq!(write_samples(&file, std::slice::from_ref(&log)).unwrap(), 9);
        assert!(compare(&file, std::slice::from_ref(&log)).is_ok());
        // Every third of these requests has no device time, which is null in the file.
        let reader = Reader::open(&file, &TABLE).unwrap();
        let read = reader.read(0..9, &["gpu_ns", "t_done_ns"]).unwrap();
        let nulls = ["gpu_ns", "t_done_ns"].map(|name| {
            let values = read.u64_or(name, MISSING).unwrap();
            values.iter().filter(|value| **value == MISSING).count()
        });
        assert_eq!(nulls, [3, 0]);
        let mut changed = rows.clone();
        changed[8].issuer_idle = !changed[8].issuer_idle;
        for (rows, tenant) in
            [(&changed[..], "victim"), (&rows[..8], "victim"), (&rows[..], "neighbour-1")]
        {
            let log = stored(dir.path(), rows, tenant);
            let error = compare(&file, &[log]).unwrap_err();
            assert!(matches!(error, StoreError::Differs { .. }), "{error}");
        }
    }
}
