//! Reads Parquet row group by row group, and of each only the columns that are asked for.
//!
//! The checksum of a file is compared before anything is decoded. A file that was cut short has
//! another one: it is read up to the tear, and the loss is named. Every failure is a typed error, a
//! panic of the decoder included.

use std::borrow::Cow;
use std::fs::File;
use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use polars_core::prelude::{ChunkedArray, Column, DataFrame, PolarsNumericType, PolarsResult};
use polars_io::parquet::read::FileMetadata;
use polars_io::prelude::{FileMetadataRef, ParallelStrategy, ParquetReader, SerReader};

use super::checksums::verify;
use super::error::StoreError;
use super::parquet::{ROW_GROUP_ROWS, Table, parquet_error};
use super::{files, parquet};

/// Most threads that decode one file.
const THREADS_MAX: usize = 8;

pub(super) struct Reader {
    path: PathBuf,
    metadata: FileMetadataRef,
    /// Rows that are read at once: a row group, or a part of one that is larger than ours.
    chunks: Vec<Range<usize>>,
    is_torn: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Reader({}, {} chunks)", self.path.display(), self.chunks.len())
    }
}

impl Reader {
    /// Opens the file at `path`, which holds `table`.
    pub(super) fn open(path: &Path, table: &Table) -> Result<Self, StoreError> {
        let is_torn = parquet::is_torn(path)?;
        let metadata = if is_torn {
            parquet::metadata(path, table)?
        } else {
            verify(path)?;
            let found = guarded(path, |file| Ok(ParquetReader::new(file).get_metadata()?.clone()))?;
            parquet::check_pages(path, &found)?;
            found
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
        Ok(Self { path: path.to_path_buf(), metadata, chunks, is_torn })
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

    /// Calls `each` with what `decode` makes of the named columns of every chunk, in file order.
    /// Chunks are decoded on several threads, each of which has at most two in memory.
    pub(super) fn for_each_chunk<T: Send>(
        &self,
        columns: &[&str],
        decode: impl Fn(&Rows<'_>, Range<usize>) -> Result<T, StoreError> + Sync,
        mut each: impl FnMut(T) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = cores.min(THREADS_MAX).min(self.chunks.len());
        let decode = &decode;
        std::thread::scope(|scope| {
            let decoders: Vec<_> = (0..threads)
                .map(|first| {
                    let (sender, receiver) = sync_channel(1);
                    scope.spawn(move || {
                        for chunk in self.chunks.iter().skip(first).step_by(threads) {
                            let rows = self.decoded(chunk.clone(), columns, ParallelStrategy::None);
                            let decoded = rows.and_then(|rows| decode(&rows, chunk.clone()));
                            let failed = decoded.is_err();
                            // Nobody receives behind an error.
                            if sender.send(decoded).is_err() || failed {
                                return;
                            }
                        }
                    });
                    receiver
                })
                .collect();
            for decoder in decoders.iter().cycle().take(self.chunks.len()) {
                // A decoder that panicked sends nothing; the scope passes its panic on.
                let Ok(decoded) = decoder.recv() else { break };
                each(decoded?)?;
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
        self.decoded(rows, columns, ParallelStrategy::Columns)
    }

    fn decoded(
        &self,
        rows: Range<usize>,
        columns: &[&str],
        parallel: ParallelStrategy,
    ) -> Result<Rows<'_>, StoreError> {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        let (metadata, first) = self.groups_of(&rows);
        let frame = guarded(&self.path, |file| {
            let mut reader = ParquetReader::new(file)
                .with_slice(Some((rows.start - first, rows.len())))
                .with_columns(Some(columns))
                .read_parallel(parallel)
                .set_rechunk(true);
            reader.set_metadata(metadata);
            reader.finish()
        })?;
        let found = Rows { path: &self.path, frame };
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

/// Decoders that run, on whatever threads.
static DECODERS: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic now can be of a decoder, which turns it into an error.
pub fn is_decoding() -> bool {
    DECODERS.load(Ordering::Relaxed) > 0
}

/// Runs the decoder and turns a panic into an error: polars asserts the shape of an intact file.
fn guarded<T>(path: &Path, decode: impl FnOnce(File) -> PolarsResult<T>) -> Result<T, StoreError> {
    let file = files::open(path)?;
    DECODERS.fetch_add(1, Ordering::Relaxed);
    let decoded = catch_unwind(AssertUnwindSafe(|| decode(file)));
    DECODERS.fetch_sub(1, Ordering::Relaxed);
    match decoded {
        Ok(result) => result.map_err(|error| parquet_error(path, &error)),
        Err(_) => Err(StoreError::Parquet {
            path: path.to_path_buf(),
            reason: "the file is damaged: the decoder panicked".to_owned(),
        }),
    }
}

// Rows that were read from a Parquet file, by column: each column is complete and has the type
// that the table gives it, or the error names what is wrong.

/// Rows read from a Parquet file, by column.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    pub(super) path: &'a Path,
    pub(super) frame: DataFrame,
}

impl Rows<'_> {
    /// How many rows were read.
    pub(super) fn count(&self) -> usize {
        self.frame.height()
    }

    pub(super) fn u8(&self, name: &str) -> Result<Cow<'_, [u8]>, StoreError> {
        self.whole(name, self.column(name, Column::u8)?)
    }

    pub(super) fn u32(&self, name: &str) -> Result<Cow<'_, [u32]>, StoreError> {
        self.whole(name, self.column(name, Column::u32)?)
    }

    pub(super) fn u64(&self, name: &str) -> Result<Cow<'_, [u64]>, StoreError> {
        self.whole(name, self.column(name, Column::u64)?)
    }

    pub(super) fn i32(&self, name: &str) -> Result<Cow<'_, [i32]>, StoreError> {
        self.whole(name, self.column(name, Column::i32)?)
    }

    pub(super) fn f64(&self, name: &str) -> Result<Cow<'_, [f64]>, StoreError> {
        self.whole(name, self.column(name, Column::f64)?)
    }

