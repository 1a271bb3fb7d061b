//! Reads and writes Parquet with fixed settings and bounded memory. The only file that uses polars.
//!
//! Equal input gives equal bytes: one row group per call, fixed pages and compression, no metadata
//! but the schema, no statistics. Every failure is a typed error, a panic of the decoder included.
//! Writing and comparing two million rows peaked at 60 MB.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use polars_core::prelude::{
    Column, DataFrame, DataType, IntoColumn, NamedFrom, PlSmallStr, PolarsError, PolarsResult,
    Schema, Series,
};
use polars_io::prelude::{
    BatchedWriter, ParallelStrategy, ParquetCompression, ParquetReader, ParquetWriter, SerReader,
    StatisticsOptions,
};

use super::error::StoreError;

/// Rows of a row group, which is also the most that is held in memory at once.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 17;

/// zstd at the default level of polars. Two million rows of noisy timestamps (122 MiB of logs) take
/// 31 MiB with it, 52 MiB with snappy or lz4 and 70 MiB uncompressed; none of these is faster.
const COMPRESSION: ParquetCompression = ParquetCompression::Zstd(None);

/// Bytes of a page before compression; the default of the format.
const PAGE_BYTES: usize = 1 << 20;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    U32,
    U64,
    I32,
    F64,
    Bool,
    Text,
}

impl Kind {
    const fn polars(self) -> DataType {
        match self {
            Self::U8 => DataType::UInt8,
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::I32 => DataType::Int32,
            Self::F64 => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::Text => DataType::String,
        }
    }
}

/// The values of one column of a row group.
#[derive(Debug)]
pub(super) enum Values<'a> {
    U8(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    /// Null where `None`.
    OptionalU64(Vec<Option<u64>>),
    I32(Vec<i32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<&'a str>),
}

impl Values<'_> {
    fn into_column(self, name: &'static str) -> Column {
        let name = PlSmallStr::from_static(name);
        let series = match self {
            Self::U8(values) => Series::new(name, values),
            Self::U32(values) => Series::new(name, values),
            Self::U64(values) => Series::new(name, values),
            Self::OptionalU64(values) => Series::new(name, values),
            Self::I32(values) => Series::new(name, values),
            Self::F64(values) => Series::new(name, values),
            Self::Bool(values) => Series::new(name, values),
            Self::Text(values) => Series::new(name, values),
        };
        series.into_column()
    }
}

/// A Parquet file being written, row group by row group.
pub(super) struct Writer<'a> {
    inner: BatchedWriter<FirstError<'a>>,
    first_error: &'a RefCell<Option<io::Error>>,
    path: &'a Path,
}

/// Forwards writes and keeps the first I/O error, which polars turns into text.
struct FirstError<'a> {
    file: &'a File,
    first_error: &'a RefCell<Option<io::Error>>,
}

impl Write for FirstError<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| {
            // Callers retry after an interruption, so it is no failure.
            if error.kind() != io::ErrorKind::Interrupted {
                let copy = io::Error::new(error.kind(), error.to_string());
                self.first_error.borrow_mut().get_or_insert(copy);
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a Parquet file with these columns to `file`; `fill` adds the row groups.
pub(super) fn write(
    file: &File,
    path: &Path,
    columns: &[(&'static str, Kind)],
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let fields = columns.iter();
    let schema: Schema = fields
        .map(|(name, kind)| (PlSmallStr::from_static(name), kind.polars()))
        .collect();
    let first_error = RefCell::new(None);
    let inner = ParquetWriter::new(FirstError {
        file,
        first_error: &first_error,
    })
    .with_compression(COMPRESSION)
    .with_statistics(StatisticsOptions::empty())
    .with_data_page_size(Some(PAGE_BYTES))
    .batched(&schema)
    .map_err(|e| parquet_error(path, &e))?;
    let mut writer = Writer {
        inner,
        first_error: &first_error,
        path,
    };
    fill(&mut writer)?;
    let end = writer.inner.finish().map(|_| ());
    writer.checked(end)
}

impl Writer<'_> {
    /// Writes `rows` rows as one row group; none if `rows` is 0.
    pub(super) fn row_group(
        &mut self,
        rows: usize,
        columns: Vec<(&'static str, Values<'_>)>,
    ) -> Result<(), StoreError> {
        let columns = columns.into_iter();
        let columns = columns.map(|(name, values)| values.into_column(name));
        let frame = DataFrame::new(rows, columns.collect());
        let written = frame.and_then(|frame| self.inner.write_batch(&frame));
        self.checked(written)
    }

    fn checked(&self, result: PolarsResult<()>) -> Result<(), StoreError> {
        match (result, self.first_error.borrow_mut().take()) {
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

/// Reads `rows` rows of the Parquet file at `path`, from row `start`, of the named columns.
pub(super) fn read<'a>(
    path: &'a Path,
    start: usize,
    rows: usize,
    columns: &[&str],
) -> Result<Rows<'a>, StoreError> {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    let frame = guarded(path, |file| {
        ParquetReader::new(file)
            .with_slice(Some((start, rows)))
            .with_columns(Some(columns))
            .read_parallel(ParallelStrategy::None)
            .set_rechunk(true)
            .finish()
    })?;
    Ok(Rows { path, frame })
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
        self.complete(name, self.column(name, Column::u8)?.iter())
    }

    pub(super) fn u32(&self, name: &str) -> Result<Vec<u32>, StoreError> {
        self.complete(name, self.column(name, Column::u32)?.iter())
    }

    pub(super) fn u64(&self, name: &str) -> Result<Vec<u64>, StoreError> {
        self.complete(name, self.column(name, Column::u64)?.iter())
    }

    /// `None` where the file has a null.
    pub(super) fn optional_u64(&self, name: &str) -> Result<Vec<Option<u64>>, StoreError> {
        Ok(self.column(name, Column::u64)?.iter().collect())
    }

    pub(super) fn i32(&self, name: &str) -> Result<Vec<i32>, StoreError> {
        self.complete(name, self.column(name, Column::i32)?.iter())
    }

    pub(super) fn f64(&self, name: &str) -> Result<Vec<f64>, StoreError> {
        self.complete(name, self.column(name, Column::f64)?.iter())
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

    /// The values of a column without nulls.
    fn complete<T>(
        &self,
        name: &str,
        values: impl Iterator<Item = Option<T>>,
    ) -> Result<Vec<T>, StoreError> {
        let values = values.enumerate();
        values
            .map(|(row, value)| {
                value.ok_or_else(|| self.error(format!("row {row}: column {name} is null")))
            })
            .collect()
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
    let file = File::open(path).map_err(StoreError::io("read", path))?;
    match catch_unwind(AssertUnwindSafe(|| decode(file))) {
        Ok(result) => result.map_err(|error| parquet_error(path, &error)),
        Err(_) => Err(StoreError::Parquet {
            path: path.to_path_buf(),
            reason: "the file is damaged: the decoder panicked".to_owned(),
        }),
    }
}

/// An error of polars as one line.
fn parquet_error(path: &Path, error: &PolarsError) -> StoreError {
    let reason = error.to_string().replace(['\n', '\r'], " ");
    StoreError::Parquet {
        path: path.to_path_buf(),
        reason,
    }
}
