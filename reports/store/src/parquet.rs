//! Writes Parquet with fixed settings and bounded memory. Only this file, `parquet_reader.rs` and
//! `torn_parquet.rs` use polars.
//!
//! Equal input gives equal bytes: one row group per call, fixed pages and compression, no
//! statistics, and no metadata but the schema and the legends of the columns. Writing and comparing
//! two million rows peaked at 60 MB.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;

use gpubench_record::regular_file;
use polars_core::prelude::{
    Column, DataFrame, DataType, IntoColumn, NamedFrom, PlSmallStr, PolarsError, PolarsResult,
    Schema, Series,
};
use polars_io::parquet::read::FileMetadata;
use polars_io::prelude::{
    BatchedWriter, FileMetadataRef, KeyValueMetadata, ParquetCompression, ParquetReader,
    ParquetWriter, SerReader, StatisticsOptions,
};
use polars_parquet_format::thrift::protocol::{TCompactInputProtocol, TCompactOutputProtocol};
use polars_parquet_format::{
    ColumnChunk, ColumnMetaData, FileMetaData, PageHeader, RowGroup, SchemaElement,
};

use super::error::StoreError;
use crate::parquet;

/// Rows of a row group, which is also the most that is held in memory at once.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 17;

/// zstd at the default level of polars. Two million rows of noisy timestamps (122 MiB of logs) take
/// 31 MiB with it, 52 MiB with snappy or lz4 and 70 MiB uncompressed; none of these is faster.
const COMPRESSION: ParquetCompression = ParquetCompression::Zstd(None);

const PAGE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Table {
    /// Every column with its type, in file order.
    pub(super) columns: &'static [(&'static str, Kind)],
    /// What the values of a column mean, by its name: codes and units. The file keeps it as
    /// `gpubench.NAME`.
    pub(super) legends: &'static [(&'static str, &'static str)],
}

impl Table {
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|(name, _)| *name).collect()
    }
}

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

pub(super) fn parquet_error(path: &Path, error: &PolarsError) -> StoreError {
    let reason = error.to_string().replace(['\n', '\r'], " ");
    StoreError::Parquet { path: path.to_path_buf(), reason }
}

// Parquet files that were cut short, as by an interrupted copy.
//
// A Parquet file is read from its footer, which a tear takes away. The pages before the tear are
// still there, each behind a header with its length, and behind the pages of a column a copy of
// its metadata: so a footer is made of those of every complete row group. Nothing confirms these
// bytes, since the checksum is that of the whole file; lengths are bounded before they are used.

/// First and last bytes of a Parquet file.
const MAGIC: [u8; 4] = *b"PAR1";
/// Largest page that is read: far more than pages of ours have.
const PAGE_BYTES_MAX: i32 = 64 << 20;
/// Largest header that is read.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// Whether the file lacks its end.
pub(super) fn is_torn(path: &Path) -> Result<bool, StoreError> {
    let end = regular_file::open(path).and_then(|mut file| {
        let mut end = [0; MAGIC.len()];
        if file.metadata()?.len() >= 3 * MAGIC.len() as u64 {
            file.seek(SeekFrom::End(-(MAGIC.len() as i64)))?;
            file.read_exact(&mut end)?;
        }
        Ok(end)
    });
    Ok(end.map_err(StoreError::io("read", path))? != MAGIC)
}

/// What a torn file lost, for a person; `None` for a whole one.
pub(super) fn loss(path: &Path, table: &Table) -> Result<Option<String>, StoreError> {
    if !is_torn(path)? {
        return Ok(None);
    }
    let rows: i64 = row_groups(path, table)?.iter().map(|group| group.num_rows).sum();
    let name = path.file_name().unwrap_or_default().display();
    Ok(Some(format!(
        "{name} is torn: its first {rows} rows are read, without a checksum that confirms them; \
         those behind are lost"
    )))
}

