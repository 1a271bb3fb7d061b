//! Latencies by cell and tenant, read from `latencies.hlog` or from the samples.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use super::checksums::verify;
use super::error::StoreError;
use super::json_lines::read_bytes;
use super::latencies::{tag, unusable};
use super::sample_file::for_each_run;
use crate::latency::Latencies;

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
            let entry = entry.map_err(|error| unusable(path, &format!("{error:?}")))?;
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

    fn keep(&mut self, ended: Option<(String, String, Latencies)>) -> Result<(), StoreError> {
        let Some((cell, tenant, latencies)) = ended else {
            return Ok(());
        };
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
        let Some(encoded) = self.encoded.get(&tag(cell, tenant)) else {
            return Latencies::new().map_err(|error| unusable(&self.path, &error));
        };
        let bytes = STANDARD.decode(encoded);
        let bytes = bytes.map_err(|error| unusable(&self.path, &error))?;
        let histogram = Deserializer::new().deserialize(&mut &*bytes);
        let histogram = histogram.map_err(|error| unusable(&self.path, &error))?;
        Ok(Latencies::from_histogram(histogram))
    }
}
