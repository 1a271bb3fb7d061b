//! `samples.parquet`: written from the cell logs, compared with them, and read by cell and tenant.

use std::path::{Path, PathBuf};

use gpubench_record::SampleRow;

use super::checksums::verify;
use super::error::StoreError;
use super::parquet::{self, ROW_GROUP_ROWS, parquet_error};
use super::replace::replace;
use super::sample_columns::{
    COLUMNS, Gathered, KEY_COLUMNS, StretchKey, rows_of, schema, stretches_of,
};
use super::sample_log::SampleLog;

/// A log to be stored, and whose it is.
#[derive(Debug, Clone)]
pub(super) struct StoredLog {
    /// Whose rows it holds.
    pub(super) key: StretchKey,
    /// Where it lies.
    pub(super) path: PathBuf,
}

/// Writes the logs, in their order, as the Parquet file at `path`, and reads the file back before
/// it takes its place. Returns how many rows it holds.
pub(super) fn write_samples(path: &Path, logs: &[StoredLog]) -> Result<u64, StoreError> {
    let mut rows = 0;
    replace(
        path,
        |file, part| {
            parquet::write(file, part, &schema(), |writer| {
                for_each_group(logs, |group| {
                    rows += group.rows().len() as u64;
                    writer.row_group(&group.to_frame().map_err(|e| parquet_error(part, &e))?)
                })
            })
        },
        |part| compare(part, logs),
    )?;
    Ok(rows)
}

/// Walks all rows of the logs, a row group at a time.
fn for_each_group(
    logs: &[StoredLog],
    mut each: impl FnMut(&Gathered) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut group = Gathered::default();
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

/// Reads the Parquet file back and holds every row, and whose it is, against the logs.
fn compare(path: &Path, logs: &[StoredLog]) -> Result<(), StoreError> {
    let names = COLUMNS.map(|(name, _)| name);
    let mut start = 0;
    for_each_group(logs, |group| {
        let rows = group.rows().len();
        let frame = parquet::read(path, start, rows, &names)?;
        if rows_of(path, &frame)? != group.rows()
            || stretches_of(path, &frame)? != group.stretches()
        {
            let reason = format!("among the {rows} rows from row {start} on");
            return Err(StoreError::Differs {
                path: path.to_path_buf(),
                reason,
            });
        }
        start += rows;
        Ok(())
    })?;
    let total = parquet::row_count(path)?;
    if total != start {
        let reason = format!("{total} rows, and the logs have {start}");
        return Err(StoreError::Differs {
            path: path.to_path_buf(),
            reason,
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
    rows_of(path, &parquet::read(path, start, rows, &columns)?)
}

/// Consecutive rows of one tenant in one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Whose rows they are.
    pub key: StretchKey,
    /// The first of them, counted from the start of the file.
    pub start: usize,
    /// How many.
    pub rows: usize,
}

/// A `samples.parquet` and where in it everybody's rows stand.
#[derive(Debug)]
pub struct SampleFile {
    path: PathBuf,
    stretches: Vec<Stretch>,
}

impl SampleFile {
    /// Opens the file at `path` and reads whose rows it holds, one row group at a time.
    ///
    /// # Errors
    /// When it is not the file that was stored, is no Parquet file, or lacks a column.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        verify(path)?;
        let total = parquet::row_count(path)?;
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut start = 0;
        while start < total {
            let rows = ROW_GROUP_ROWS.min(total - start);
            let frame = parquet::read(path, start, rows, &KEY_COLUMNS)?;
            if frame.height() != rows {
                let reason = format!("says that it holds {total} rows, and does not");
                return Err(StoreError::Parquet {
                    path: path.to_path_buf(),
                    reason,
                });
            }
            for (key, rows) in stretches_of(path, &frame)? {
                match stretches.last_mut() {
                    Some(last) if last.key == key => last.rows += rows,
                    _ => stretches.push(Stretch { key, start, rows }),
                }
                start += rows;
            }
        }
        Ok(Self {
            path: path.to_path_buf(),
            stretches,
        })
    }

    /// Whose rows stand where.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// All rows of one tenant in one cell, in log order; none if nobody logged under that name.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn load(&self, cell: &str, tenant: &str) -> Result<Vec<SampleRow>, StoreError> {
        let mut rows = Vec::new();
        for stretch in &self.stretches {
            if stretch.key.cell == cell && stretch.key.tenant == tenant {
                rows.extend(read_rows(&self.path, stretch.start, stretch.rows)?);
            }
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::SampleRow;

    use super::{StoredLog, StretchKey, compare, write_samples};
    use crate::store::StoreError;
    use crate::store::samples_for_tests::{log_bytes, row};

    fn stored(dir: &std::path::Path, rows: &[SampleRow], tenant: &str) -> StoredLog {
        let path = dir.join("one.samples");
        std::fs::write(&path, log_bytes(rows, rows.len() as u64)).unwrap();
        let key = StretchKey {
            session: 0,
            block: 0,
            cell: "c".to_owned(),
            tenant: tenant.to_owned(),
        };
        StoredLog { key, path }
    }

    #[test]
    fn a_file_that_is_not_what_was_logged_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("samples.parquet");
        let rows: Vec<_> = (0..9).map(row).collect();
        let log = stored(dir.path(), &rows, "victim");
        assert_eq!(write_samples(&file, std::slice::from_ref(&log)).unwrap(), 9);
        assert!(compare(&file, std::slice::from_ref(&log)).is_ok());
        // Every third request of these has no device time: missing, not a number.
        let frame = super::parquet::read(&file, 0, 9, &["gpu_ns", "t_done_ns"]).unwrap();
        let nulls = ["gpu_ns", "t_done_ns"].map(|name| frame.column(name).unwrap().null_count());
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