/// The metadata of a torn file up to its last complete row group.
pub(super) fn metadata(path: &Path, table: &Table) -> Result<FileMetadataRef, StoreError> {
    let row_groups = row_groups(path, table)?;
    let bytes = footer(table, row_groups).map_err(StoreError::io("read", path))?;
    let mut reader = ParquetReader::new(Cursor::new(bytes));
    let metadata = reader.get_metadata().cloned();
    metadata.map_err(|error| parquet_error(path, &error))
}

/// A Parquet file with the schema of the table and a footer that names these row groups.
fn footer(table: &Table, row_groups: Vec<RowGroup>) -> io::Result<Vec<u8>> {
    let mut metadata = empty_metadata(table)?;
    metadata.num_rows = row_groups.iter().map(|group| group.num_rows).sum();
    metadata.row_groups = row_groups;
    let mut bytes = MAGIC.to_vec();
    let mut footer = Vec::new();
    let mut output = TCompactOutputProtocol::new(&mut footer);
    metadata.write_to_out_protocol(&mut output).map_err(io::Error::other)?;
    let length = u32::try_from(footer.len()).map_err(io::Error::other)?;
    bytes.extend(footer);
    bytes.extend(length.to_le_bytes());
    bytes.extend(MAGIC);
    Ok(bytes)
}

/// The metadata of a file of this table without rows.
fn empty_metadata(table: &Table) -> io::Result<FileMetaData> {
    let bytes = parquet::empty(table).map_err(io::Error::other)?;
    let end = bytes.len() - 2 * MAGIC.len();
    let mut length = [0; 4];
    length.copy_from_slice(&bytes[end..end + 4]);
    let start = end - u32::from_le_bytes(length) as usize;
    let mut input = TCompactInputProtocol::new(&bytes[start..end], HEADER_BYTES_MAX);
    FileMetaData::read_from_in_protocol(&mut input).map_err(io::Error::other)
}

fn row_groups(path: &Path, table: &Table) -> Result<Vec<RowGroup>, StoreError> {
    let found = regular_file::open(path).and_then(|file| {
        // The first element of a schema is its root.
        let columns = empty_metadata(table)?.schema.split_off(1);
        let bytes = file.metadata()?.len();
        let mut pages = Pages { file: BufReader::new(file), bytes };
        // Damage may have reached the first bytes as well: the pages behind them say more.
        let mut groups = Vec::new();
        let mut at = MAGIC.len() as u64;
        while let Some((group, end)) = pages.row_group(at, &columns) {
            groups.push(group);
            at = end;
        }
        Ok(groups)
    });
    found.map_err(StoreError::io("read", path))
}

/// Checks every page header of a whole file, because the decoder allocates what they count and a
/// failed allocation ends the process. Only the checksum confirms them, and a file may have none.
pub(super) fn check_pages(path: &Path, metadata: &FileMetadata) -> Result<(), StoreError> {
    let damaged = |reason: String| StoreError::Parquet { path: path.to_path_buf(), reason };
    let opened = regular_file::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (bytes, file) = opened.map_err(StoreError::io("read", path))?;
    let mut pages = Pages { file: BufReader::new(file), bytes };
    for (at, group) in metadata.row_groups.iter().enumerate() {
        for column in group.parquet_columns() {
            let place = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let values = pages.values(place, column.compressed_size());
            if values != i64::try_from(group.num_rows()).ok() {
                let name = column.descriptor().path_in_schema.join(".");
                return Err(damaged(format!(
                    "the pages of column {name} in row group {at} do not hold its {} rows",
                    group.num_rows()
                )));
            }
        }
    }
    Ok(())
}

/// The pages of a file, front to back.
struct Pages {
    file: BufReader<File>,
    bytes: u64,
}

