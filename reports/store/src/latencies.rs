//! `latencies.hlog`: the latencies of each tenant and cell as an HdrHistogram interval log.
//!
//! Log format 1.3 with V2 DEFLATE histograms, readable by the HdrHistogram tools. One line holds
//! one tenant in one cell, with `Tag=CELL/TENANT`: its completed open-loop requests, from the
//! scheduled instant to completion. Times count from the start of the cell, so a log on the virtual
//! clock depends on the seed alone. A tenant without such requests has no line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpubench_record::{Phase, SampleRow};
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};

use super::checksums::verify;
use super::error::StoreError;
use super::files::replace;
use super::json_lines::read_bytes;
use super::sample_file::{SampleLog, for_each_run};
use super::samples::StoredLog;
use crate::latency::{HistogramError, Latencies};

/// Comment lines at the head of the file, behind `#`.
const HEAD: [&str; 3] = [
    "[Histogram log format version 1.3]",
    "Latencies in ns, from the scheduled instant to completion; completed open-loop requests.",
    "Tag: cell/tenant. Timestamps: seconds since the start of the cell. Interval_Max: ns.",
];
/// The line that names the columns.
const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
/// Rows read from a sample log at a time.
const CHUNK_ROWS: usize = 1 << 16;

/// Writes the latencies of the sample logs, in their order, as the file at `path`.
pub(super) fn write_latencies(path: &Path, logs: &[StoredLog]) -> Result<(), StoreError> {
    let text = render(path, logs)?;
    replace(
        path,
        |mut file, part| file.write_all(&text).map_err(StoreError::io("write", part)),
        |part| {
            if read_bytes(part)? == text {
                return Ok(());
            }
            Err(StoreError::Differs { path: part.to_path_buf(), reason: "other bytes".to_owned() })
        },
    )
}

fn render(path: &Path, logs: &[StoredLog]) -> Result<Vec<u8>, StoreError> {
    let failed = |error: &dyn std::fmt::Display| unusable(path, error);
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut head = IntervalLogWriterBuilder::new();
    for line in HEAD {
        head.add_comment(line);
    }
    head.with_start_time(SystemTime::UNIX_EPOCH)
        .with_base_time(SystemTime::UNIX_EPOCH)
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|e| failed(&e))?;
    text.extend_from_slice(LEGEND.as_bytes());
    let mut writer = IntervalLogWriterBuilder::new()
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|e| failed(&e))?;
    for stored in logs {
        let Some(interval) = Interval::read(&stored.path)? else { continue };
        let (cell, tenant) = (&stored.key.cell, &stored.key.tenant);
        let tag = tag(cell, tenant);
        let tag = Tag::new(&tag).ok_or_else(|| StoreError::Name {
            name: Tag::new(cell).map_or(cell, |_| tenant).clone(),
        })?;
        let histogram = interval.latencies.histogram();
        let (start, length) = (interval.start, interval.length);
        writer.write_histogram(histogram, start, length, Some(tag)).map_err(|e| failed(&e))?;
    }
    Ok(text)
}

pub(super) fn tag(cell: &str, tenant: &str) -> String {
    format!("{cell}/{tenant}")
}

/// The latencies of one tenant in one cell, with the span of its open loop.
struct Interval {
    latencies: Latencies,
    start: Duration,
    length: Duration,
}

impl Interval {
    /// Reads a sample log; `None` if it holds no completed open-loop request.
    fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let failed = |error: HistogramError| unusable(path, &error);
        let mut log = SampleLog::open(path)?;
        let mut latencies = Latencies::new().map_err(failed)?;
        let (mut start_ns, mut end_ns) = (u64::MAX, 0);
        loop {
            let rows = log
                .next_rows(CHUNK_ROWS)
                .map_err(|source| StoreError::Log { path: path.to_path_buf(), source })?;
            if rows.is_empty() {
                break;
            }
            for row in rows.iter().filter(|row| row.phase == Phase::Open) {
                latencies.record(row).map_err(failed)?;
                start_ns = start_ns.min(row.t_sched_ns);
                end_ns = end_ns.max(last_timestamp_ns(row));
            }
        }
        Ok((latencies.count() > 0).then(|| Self {
            latencies,
            start: Duration::from_nanos(start_ns),
            length: Duration::from_nanos(end_ns.saturating_sub(start_ns)),
        }))
    }
}

