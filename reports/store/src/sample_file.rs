//! `samples.parquet`, read by cell and tenant, a row group at a time.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::Path;

use gpubench_record::sample::{
    CAPACITY_OFFSET, COMMITTED_OFFSET, HEADER_BYTES, LOG_MAGIC, MISSING, ROW_BYTES,
};
use gpubench_record::{Phase, SampleRow, SampleStatus};

use super::error::{LogError, StoreError};
use super::files;
use super::parquet_reader::{Reader, Rows};
use super::samples::{KEY_COLUMNS, SegmentKey, TABLE, rows_of, segments_of};

/// Consecutive rows of one tenant in one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub key: SegmentKey,
    /// Index of the first row in the file.
    pub start: usize,
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

#[derive(Debug, Default)]
struct Decoded {
    place: Range<usize>,
    rows: Vec<SampleRow>,
}

impl SampleFile {
    /// Opens the file at `path` and indexes its segments, one row group at a time.
    /// Fails when the file does not match its checksum, is no Parquet file, or lacks a column.
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

/// A clock of a device may differ from that of the host by this part, and its events by this time.
const GPU_CLOCK_PART: u64 = 100;
const GPU_EVENT_NS: u64 = 10_000;

/// What requests cannot be: done or returned before they were issued, or longer on the device than
/// they took; `None` where none is.
pub(super) fn impossible(path: &Path) -> Result<Option<String>, StoreError> {
    const COLUMNS: [&str; 7] =
        ["cell", "tenant", "seq", "t_issue_ns", "t_ret_ns", "t_done_ns", "gpu_ns"];
    let reader = Reader::open(path, &TABLE)?;
    let (mut count, mut first) = (0, None);
    reader.for_each_chunk(
        &COLUMNS,
        |rows, _| wrong_rows(rows),
        |(wrong, named)| {
            count += wrong;
            first = first.take().or(named);
            Ok(())
        },
    )?;
    Ok(first
        .map(|first| format!("{}: {count} requests cannot be, the first {first}", path.display())))
}

/// How many rows cannot be, and the first in words.
fn wrong_rows(rows: &Rows<'_>) -> Result<(usize, Option<String>), StoreError> {
    let stamps = |name: &str| rows.u64_or(name, MISSING);
    let (issue, ret) = (stamps("t_issue_ns")?, stamps("t_ret_ns")?);
    let (done, gpu) = (stamps("t_done_ns")?, stamps("gpu_ns")?);
    let is_wrong = |row: &usize| {
        let [issue, ret, done, gpu] = [issue[*row], ret[*row], done[*row], gpu[*row]];
        let took = done.saturating_sub(issue);
        let most = took.saturating_add(took / GPU_CLOCK_PART).saturating_add(GPU_EVENT_NS);
        // What is missing is the greatest number.
        issue != MISSING && (ret < issue || done < issue || (gpu != MISSING && gpu > most))
    };
    let wrong: Vec<usize> = (0..rows.count()).filter(is_wrong).collect();
    let Some(&at) = wrong.first() else { return Ok((0, None)) };
    let named = format!(
        "number {} of {} in {:?}: issued at {} ns, done at {} ns, {} ns on the device",
        rows.u64("seq")?[at],
        rows.text_at("tenant", at)?,
        rows.text_at("cell", at)?,
        issue[at],
        done[at],
        gpu[at]
    );
    Ok((wrong.len(), Some(named)))
}

// Reads the committed rows of the sample logs that tenants map into memory.
//
// The layout is defined in `gpubench_record::sample`. A log is read through any [`Read`].

/// A sample log being read, front to back.
#[derive(Debug)]
pub struct SampleLog<R> {
    source: R,
    committed: u64,
    lost: u64,
    next_row: u64,
}

impl SampleLog<BufReader<File>> {
    /// Opens the log at `path` and reads its header.
    /// Fails when the file cannot be read or contradicts its header.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = files::open(path)?;
        let bytes = file.metadata().map_err(StoreError::io("read", path))?.len();
        SampleLog::new(BufReader::with_capacity(1 << 18, file), bytes)
            .map_err(|source| StoreError::Log { path: path.to_path_buf(), source })
    }
}

impl<R: Read> SampleLog<R> {
    /// A log of `bytes` bytes, read from `source`.
    /// Fails when the log contradicts its header.
    pub fn new(mut source: R, bytes: u64) -> Result<Self, LogError> {
        let mut header = [0u8; HEADER_BYTES];
        source.read_exact(&mut header).map_err(|_| LogError::NoHeader { bytes })?;
        if header[..LOG_MAGIC.len()] != LOG_MAGIC {
            return Err(LogError::Magic);
        }
        let capacity = header_word(&header, CAPACITY_OFFSET);
        let committed = header_word(&header, COMMITTED_OFFSET);
        if committed > capacity {
            return Err(LogError::Capacity { committed, capacity });
        }
        let rows_in_file = bytes.saturating_sub(HEADER_BYTES as u64) / ROW_BYTES as u64;
        Ok(Self {
            source,
            committed: committed.min(rows_in_file),
            lost: committed.saturating_sub(rows_in_file),
            next_row: 0,
        })
    }

    /// Rows that the tenant committed and that the file holds.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Committed rows behind the end of a file that was cut short.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What a file that was cut short lost, for a person.
    pub(super) fn loss(&self, name: &str) -> Option<String> {
        let all = self.committed + self.lost;
        (self.lost > 0)
            .then(|| format!("{name} is torn: {} of {all} committed rows are read", self.committed))
    }

