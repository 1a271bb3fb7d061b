//! `samples.parquet`: written from the cell logs, compared with them, and read by cell and tenant.

use std::path::{Path, PathBuf};

use gpubench_record::SampleRow;

use super::checksums::verify;
use super::error::StoreError;
use super::parquet::{self, ROW_GROUP_ROWS};
use super::replace::replace;
use super::sample_columns::{COLUMNS, KEY_COLUMNS, RowGroup, SegmentKey, rows_of, segments_of};
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
            parquet::write(file, part, &COLUMNS, |writer| {
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
            let rows = log.next_rows(room).map_err(|source| StoreError::Log {
                path: stored.path.clone(),
                source,
            })?;
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
    if group.rows().is_empty() {
        Ok(())
    } else {
        each(&group)
    }
}

/// Compares every row of the Parquet file, and its tenant and cell, with the logs.
fn compare(path: &Path, logs: &[StoredLog]) -> Result<(), StoreError> {
    let names = COLUMNS.map(|(name, _)| name);
    let mut start = 0;
    for_each_group(logs, |group| {
        let count = group.rows().len();
        let rows = parquet::read(path, start, count, &names)?;
        if rows_of(&rows)? != group.rows() || segments_of(&rows)? != group.segments() {
            return Err(StoreError::Differs {
                path: path.to_path_buf(),
                reason: format!("among the {count} rows from row {start} on"),
            });
        }
        start += count;
        Ok(())
    })?;
    let total = parquet::row_count(path)?;
    if total != start {
        return Err(StoreError::Differs {
            path: path.to_path_buf(),
            reason: format!("{total} rows, and the logs have {start}"),
        });
    }
    Ok(())
}

fn read_rows(path: &Path, start: usize, rows: usize) -> Result<Vec<SampleRow>, StoreError> {
    let columns: Vec<&str> = COLUMNS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !KEY_COLUMNS.contains(name))
        .collect();
    rows_of(&parquet::read(path, start, rows, &columns)?)
}

/// Consecutive rows of one tenant in one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Tenant and cell of the rows.
    pub key: SegmentKey,
    /// Index of the first row in the file.
    pub start: usize,
    /// How many rows.
    pub rows: usize,
}

/// A `samples.parquet` with an index of its segments.
#[derive(Debug)]
pub struct SampleFile {
    path: PathBuf,
    segments: Vec<Segment>,
}

impl SampleFile {
    /// Opens the file at `path` and indexes its segments, one row group at a time.
    ///
    /// # Errors
    /// When the file does not match its checksum, is no Parquet file, or lacks a column.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        verify(path)?;
        let total = parquet::row_count(path)?;
        let mut segments: Vec<Segment> = Vec::new();
        let mut start = 0;
        while start < total {
            let limit = ROW_GROUP_ROWS.min(total - start);
            let rows = parquet::read(path, start, limit, &KEY_COLUMNS)?;
            if rows.count() != limit {
                let reason = format!("its header counts {total} rows, but it holds fewer");
                return Err(rows.error(reason));
            }
            for (key, count) in segments_of(&rows)? {
                match segments.last_mut() {
                    Some(last) if last.key == key => last.rows += count,
                    _ => segments.push(Segment {
                        key,
                        start,
                        rows: count,
                    }),
                }
                start += count;
            }
        }
        Ok(Self {
            path: path.to_path_buf(),
            segments,
        })
    }

    /// The segments of the file, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// All rows of one tenant in one cell, in log order; none if the file has no such segment.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn load(&self, cell: &str, tenant: &str) -> Result<Vec<SampleRow>, StoreError> {
        let mut rows = Vec::new();
        for segment in &self.segments {
            if segment.key.cell == cell && segment.key.tenant == tenant {
                rows.extend(read_rows(&self.path, segment.start, segment.rows)?);
            }
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::SampleRow;

    use super::{SegmentKey, StoredLog, compare, write_samples};
    use crate::store::StoreError;
    use crate::store::samples_for_tests::{log_bytes, row};

    fn stored(dir: &std::path::Path, rows: &[SampleRow], tenant: &str) -> StoredLog {
        let path = dir.join("one.samples");
        std::fs::write(&path, log_bytes(rows, rows.len() as u64)).unwrap();
        let key = SegmentKey {
            session: 0,
            block: 0,
            cell: "c".to_owned(),
            tenant: tenant.to_owned(),
        };
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
        let read = super::parquet::read(&file, 0, 9, &["gpu_ns", "t_done_ns"]).unwrap();
        let nulls = ["gpu_ns", "t_done_ns"].map(|name| {
            let values = read.optional_u64(name).unwrap();
            values.iter().filter(|value| value.is_none()).count()
        });
        assert_eq!(nulls, [3, 0]);
        let mut changed = rows.clone();
        changed[8].issuer_idle = !changed[8].issuer_idle;
        for (rows, tenant) in [
            (&changed[..], "victim"),
            (&rows[..8], "victim"),
            (&rows[..], "neighbour-1"),
        ] {
            let log = stored(dir.path(), rows, tenant);
            let error = compare(&file, &[log]).unwrap_err();
            assert!(matches!(error, StoreError::Differs { .. }), "{error}");
        }
    }
}
