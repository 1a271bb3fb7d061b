//! Parquet files that were cut short, as by an interrupted copy.
//!
//! A Parquet file is read from its footer, which a tear takes away. The pages before the tear are
//! still there, each behind a header with its length, and behind the pages of a column a copy of
//! its metadata: so a footer is made of those of every complete row group. Nothing confirms these
//! bytes, since the checksum is that of the whole file; lengths are bounded before they are used.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use polars_io::prelude::{FileMetadataRef, ParquetReader, SerReader};
use polars_parquet_format::thrift::protocol::{TCompactInputProtocol, TCompactOutputProtocol};
use polars_parquet_format::{
    ColumnChunk, ColumnMetaData, FileMetaData, PageHeader, RowGroup, SchemaElement,
};

use super::error::StoreError;
use super::parquet::{self, ROW_GROUP_ROWS, Table, parquet_error};
use super::regular;

/// First and last bytes of a Parquet file.
const MAGIC: [u8; 4] = *b"PAR1";
/// Largest page that is read: far more than pages of ours have.
const PAGE_BYTES_MAX: i32 = 64 << 20;
/// Largest header that is read.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// Whether the file lacks its end.
pub(super) fn is_torn(path: &Path) -> Result<bool, StoreError> {
    let end = regular::open_regular(path).and_then(|mut file| {
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

/// The complete row groups of a torn file.
fn row_groups(path: &Path, table: &Table) -> Result<Vec<RowGroup>, StoreError> {
    let found = regular::open_regular(path).and_then(|file| {
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
            values += header.data_page_header.map_or(0, |page| i64::from(page.num_values));
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

    /// The header of the page at `at` and the place behind the page, if that is in the file.
    fn page(&mut self, at: u64) -> Option<(PageHeader, u64)> {
        self.file.seek(SeekFrom::Start(at)).ok()?;
        let mut input = TCompactInputProtocol::new(&mut self.file, HEADER_BYTES_MAX);
        let header = PageHeader::read_from_in_protocol(&mut input).ok()?;
        let sizes = [header.uncompressed_page_size, header.compressed_page_size];
        let body = u64::try_from(header.compressed_page_size).ok()?;
        let end = self.file.stream_position().ok()? + body;
        let is_sound = sizes.iter().all(|size| (0..=PAGE_BYTES_MAX).contains(size));
        (is_sound && end <= self.bytes).then_some((header, end))
    }
}