impl Pages {
    /// The row group at `at` and the place behind it; `None` where it is not complete.
    fn row_group(&mut self, at: u64, columns: &[SchemaElement]) -> Option<(RowGroup, u64)> {
        let mut end = at;
        let mut chunks: Vec<ColumnMetaData> = Vec::new();
        for column in columns {
            let (chunk, next) = self.column(end, column)?;
            let same = |known: &ColumnMetaData| known.num_values == chunk.num_values;
            if !chunks.first().is_none_or(same) {
                return None;
            }
            chunks.push(chunk);
            end = next;
        }
        let rows = chunks.first()?.num_values;
        let total = chunks.iter().map(|chunk| chunk.total_uncompressed_size);
        let total = total.sum();
        let chunks = chunks.into_iter().map(|chunk| {
            let place = chunk.data_page_offset;
            ColumnChunk::new(None, place, chunk, None, None, None, None, None, None)
        });
        let group = RowGroup::new(chunks.collect(), total, rows, None, None, None, None);
        Some((group, end))
    }

    /// The metadata of the column whose pages begin at `at`, and the place behind it. The writer
    /// puts a copy of it behind the pages.
    fn column(&mut self, at: u64, column: &SchemaElement) -> Option<(ColumnMetaData, u64)> {
        let (mut end, mut values) = (at, 0);
        loop {
            let (header, next) = self.page(end)?;
            values += i64::from(data_values(&header));
            end = next;
            if let Some((found, behind)) = self.column_metadata(end) {
                let length = i64::try_from(end - at).ok()?;
                let first = found.dictionary_page_offset.unwrap_or(found.data_page_offset);
                let is_sound = found.path_in_schema == [column.name.as_str()]
                    && Some(found.type_) == column.type_
                    && (0..=ROW_GROUP_ROWS as i64).contains(&values)
                    && (found.num_values, found.total_compressed_size) == (values, length)
                    && u64::try_from(first) == Ok(at);
                if is_sound {
                    return Some((found, behind));
                }
            }
        }
    }

    fn column_metadata(&mut self, at: u64) -> Option<(ColumnMetaData, u64)> {
        self.file.seek(SeekFrom::Start(at)).ok()?;
        let mut input = TCompactInputProtocol::new(&mut self.file, HEADER_BYTES_MAX);
        let found = ColumnMetaData::read_from_in_protocol(&mut input).ok()?;
        Some((found, self.file.stream_position().ok()?))
    }

    /// The values of the data pages in a column chunk of this place and length; `None` where its
    /// pages are not exactly that long, or a header is not sound.
    fn values(&mut self, place: i64, length: i64) -> Option<i64> {
        let mut at = u64::try_from(place).ok()?;
        let end = at.checked_add(u64::try_from(length).ok()?)?;
        let mut values = 0;
        while at < end {
            let (header, next) = self.page(at)?;
            values += i64::from(data_values(&header));
            at = next;
        }
        (at == end).then_some(values)
    }

    /// The header of the page at `at` and the place behind the page, if that is in the file.
    fn page(&mut self, at: u64) -> Option<(PageHeader, u64)> {
        self.file.seek(SeekFrom::Start(at)).ok()?;
        let mut input = TCompactInputProtocol::new(&mut self.file, HEADER_BYTES_MAX);
        let header = PageHeader::read_from_in_protocol(&mut input).ok()?;
        let sizes = [header.uncompressed_page_size, header.compressed_page_size];
        let body = u64::try_from(header.compressed_page_size).ok()?;
        let end = self.file.stream_position().ok()? + body;
        let of_dictionary =
            header.dictionary_page_header.as_ref().map_or(0, |page| page.num_values);
        let is_sound = sizes.iter().all(|size| (0..=PAGE_BYTES_MAX).contains(size))
            && [data_values(&header), of_dictionary]
                .iter()
                .all(|n| (0..=PAGE_BYTES_MAX).contains(n));
        (is_sound && end <= self.bytes).then_some((header, end))
    }
}

/// The values of a data page of either version; 0 for another page.
fn data_values(header: &PageHeader) -> i32 {
    let first = header.data_page_header.as_ref().map(|page| page.num_values);
    let second = header.data_page_header_v2.as_ref().map(|page| page.num_values);
    first.or(second).unwrap_or(0)
}
