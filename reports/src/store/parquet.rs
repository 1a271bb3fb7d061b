//! Writes Parquet with fixed settings and bounded memory. Only this file, `parquet_reader.rs` and
//! `torn_parquet.rs` use polars.
//!
//! Equal input gives equal bytes: one row group per call, fixed pages and compression, no
//! statistics, and no metadata but the schema and the legends of the columns. Writing and comparing
//! two million rows peaked at 60 MB.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use polars_core::prelude::{
    Column, DataFrame, DataType, IntoColumn, NamedFrom, PlSmallStr, PolarsError, PolarsResult,
    Schema, Series,
};
use polars_io::prelude::{
    BatchedWriter, KeyValueMetadata, ParquetCompression, ParquetWriter, StatisticsOptions,
};

use super::error::StoreError;

/// Rows of a row group, which is also the most that is held in memory at once.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 17;

/// zstd at the default level of polars. Two million rows of noisy timestamps (122 MiB of logs) take
/// 31 MiB with it, 52 MiB with snappy or lz4 and 70 MiB uncompressed; none of these is faster.
const COMPRESSION: ParquetCompression = ParquetCompression::Zstd(None);

/// Bytes of a page before compression; the default of the format.
const PAGE_BYTES: usize = 1 << 20;

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Table {
    /// Every column with its type, in file order.
    pub(super) columns: &'static [(&'static str, Kind)],
    /// What the values of a column mean, by its name: codes and units. The file keeps it as
    /// `gpubench.NAME`.
    pub(super) legends: &'static [(&'static str, &'static str)],
}

impl Table {
    /// The names of all columns.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|(name, _)| *name).collect()
    }
}

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

/// Writes the table as a Parquet file to `file`; `fill` adds the row groups.
pub(super) fn write(
    file: &File,
    path: &Path,
    table: &Table,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let first_error = RefCell::new(None);
    let target = FirstError { file, first_error: &first_error };
    let mut writer = Writer {
        inner: begin(target, table).map_err(|e| parquet_error(path, &e))?,
        first_error: &first_error,
        path,
    };
    fill(&mut writer)?;
    let end = writer.inner.finish().map(|_| ());
    writer.checked(end)
}

/// The table as a Parquet file without rows: it has the schema.
pub(super) fn empty(table: &Table) -> PolarsResult<Vec<u8>> {
    let mut bytes = Vec::new();
    begin(&mut bytes, table)?.finish()?;
    Ok(bytes)
}

fn begin<W: Write>(target: W, table: &Table) -> PolarsResult<BatchedWriter<W>> {
    let fields = table.columns.iter();
    let schema: Schema =
        fields.map(|(name, kind)| (PlSmallStr::from_static(name), kind.polars())).collect();
    let legends = table.legends.iter();
    let legends = legends.map(|(name, text)| (format!("gpubench.{name}"), (*text).to_owned()));
    ParquetWriter::new(target)
        .with_compression(COMPRESSION)
        .with_statistics(StatisticsOptions::empty())
        .with_data_page_size(Some(PAGE_BYTES))
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(legends.collect())))
        .batched(&schema)
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
            (_, Some(source)) => {
                Err(StoreError::Io { action: "write", path: self.path.to_path_buf(), source })
            }
            (Err(error), None) => Err(parquet_error(self.path, &error)),
        }
    }
}

/// An error of polars as one line.
pub(super) fn parquet_error(path: &Path, error: &PolarsError) -> StoreError {
    let reason = error.to_string().replace(['\n', '\r'], " ");
    StoreError::Parquet { path: path.to_path_buf(), reason }
}