/// The completion of a request, or its scheduled instant if it did not complete.
fn last_timestamp_ns(row: &SampleRow) -> u64 {
    row.latency_ns().map_or(row.t_sched_ns, |_| row.t_done_ns)
}

/// A latency log that cannot be written or read.
pub(super) fn unusable(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Latencies { path: path.to_path_buf(), reason: error.to_string() }
}

// Latencies by cell and tenant, read from `latencies.hlog` or from the samples.

/// A `latencies.hlog`, with its histograms still encoded.
#[derive(Debug)]
pub(super) struct LatencyFile {
    path: PathBuf,
    encoded: BTreeMap<String, String>,
}

impl LatencyFile {
    /// Reads the file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        verify(path)?;
        let bytes = read_bytes(path)?;
        let mut encoded = BTreeMap::new();
        for entry in IntervalLogIterator::new(&bytes) {
            let entry =
                entry.map_err(|error| unusable(path, &format!("it is damaged: {error:?}")))?;
            if let LogEntry::Interval(interval) = entry {
                let tag = interval.tag().map_or("", |tag| tag.as_str());
                encoded.insert(tag.to_owned(), interval.encoded_histogram().to_owned());
            }
        }
        Ok(Self { path: path.to_path_buf(), encoded })
    }

    /// The same from the samples at `path`, which are read once, a row group at a time. Histograms
    /// are kept encoded: decoded ones of many cells would take gigabytes.
    pub(super) fn of_samples(path: &Path) -> Result<Self, StoreError> {
        let mut file = Self { path: path.to_path_buf(), encoded: BTreeMap::new() };
        let mut open: Option<(String, String, Latencies)> = None;
        for_each_run(path, |run| {
            let (cell, tenant) = (&run.cell, &run.tenant);
            let continues = |(known, of, _): &(String, String, _)| known == cell && of == tenant;
            if !open.as_ref().is_some_and(continues) {
                let known = file.load(cell, tenant)?;
                let ended = open.replace((cell.clone(), tenant.clone(), known));
                file.keep(ended)?;
            }
            if let Some((_, _, latencies)) = &mut open {
                for &ns in &run.latencies_ns {
                    let recorded = latencies.record_ns(ns);
                    recorded.map_err(|error| unusable(path, &error))?;
                }
            }
            Ok(())
        })?;
        file.keep(open)?;
        Ok(file)
    }

    /// One sentence for each tenant in a cell whose latencies are not those of the samples.
    pub(super) fn differences(&self, samples: &Self) -> Result<Vec<String>, StoreError> {
        let tags: BTreeSet<&String> = self.encoded.keys().chain(samples.encoded.keys()).collect();
        let mut found = Vec::new();
        for tag in tags {
            let (own, made) = (self.decoded(tag)?, samples.decoded(tag)?);
            if own != made {
                let (own, made) = (own.count(), made.count());
                let path = self.path.display();
                found.push(format!(
                    "{path}: the {own} latencies of {tag} are not the {made} of its samples"
                ));
            }
        }
        Ok(found)
    }

    fn keep(&mut self, ended: Option<(String, String, Latencies)>) -> Result<(), StoreError> {
        let Some((cell, tenant, latencies)) = ended else { return Ok(()) };
        let mut bytes = Vec::new();
        let written = V2Serializer::new().serialize(latencies.histogram(), &mut bytes);
        written.map_err(|error| unusable(&self.path, &format!("{error:?}")))?;
        let encoded = STANDARD.encode(&bytes);
        self.encoded.insert(tag(&cell, &tenant), encoded);
        Ok(())
    }

    /// Whether there is a histogram of that tenant in that cell, be it an empty one.
    pub(super) fn has(&self, cell: &str, tenant: &str) -> bool {
        self.encoded.contains_key(&tag(cell, tenant))
    }

    /// The latencies of one tenant in one cell; none if the file has no such line.
    pub(super) fn load(&self, cell: &str, tenant: &str) -> Result<Latencies, StoreError> {
        self.decoded(&tag(cell, tenant))
    }

    fn decoded(&self, tag: &str) -> Result<Latencies, StoreError> {
        let Some(encoded) = self.encoded.get(tag) else {
            return Latencies::new().map_err(|error| unusable(&self.path, &error));
        };
        let bytes = STANDARD.decode(encoded);
        let bytes = bytes.map_err(|error| unusable(&self.path, &error))?;
        let histogram = Deserializer::new().deserialize(&mut &*bytes);
        let histogram = histogram.map_err(|error| unusable(&self.path, &error))?;
        Ok(Latencies::from_histogram(histogram))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpubench_record::SampleRow;
    use proptest::prelude::*;

    use super::LatencyFile;
    use super::write_latencies;
    use crate::SegmentKey;
    use crate::StoreError;
    use crate::latency::Latencies;
    use crate::samples::StoredLog;
    use crate::samples_for_tests::{any_row, log_bytes, row};

    fn stored(dir: &Path, tenant: &str, rows: &[SampleRow]) -> StoredLog {
        let path = dir.join(format!("{}.samples", tenant.replace(' ', "-")));
        std::fs::write(&path, log_bytes(rows, rows.len() as u64)).unwrap();
        let key = SegmentKey {
            session: 0,
            block: 0,
            cell: "b00-c000".to_owned(),
            tenant: tenant.to_owned(),
        };
        StoredLog { key, path }
    }

    #[test]
    fn the_head_names_format_unit_and_columns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("latencies.hlog");
        let rows: Vec<_> = (5..40).map(row).collect();
        write_latencies(&path, &[stored(dir.path(), "victim", &rows)]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "#[Histogram log format version 1.3]");
        assert!(lines[1].starts_with("#Latencies in ns, "), "{text}");
        assert_eq!(lines[3], "#[StartTime: 0.000 (seconds since epoch)]");
        assert_eq!(lines[4], "#[BaseTime: 0.000 (seconds since epoch)]");
        assert!(lines[5].starts_with("\"StartTimestamp\","), "{text}");
        // The cookie of V2 DEFLATE in base64.
        let line = "Tag=b00-c000/victim,0.000,0.000,900.000,HISTFAAA";
        assert!(lines[6].starts_with(line), "{text}");
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn a_name_that_a_tag_cannot_hold_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let log = stored(dir.path(), "a victim", &[row(0)]);
        let error = write_latencies(&dir.path().join("latencies.hlog"), &[log]).unwrap_err();
        assert!(matches!(error, StoreError::Name { .. }), "{error}");
    }

    #[test]
    fn damage_without_a_checksum_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("latencies.hlog");
        for text in ["Tag=c/t,0.0,0.0", "Tag=c/t,0.0,0.0,1.0,HISTFAAA\n", "Tag=c/t,0.0,0.0,1.0,~\n"]
        {
            std::fs::write(&path, text).unwrap();
            let error = LatencyFile::open(&path).and_then(|file| file.load("c", "t").map(|_| ()));
            assert!(matches!(error, Err(StoreError::Latencies { .. })), "{text}: {error:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_latencies_of_any_rows_survive_the_file(
            victim in prop::collection::vec(any_row(), 0..60),
            peer in prop::collection::vec(any_row(), 0..60),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("latencies.hlog");
            let logs = [("victim", &victim), ("neighbour-1", &peer)]
                .map(|(tenant, rows)| stored(dir.path(), tenant, rows));
            write_latencies(&path, &logs).unwrap();
            let file = LatencyFile::open(&path).unwrap();
            for (tenant, rows) in [("victim", &victim), ("neighbour-1", &peer)] {
                let found = file.load("b00-c000", tenant).unwrap();
                prop_assert_eq!(found, Latencies::of(rows).unwrap());
            }
            prop_assert_eq!(file.load("b00-c001", "victim").unwrap().count(), 0);
        }
    }
}