    /// The next rows, `limit` at most; none at the end of the log.
    /// Fails at the first row that this version cannot read.
    pub fn next_rows(&mut self, limit: usize) -> Result<Vec<SampleRow>, LogError> {
        let left = usize::try_from(self.committed - self.next_row).unwrap_or(usize::MAX);
        let mut rows = Vec::with_capacity(left.min(limit));
        let mut bytes = [0u8; ROW_BYTES];
        for _ in 0..left.min(limit) {
            let row = self.next_row;
            self.source.read_exact(&mut bytes).map_err(|source| LogError::Io { row, source })?;
            rows.push(
                SampleRow::from_bytes(&bytes).map_err(|source| LogError::Row { row, source })?,
            );
            self.next_row += 1;
        }
        Ok(rows)
    }
}

/// The committed rows of the log at `path`, of a torn one up to the tear.
/// Fails when the log cannot be read to its last committed row.
pub fn read_log(path: &Path) -> Result<Vec<SampleRow>, StoreError> {
    let mut log = SampleLog::open(path)?;
    log.next_rows(usize::MAX).map_err(|source| StoreError::Log { path: path.to_path_buf(), source })
}

fn header_word(header: &[u8; HEADER_BYTES], offset: usize) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(&header[offset..offset + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use gpubench_record::sample::{CAPACITY_OFFSET, COMMITTED_OFFSET, ROW_BYTES};
    use proptest::prelude::*;

    use super::{LogError, SampleFile, SampleLog, TABLE};
    use crate::parquet;
    use crate::parquet::ROW_GROUP_ROWS;
    use crate::samples::tests::stored;
    use crate::samples::write_samples;
    use crate::samples_for_tests::{any_row, log_bytes, row};

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
            let loss = parquet::loss(&file, &TABLE).unwrap().unwrap();
            let said = format!("samples.parquet is torn: its first {left} rows are read");
            assert!(loss.starts_with(&said), "{loss}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_is_named_without_checksums() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("samples.parquet");
        type Forge = fn(&mut gpubench_record::SampleRow);
        let forges: [Option<Forge>; 4] = [
            None,
            Some(|row| row.gpu_ns = 51_200),
            Some(|row| row.t_done_ns = row.t_issue_ns - 1),
            Some(|row| row.t_ret_ns = 0),
        ];
        for forge in forges {
            let mut rows: Vec<_> = (0..9).map(row).collect();
            if let Some(forge) = forge {
                forge(&mut rows[7]);
            }
            let log = stored(dir.path(), &rows, "victim");
            write_samples(&file, &[log]).unwrap();
            let found = super::impossible(&file).unwrap();
            let named = found.as_ref().is_some_and(|text| {
                text.contains("1 requests cannot be, the first number 7 of victim in \"c\"")
            });
            assert_eq!((found.is_some(), named), (forge.is_some(), forge.is_some()), "{found:?}");
        }
    }

    fn read(bytes: &[u8]) -> Result<Vec<gpubench_record::SampleRow>, LogError> {
        SampleLog::new(bytes, bytes.len() as u64)?.next_rows(usize::MAX)
    }

    #[test]
    fn ignores_an_uncommitted_row() {
        let rows = vec![row(0), row(1)];
        let mut bytes = log_bytes(&rows, 4);
        bytes[COMMITTED_OFFSET] = 1;
        assert_eq!(read(&bytes).unwrap(), rows[..1]);
    }

    #[test]
    fn each_kind_of_damage_has_its_own_error() {
        let bytes = log_bytes(&[row(0), row(1)], 2);
        assert!(matches!(read(&bytes[..10]), Err(LogError::NoHeader { bytes: 10 })));
        assert!(matches!(read(&[0; 256]), Err(LogError::Magic)));
        let torn = &bytes[..bytes.len() - ROW_BYTES / 2];
        assert_eq!(read(torn).unwrap(), [row(0)]);
        let log = SampleLog::new(torn, torn.len() as u64).unwrap();
        let loss = log.loss("the log").unwrap();
        assert_eq!(loss, "the log is torn: 1 of 2 committed rows are read");
        let mut greedy = bytes.clone();
        greedy[CAPACITY_OFFSET] = 1;
        assert!(matches!(read(&greedy), Err(LogError::Capacity { committed: 2, capacity: 1 })));
        let mut later = bytes;
        later[64 + ROW_BYTES + 52] = 77;
        let text = read(&later).unwrap_err().to_string();
        assert_eq!(text, "row 1: phase 77 is not one of 0 to 4");
    }

    proptest! {
        #[test]
        fn logged_rows_are_read_back(
            rows in prop::collection::vec(any_row(), 0..40),
            spare in 0..9_u64,
        ) {
            let bytes = log_bytes(&rows, rows.len() as u64 + spare);
            prop_assert_eq!(read(&bytes).unwrap(), rows);
        }

        #[test]
        fn any_bytes_give_rows_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&bytes);
        }

        #[test]
        fn a_damaged_log_gives_rows_or_an_error(
            rows in prop::collection::vec(any_row(), 1..10),
            at in any::<prop::sample::Index>(),
            value in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = log_bytes(&rows, rows.len() as u64);
            let at = at.index(bytes.len());
            bytes[at] = value;
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Ok(read) = read(&bytes) {
                prop_assert!(read.len() <= rows.len());
            }
        }
    }
}