    /// The values of a column, and `missing` where the file has a null.
    pub(super) fn u64_or(&self, name: &str, missing: u64) -> Result<Cow<'_, [u64]>, StoreError> {
        let column = self.column(name, Column::u64)?;
        if let Ok(slice) = column.cont_slice() {
            return self.full(name, Cow::Borrowed(slice));
        }
        let mut values = Vec::with_capacity(self.count());
        for array in column.downcast_iter() {
            let start = values.len();
            values.extend_from_slice(array.values());
            let valid = array.validity().into_iter().flatten();
            for (value, is_valid) in values[start..].iter_mut().zip(valid) {
                if !is_valid {
                    *value = missing;
                }
            }
        }
        self.full(name, Cow::Owned(values))
    }

    pub(super) fn bool(&self, name: &str) -> Result<Vec<bool>, StoreError> {
        let column = self.column(name, Column::bool)?;
        let is_valid = column.iter().map(|one| one.is_some());
        self.refuse_null(name, is_valid, column.null_count())?;
        let values = column.downcast_iter().flat_map(|array| array.values());
        Ok(self.full(name, Cow::Owned(values.collect()))?.into_owned())
    }

    pub(super) fn text(&self, name: &str) -> Result<Vec<&str>, StoreError> {
        self.complete(name, self.column(name, Column::str)?.iter())
    }

    /// The text of a column without nulls in the row `row`.
    pub(super) fn text_at(&self, name: &str, row: usize) -> Result<&str, StoreError> {
        let text = self.column(name, Column::str)?.get(row);
        text.ok_or_else(|| self.null(name, row))
    }

    /// Runs of rows that are equal in all of these columns, in order. None of them has a null.
    pub(super) fn runs(
        &self,
        texts: &[&str],
        numbers: &[&str],
    ) -> Result<Vec<Range<usize>>, StoreError> {
        let mut starts = Vec::new();
        for name in texts {
            starts.extend(self.text_changes(name)?);
        }
        for name in numbers {
            let values = self.u32(name)?;
            let changed = (1..values.len()).filter(|&row| values[row] != values[row - 1]);
            starts.extend(changed);
        }
        starts.sort_unstable();
        starts.dedup();
        let ends = starts.iter().skip(1).copied().chain([self.count()]);
        let runs = starts.iter().zip(ends);
        Ok(runs.map(|(&start, end)| start..end).collect())
    }

    /// The rows in which a column of text differs from the row before, and the first row.
    fn text_changes(&self, name: &str) -> Result<Vec<usize>, StoreError> {
        let column = self.column(name, Column::str)?;
        let mut changes = Vec::new();
        let (mut row, mut last) = (0, None);
        let is_valid = column.iter().map(|text| text.is_some());
        self.refuse_null(name, is_valid, column.null_count())?;
        for array in column.downcast_iter() {
            let mut last_view = None;
            for (index, view) in array.views().iter().enumerate() {
                // Equal views of one array are the same text. Others may be, too.
                let view = Some(view.as_u128());
                if view != last_view {
                    let text = Some(array.value(index));
                    if text != last {
                        changes.push(row);
                        last = text;
                    }
                    last_view = view;
                }
                row += 1;
            }
        }
        self.refuse_length(name, row)?;
        Ok(changes)
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
    fn whole<'a, T: PolarsNumericType>(
        &self,
        name: &str,
        values: &'a ChunkedArray<T>,
    ) -> Result<Cow<'a, [T::Native]>, StoreError> {
        match values.cont_slice() {
            Ok(slice) => self.full(name, Cow::Borrowed(slice)),
            Err(_) => Ok(Cow::Owned(self.complete(name, values.iter())?)),
        }
    }

    /// The values of a column without nulls.
    fn complete<T: Clone>(
        &self,
        name: &str,
        values: impl Iterator<Item = Option<T>>,
    ) -> Result<Vec<T>, StoreError> {
        let values = values.enumerate();
        let values = values.map(|(row, value)| value.ok_or_else(|| self.null(name, row)));
        let values = values.collect::<Result<_, _>>()?;
        Ok(self.full(name, Cow::Owned(values))?.into_owned())
    }

    /// Names the first null of a column that has some.
    fn refuse_null(
        &self,
        name: &str,
        mut is_valid: impl Iterator<Item = bool>,
        nulls: usize,
    ) -> Result<(), StoreError> {
        if nulls == 0 {
            return Ok(());
        }
        Err(self.null(name, is_valid.position(|one| !one).unwrap_or_default()))
    }

    fn null(&self, name: &str, row: usize) -> StoreError {
        self.error(format!("row {row}: column {name} is null"))
    }

    /// The values, one for each row: the columns of a damaged file differ in length.
    fn full<'a, T: Clone>(
        &self,
        name: &str,
        values: Cow<'a, [T]>,
    ) -> Result<Cow<'a, [T]>, StoreError> {
        self.refuse_length(name, values.len())?;
        Ok(values)
    }

    fn refuse_length(&self, name: &str, found: usize) -> Result<(), StoreError> {
        let rows = self.count();
        if found == rows {
            return Ok(());
        }
        Err(self.error(format!("column {name} has {found} values in {rows} rows")))
    }

    pub(super) fn error(&self, reason: String) -> StoreError {
        StoreError::Parquet { path: self.path.to_path_buf(), reason }
    }
}
