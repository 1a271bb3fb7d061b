//! The one way in which this crate writes and reads Parquet: fixed settings, bounded memory, and
//! every failure, a panic of the decoder included, a typed error.
//!
//! Equal input gives equal bytes: one row group for each frame handed over, pages and compression
//! fixed, no metadata but the schema. No statistics, which nothing here asks for. Two million rows
//! were written and compared with a peak of 60 MB.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use polars::prelude::{
    BatchedWriter, DataFrame, ParallelStrategy, ParquetCompression, ParquetReader, ParquetWriter,
    PolarsError, PolarsResult, Schema, SerReader, StatisticsOptions,
};

use super::error::StoreError;

/// Rows of a row group, and so of everything that is held in memory at once.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 17;

/// zstd at the level that polars takes. Two million rows of noisy stamps, 122 MiB as logs, came to
/// 31 MiB; snappy and lz4 to 52 MiB, none to 70 MiB, and none of these was faster.
const COMPRESSION: ParquetCompression = ParquetCompression::Zstd(None);

/// A page of this many bytes before compression; the default of the format.
const PAGE_BYTES: usize = 1 << 20;

/// A Parquet file being written, row group by row group.
pub(super) struct Writer<'a> {
    inner: BatchedWriter<FirstError<'a>>,
    refused: &'a RefCell<Option<io::Error>>,
    path: &'a Path,
}

/// Hands writes on and keeps the first error, which polars would turn into text.
struct FirstError<'a> {
    file: &'a File,
    refused: &'a RefCell<Option<io::Error>>,
}

impl Write for FirstError<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| {
            // Callers write again after an interruption: that one is no failure.
            if error.kind() != io::ErrorKind::Interrupted {
                let copy = io::Error::new(error.kind(), error.to_string());
                self.refused.borrow_mut().get_or_insert(copy);
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a Parquet file of `schema` to `file`, the rows from `fill`.
pub(super) fn write(
    file: &File,
    path: &Path,
    schema: &Schema,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let refused = RefCell::new(None);
    let inner = ParquetWriter::new(FirstError {
        file,
        refused: &refused,
    })
    .with_compression(COMPRESSION)
    .with_statistics(StatisticsOptions::empty())
    .with_data_page_size(Some(PAGE_BYTES))
    .batched(schema)
    .map_err(|e| parquet_error(path, &e))?;
    let mut writer = Writer {
        inner,
        refused: &refused,
        path,
    };
    fill(&mut writer)?;
    let end = writer.inner.finish().map(|_| ());
    writer.checked(end)
}

impl Writer<'_> {
    /// Writes one frame as one row group; an empty one writes nothing.
    pub(super) fn row_group(&mut self, frame: &DataFrame) -> Result<(), StoreError> {
        let written = self.inner.write_batch(frame);
        self.checked(written)
    }

    fn checked(&self, result: PolarsResult<()>) -> Result<(), StoreError> {
        match (result, self.refused.borrow_mut().take()) {
            (Ok(()), None) => Ok(()),
            (_, Some(source)) => Err(StoreError::Io {
                action: "write",
                path: self.path.to_path_buf(),
                source,
            }),
            (Err(error), None) => Err(parquet_error(self.path, &error)),
        }
    }
}

/// Rows in the Parquet file at `path`.
pub(super) fn row_count(path: &Path) -> Result<usize, StoreError> {
    guarded(path, |file| ParquetReader::new(file).num_rows())
}

/// `rows` rows of the Parquet file at `path`, from row `start`, of the named columns.
pub(super) fn read(
    path: &Path,
    start: usize,
    rows: usize,
    columns: &[&str],
) -> Result<DataFrame, StoreError> {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    guarded(path, |file| {
        ParquetReader::new(file)
            .with_slice(Some((start, rows)))
            .with_columns(Some(columns))
            .read_parallel(ParallelStrategy::None)
            .set_rechunk(true)
            .finish()
    })
}

/// Runs the decoder so that a damaged file ends in an error: polars asserts what a whole file
/// always holds.
fn guarded<T>(path: &Path, decode: impl FnOnce(File) -> PolarsResult<T>) -> Result<T, StoreError> {
    let file = File::open(path).map_err(StoreError::io("read", path))?;
    match catch_unwind(AssertUnwindSafe(|| decode(file))) {
        Ok(result) => result.map_err(|error| parquet_error(path, &error)),
        Err(_) => Err(StoreError::Parquet {
            path: path.to_path_buf(),
            reason: "the file is damaged: decoding it broke off".to_owned(),
        }),
    }
}

/// An error of polars as one line.
pub(super) fn parquet_error(path: &Path, error: &PolarsError) -> StoreError {
    let reason = error.to_string().replace(['\n', '\r'], " ");
    StoreError::Parquet {
        path: path.to_path_buf(),
        reason,
    }
}
