//! Reads Parquet row group by row group, and of each only the columns that are asked for.
//!
//! The checksum of a file is compared before anything is decoded. A file that was cut short has
//! another one: it is read up to the tear, and the loss is named. Every failure is a typed error, a
//! panic of the decoder included.

use std::fs::File;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use polars_core::prelude::{ChunkedArray, Column, DataFrame, PolarsNumericType, PolarsResult};
use polars_io::parquet::read::FileMetadata;
use polars_io::prelude::{FileMetadataRef, ParallelStrategy, ParquetReader, SerReader};

use super::checksums::verify;
use super::error::StoreError;
use super::parquet::{ROW_GROUP_ROWS, Table, parquet_error};
use super::regular;
use super::torn_parquet;

/// An open Parquet file.
pub(super) struct Reader {
    path: PathBuf,
    metadata: FileMetadataRef,
    /// Rows that are read at once: a row group, or a part of one that is larger than ours.
    chunks: Vec<Range<usize>>,
    is_torn: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "Reader({}, {} chunks)",
            self.path.display(),
            self.chunks.len()
        )
    }
}

impl Reader {
    /// Opens the file at `path`, which holds `table`.
    pub(super) fn open(path: &Path, table: &Table) -> Result<Self, StoreError> {
        let is_torn = torn_parquet::is_torn(path)?;
        let metadata = if is_torn {
            torn_parquet::metadata(path, table)?
        } else {
            verify(path)?;
            guarded(path, |file| {
                Ok(ParquetReader::new(file).get_metadata()?.clone())
            })?
        };
        let mut chunks = Vec::new();
        let mut start = 0;
        for group in &metadata.row_groups {
            let end = start + group.num_rows();
            while start < end {
                let next = end.min(start + ROW_GROUP_ROWS);
                chunks.push(start..next);
                start = next;
            }
        }
        Ok(Self {
            path: path.to_path_buf(),
            metadata,
            chunks,
            is_torn,
        })
    }

    /// Whether the file was cut short.
    pub(super) const fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The rows of each chunk, in file order.
    pub(super) fn chunks(&self) -> &[Range<usize>] {
        &self.chunks
    }

    /// How many rows can be read.
    pub(super) fn row_count(&self) -> usize {
        self.chunks.last().map_or(0, |last| last.end)
    }

    /// The metadata of the row groups that hold these rows, and the first row of them. polars
    /// decompresses every row group of the metadata, also those before and behind a slice.
    fn groups_of(&self, rows: &Range<usize>) -> (FileMetadataRef, usize) {
        let (mut first, mut end) = (0, 0);
        let mut groups = 0..0;
        for (index, group) in self.metadata.row_groups.iter().enumerate() {
            let start = end;
            end += group.num_rows();
            if end <= rows.start {
                (groups, first) = (index + 1..index + 1, end);
            } else if start < rows.end {
                groups.end = index + 1;
            }
        }
        (Arc::new(with_groups(&self.metadata, groups)), first)
    }

    /// Calls `each` with the named columns of every chunk, in file order. The next chunk is decoded
    /// meanwhile, so two are in memory.
    pub(super) fn for_each_chunk(
        &self,
        columns: &[&str],
        mut each: impl FnMut(&Rows<'_>, Range<usize>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(0);
            scope.spawn(move || {
                for chunk in &self.chunks {
                    let rows = self.read(chunk.clone(), columns);
                    let failed = rows.is_err();
                    // Nobody receives behind an error.
                    if sender.send((rows, chunk.clone())).is_err() || failed {
                        return;
                    }
                }
            });
            for (rows, chunk) in receiver {
                each(&rows?, chunk)?;
            }
            Ok(())
        })
    }

    /// Reads the named columns of these rows.
    pub(super) fn read(
        &self,
        rows: Range<usize>,
        columns: &[&str],
    ) -> Result<Rows<'_>, StoreError> {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        let (metadata, first) = self.groups_of(&rows);
        let frame = guarded(&self.path, |file| {
            let mut reader = ParquetReader::new(file)
                .with_slice(Some((rows.start - first, rows.len())))
                .with_columns(Some(columns))
                .read_parallel(ParallelStrategy::Columns)
                .set_rechunk(true);
            reader.set_metadata(metadata);
            reader.finish()
        })?;
        let found = Rows {
            path: &self.path,
            frame,
        };
        if found.count() == rows.len() {
            return Ok(found);
        }
        Err(found.error(format!(
            "its footer counts {} rows from row {} on, but there are {}",
            rows.len(),
            rows.start,
            found.count()
        )))
    }
}

