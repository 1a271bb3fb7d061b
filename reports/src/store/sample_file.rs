//! `samples.parquet`, read by cell and tenant, a row group at a time.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use gpubench_record::sample::MISSING;
use gpubench_record::{Phase, SampleRow, SampleStatus};

use super::error::StoreError;
use super::parquet_reader::Reader;
use super::parquet_rows::Rows;
use super::sample_columns::{KEY_COLUMNS, SegmentKey, TABLE, rows_of, segments_of};

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
    reader: Reader,
    segments: Vec<Segment>,
    /// The rows that were decoded last: segments are mostly read in file order.
    decoded: RefCell<Decoded>,
}

/// Decoded rows and their place in the file.
#[derive(Debug, Default)]
struct Decoded {
    place: Range<usize>,
    rows: Vec<SampleRow>,
}

impl SampleFile {
    /// Opens the file at `path` and indexes its segments, one row group at a time.
    ///
    /// # Errors
    /// When the file does not match its checksum, is no Parquet file, or lacks a column.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let reader = Reader::open(path, &TABLE)?;
        let mut segments: Vec<Segment> = Vec::new();
        let indexed = |rows: &Rows<'_>, chunk: Range<usize>| Ok((segments_of(rows)?, chunk.start));
        reader.for_each_chunk(&KEY_COLUMNS, indexed, |(found, mut start)| {
            for (key, count) in found {
                match segments.last_mut() {
                    Some(last) if last.key == key => last.rows += count,
                    _ => segments.push(Segment { key, start, rows: count }),
                }
                start += count;
            }
            Ok(())
        })?;
        Ok(Self { reader, segments, decoded: RefCell::default() })
    }

    /// The segments of the file, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether the file was cut short, so that segments may be missing.
    pub fn is_torn(&self) -> bool {
        self.reader.is_torn()
    }

    /// All rows of one tenant in one cell, in log order; none if the file has no such segment.
    pub fn load(&self, cell: &str, tenant: &str) -> Result<Vec<SampleRow>, StoreError> {
        let mut rows = Vec::new();
        for segment in &self.segments {
            if segment.key.cell == cell && segment.key.tenant == tenant {
                self.append(segment.start..segment.start + segment.rows, &mut rows)?;
            }
        }
        Ok(rows)
    }

    /// Appends the rows at `wanted`. Each chunk of the file is decoded once for all its segments.
    fn append(&self, wanted: Range<usize>, rows: &mut Vec<SampleRow>) -> Result<(), StoreError> {
        let chunks = self.reader.chunks();
        let first = chunks.partition_point(|chunk| chunk.end <= wanted.start);
        for chunk in chunks[first..].iter().take_while(|chunk| chunk.start < wanted.end) {
            let mut decoded = self.decoded.borrow_mut();
            if decoded.place != *chunk {
                let names = TABLE.names().into_iter();
                let names: Vec<&str> = names.filter(|name| !KEY_COLUMNS.contains(name)).collect();
                decoded.rows = rows_of(&self.reader.read(chunk.clone(), &names)?)?;
                decoded.place = chunk.clone();
            }
            let from = wanted.start.max(chunk.start) - chunk.start;
            let to = wanted.end.min(chunk.end) - chunk.start;
            rows.extend_from_slice(&decoded.rows[from..to]);
        }
        Ok(())
    }
}

/// Consecutive rows of one tenant in one cell: the latencies of its completed open-loop requests.
pub(super) struct Run {
    pub(super) cell: String,
    pub(super) tenant: String,
    pub(super) latencies_ns: Vec<u64>,
}

/// Calls `each` for each run of rows, in file order. Reads six columns of each row group.
pub(super) fn for_each_run(
    path: &Path,
    mut each: impl FnMut(&Run) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    const COLUMNS: [&str; 6] = ["cell", "tenant", "phase", "status", "t_sched_ns", "t_done_ns"];
    let reader = Reader::open(path, &TABLE)?;
    reader.for_each_chunk(
        &COLUMNS,
        |rows, _| runs_of(rows),
        |runs| runs.iter().try_for_each(&mut each),
    )
}

fn runs_of(rows: &Rows<'_>) -> Result<Vec<Run>, StoreError> {
    let (phase, status) = (rows.u8("phase")?, rows.u8("status")?);
    let sched = rows.u64_or("t_sched_ns", MISSING)?;
    let done = rows.u64_or("t_done_ns", MISSING)?;
    let latency = |row: usize| {
        let counts = (phase[row], status[row], done[row] != MISSING)
            == (Phase::Open as u8, SampleStatus::Ok as u8, true);
        counts.then(|| done[row].saturating_sub(sched[row]))
    };
    let runs = rows.runs(&["cell", "tenant"], &[])?.into_iter().map(|run| {
        Ok(Run {
            cell: rows.text_at("cell", run.start)?.to_owned(),
            tenant: rows.text_at("tenant", run.start)?.to_owned(),
            latencies_ns: run.filter_map(latency).collect(),
        })
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::{SampleFile, TABLE};
    use crate::store::parquet::ROW_GROUP_ROWS;
    use crate::store::samples::tests::stored;
    use crate::store::samples::write_samples;
    use crate::store::samples_for_tests::row;
    use crate::store::torn_parquet;

    #[test]
    fn a_torn_file_is_read_up_to_its_last_complete_row_group() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("samples.parquet");
        let rows: Vec<_> = (0..ROW_GROUP_ROWS as u64 + 500).map(row).collect();
        let log = stored(dir.path(), &rows, "victim");
        write_samples(&file, &[log]).unwrap();
        let whole = std::fs::read(&file).unwrap();
        // The last row group ends before the footer, whose length stands before the last word, and
        // the index of pages, which takes some hundred bytes.
        let mut length = [0; 4];
        length.copy_from_slice(&whole[whole.len() - 8..whole.len() - 4]);
        let end = whole.len() - 8 - u32::from_le_bytes(length) as usize;
        for (cut, left) in [
            (whole.len() - 1, rows.len()),
            (end, rows.len()),
            (end - 1000, ROW_GROUP_ROWS),
            (1000, 0),
            (3, 0),
            (0, 0),
        ] {
            std::fs::write(&file, &whole[..cut]).unwrap();
            let read = SampleFile::open(&file).unwrap();
            assert!(read.is_torn());
            assert!(read.load("c", "victim").unwrap() == rows[..left], "{cut}");
            let loss = torn_parquet::loss(&file, &TABLE).unwrap().unwrap();
            let said = format!("samples.parquet is torn: its first {left} rows are read");
            assert!(loss.starts_with(&said), "{loss}");
        }
    }
}