/// The same file with these row groups only.
fn with_groups(whole: &FileMetadata, groups: Range<usize>) -> FileMetadata {
    let row_groups = whole.row_groups[groups].to_vec();
    FileMetadata {
        num_rows: row_groups.iter().map(|group| group.num_rows()).sum(),
        row_groups,
        created_by: whole.created_by.clone(),
        key_value_metadata: whole.key_value_metadata.clone(),
        schema_descr: whole.schema_descr.clone(),
        column_orders: whole.column_orders.clone(),
        footer_buf: whole.footer_buf.clone(),
        ..*whole
    }
}

/// Rows read from a Parquet file, by column.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    path: &'a Path,
    frame: DataFrame,
}

impl Rows<'_> {
    /// How many rows were read.
    pub(super) fn count(&self) -> usize {
        self.frame.height()
    }

    pub(super) fn u8(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        self.whole(name, self.column(name, Column::u8)?)
    }

    pub(super) fn u32(&self, name: &str) -> Result<Vec<u32>, StoreError> {
        self.whole(name, self.column(name, Column::u32)?)
    }

    pub(super) fn u64(&self, name: &str) -> Result<Vec<u64>, StoreError> {
        self.whole(name, self.column(name, Column::u64)?)
    }

    pub(super) fn i32(&self, name: &str) -> Result<Vec<i32>, StoreError> {
        self.whole(name, self.column(name, Column::i32)?)
    }

    pub(super) fn f64(&self, name: &str) -> Result<Vec<f64>, StoreError> {
        self.whole(name, self.column(name, Column::f64)?)
    }

    /// The values of a column, and `missing` where the file has a null.
    pub(super) fn u64_or(&self, name: &str, missing: u64) -> Result<Vec<u64>, StoreError> {
        let values = self.column(name, Column::u64)?;
        let values = match values.cont_slice() {
            Ok(slice) => slice.to_vec(),
            Err(_) => values.iter().map(|one| one.unwrap_or(missing)).collect(),
        };
        self.full(name, values)
    }

    pub(super) fn bool(&self, name: &str) -> Result<Vec<bool>, StoreError> {
        self.complete(name, self.column(name, Column::bool)?.iter())
    }

    pub(super) fn text(&self, name: &str) -> Result<Vec<&str>, StoreError> {
        self.complete(name, self.column(name, Column::str)?.iter())
    }

    fn column<'a, T>(
        &'a self,
        name: &str,
        typed: impl FnOnce(&'a Column) -> PolarsResult<T>,
    ) -> Result<T, StoreError> {
        let column = self.frame.column(name).and_then(typed);
        column.map_err(|error| parquet_error(self.path, &error))
    }

    /// The values of a column of numbers without nulls.
    fn whole<T: PolarsNumericType>(
        &self,
        name: &str,
        values: &ChunkedArray<T>,
    ) -> Result<Vec<T::Native>, StoreError> {
        match values.cont_slice() {
            Ok(slice) => self.full(name, slice.to_vec()),
            Err(_) => self.complete(name, values.iter()),
        }
    }

    /// The values of a column without nulls.
    fn complete<T>(
        &self,
        name: &str,
        values: impl Iterator<Item = Option<T>>,
    ) -> Result<Vec<T>, StoreError> {
        let values = values.enumerate();
        let values = values.map(|(row, value)| {
            value.ok_or_else(|| self.error(format!("row {row}: column {name} is null")))
        });
        self.full(name, values.collect::<Result<_, _>>()?)
    }

    /// The values, one for each row: the columns of a damaged file differ in length.
    fn full<T>(&self, name: &str, values: Vec<T>) -> Result<Vec<T>, StoreError> {
        let (found, rows) = (values.len(), self.count());
        if found == rows {
            return Ok(values);
        }
        Err(self.error(format!("column {name} has {found} values in {rows} rows")))
    }

    /// An error about these rows.
    pub(super) fn error(&self, reason: String) -> StoreError {
        StoreError::Parquet {
            path: self.path.to_path_buf(),
            reason,
        }
    }
}

/// Runs the decoder and turns a panic into an error: polars asserts the shape of an intact file.
fn guarded<T>(path: &Path, decode: impl FnOnce(File) -> PolarsResult<T>) -> Result<T, StoreError> {
    let file = regular::open(path)?;
    match catch_unwind(AssertUnwindSafe(|| decode(file))) {
        Ok(result) => result.map_err(|error| parquet_error(path, &error)),
        Err(_) => Err(StoreError::Parquet {
            path: path.to_path_buf(),
            reason: "the file is damaged: the decoder panicked".to_owned(),
        }),
    }
}
