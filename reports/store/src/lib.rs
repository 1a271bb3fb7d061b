//! The folder of a record: its files, and how a record is opened.
//!
//! During a run: `events.jsonl`, `telemetry.jsonl` and `cells/<id>/<tenant>.samples`. After it:
//! `record.json`, `samples.parquet`, `latencies.hlog`, `telemetry.parquet`, `checksums.b3`. Every
//! state between the two can be opened, also that of a crashed run.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]

mod anonymize;
mod checksums;
pub mod dataset;
mod error;
mod files;
mod finish;
mod json_lines;
mod latencies;
pub mod latency;
mod long_record;
mod losses;
mod parquet;
mod parquet_reader;
mod rebuild;
mod record_json;
mod sample_file;
mod samples;
#[cfg(test)]
mod samples_for_tests;
mod telemetry;
#[cfg(test)]
mod tests;
pub mod timeline;
mod upgrade;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::mem::take;
use std::path::{Path, PathBuf};

use gpubench_record::{DeviceKind, RunRecord, SampleRow, TelemetryRow};

use crate::latency::Latencies;

pub use anonymize::{REMOVED, write_anonymized};
pub use checksums::{
    CHECKSUMS_FILE, SIGNATURE_FILE, damaged_or_unlisted, files_with_checksum, seal,
};
pub use error::{LogError, StoreError};
pub use finish::reopen;
pub use finish::{Finished, finish, plan_of};
pub use json_lines::{EventLog, Events, TelemetryLog, parse_events, read_events};
use latencies::LatencyFile;
pub use parquet_reader::is_decoding;
pub use rebuild::UNSCORED;
pub use record_json::write_record_json;
pub use sample_file::{SampleFile, Segment};
pub use sample_file::{SampleLog, read_log};
pub use samples::SegmentKey;

pub use telemetry::{Reading, read_telemetry, write_telemetry};

pub const RECORD_FILE: &str = "record.json";
/// The events of the run, one per line.
pub const EVENTS_FILE: &str = "events.jsonl";
/// Telemetry, during the run.
pub const TELEMETRY_LOG_FILE: &str = "telemetry.jsonl";
/// All samples, after the run.
pub const SAMPLES_FILE: &str = "samples.parquet";
/// Latency histograms by cell and tenant, after the run.
pub const LATENCIES_FILE: &str = "latencies.hlog";
/// All telemetry, after the run.
pub const TELEMETRY_FILE: &str = "telemetry.parquet";
/// The page of a finished run.
pub const PAGE_FILE: &str = "report.html";
/// The sample logs, during the run.
pub const CELLS_FOLDER: &str = "cells";
pub const LOG_EXTENSION: &str = "samples";

/// The path of the sample log of a tenant in a cell.
/// Fails when a name leads out of the folder.
pub fn log_path(dir: &Path, cell: &str, tenant: &str) -> Result<PathBuf, StoreError> {
    for name in [cell, tenant] {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(StoreError::Name { name: name.to_owned() });
        }
    }
    Ok(dir.join(CELLS_FOLDER).join(cell).join(format!("{tenant}.{LOG_EXTENSION}")))
}

#[derive(Debug)]
pub struct Record {
    dir: PathBuf,
    run: RunRecord,
    warnings: Vec<String>,
    rebuilt: bool,
    is_torn: bool,
    damaged: Vec<String>,
    /// Tenants without a row, by cell, of a run that was taken.
    without_rows: BTreeSet<(String, String)>,
    samples: OnceCell<SampleFile>,
    latencies: OnceCell<LatencyFile>,
}

/// The folder of a record that is named by its `record.json`.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if path.ends_with(RECORD_FILE) && path.is_file() => match folder {
            own if own.as_os_str().is_empty() => Path::new("."),
            folder => folder,
        },
        _ => path,
    }
}

impl Record {
    /// Opens the record in `dir`: its `record.json`, or without that file an incomplete, unscored
    /// record from events and logs. Writes nothing.
    /// Fails when there is no record, it has another major version, or it cannot be read.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let dir = folder_of(dir);
        let record_json = dir.join(RECORD_FILE);
        let (run, mut warnings, rebuilt) = if record_json.exists() {
            (record_json::read_record_json(&record_json)?, Vec::new(), false)
        } else if dir.join(EVENTS_FILE).exists() {
            let being_written = json_lines::is_being_written(dir);
            let (run, warnings) = rebuild::rebuild(dir, read_events(dir)?, being_written)?;
            (run, warnings, true)
        } else {
            return Err(StoreError::no_record(dir));
        };
        let losses = losses::losses(dir, &run.plan)?;
        let is_torn = !losses.is_empty();
        let (damaged, texts): (Vec<String>, Vec<String>) =
            losses::damages(dir, &losses)?.into_iter().unzip();
        warnings.extend(losses);
        warnings.extend(texts);
        let mut record = Self {
            dir: dir.to_path_buf(),
            run,
            warnings,
            rebuilt,
            is_torn,
            damaged,
            without_rows: BTreeSet::new(),
            samples: OnceCell::new(),
            latencies: OnceCell::new(),
        };
        if record.run.device.kind == DeviceKind::Real {
            let first = || json_lines::kind_of_first_event(dir);
            let by_event = || {
                let is_virtual = first()? == DeviceKind::Virtual;
                is_virtual.then(|| format!("the first line of {EVENTS_FILE} says so"))
            };
            if let Some(sign) = record.run.sign_of_virtual().or_else(by_event) {
                record.mark_virtual(&sign);
            }
        }
        Ok(record)
    }

    pub fn run(&self) -> &RunRecord {
        &self.run
    }

    /// The record, without its folder.
    pub fn into_run(self) -> RunRecord {
        self.run
    }

    /// The record; the files stay, and of the record all but its cells, which are most of it.
    pub fn take_run(&mut self) -> RunRecord {
        for cell in &self.run.cells {
            let empty = cell.tenant_results.iter().filter(|one| one.rows == 0);
            let keys = empty.map(|one| (cell.cell.id.clone(), one.planned.tenant.clone()));
            self.without_rows.extend(keys);
        }
        let (cells, planned) = (take(&mut self.run.cells), take(&mut self.run.plan.cells));
        let mut run = self.run.clone();
        (run.cells, run.plan.cells) = (cells, planned);
        run
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Shows the record as one of the virtual GPU, with what says so: its file is damaged.
    pub fn mark_virtual(&mut self, sign: &str) {
        self.run.device.kind = DeviceKind::Virtual;
        self.damaged.push(RECORD_FILE.to_owned());
        self.warnings
            .push(format!("it names its device real, and it is of the virtual GPU: {sign}"));
    }

    /// Warnings about its files.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether files of it were cut short; the warnings name them.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Whether this file of it differs from its checksum, or is gone; the warnings name it.
    pub fn is_damaged(&self, name: &str) -> bool {
        self.damaged.iter().any(|damaged| damaged == name)
    }

    /// Whether it was rebuilt from events, and so has no scores.
    pub fn is_rebuilt(&self) -> bool {
        self.rebuilt
    }

    /// The samples of one tenant in one cell: from its log if an unfinished run has it, else from
    /// Parquet.
    pub fn samples(&self, cell: &str, tenant: &str) -> Result<Vec<SampleRow>, StoreError> {
        let log = log_path(&self.dir, cell, tenant)?;
        let is_finished =
            [RECORD_FILE, SAMPLES_FILE].iter().all(|name| self.dir.join(name).exists());
        if log.exists() && !is_finished {
            return read_log(&log);
        }
        let file = self.sample_file()?;
        let rows = match file {
            Some(file) => file.load(cell, tenant)?,
            None => Vec::new(),
        };
        // The warnings name the rows that a torn file lost.
        let is_torn = file.is_some_and(SampleFile::is_torn);
        if rows.is_empty() && !is_torn && !self.logged_nothing(cell, tenant) {
            return Err(self.no_samples(cell, tenant));
        }
        Ok(rows)
    }

    /// The latencies of one tenant in one cell: from `latencies.hlog`, or without that file from
    /// the samples.
    pub fn latencies(&self, cell: &str, tenant: &str) -> Result<Latencies, StoreError> {
        let path = self.dir.join(LATENCIES_FILE);
        if path.exists() {
            return self.latency_file(|| LatencyFile::open(&path))?.load(cell, tenant);
        }
        let samples = self.dir.join(SAMPLES_FILE);
        if log_path(&self.dir, cell, tenant)?.exists() || !samples.exists() {
            let rows = self.samples(cell, tenant)?;
            return Latencies::of(&rows).map_err(|error| latencies::unusable(&path, &error));
        }
        let file = self.latency_file(|| LatencyFile::of_samples(&samples))?;
        if !file.has(cell, tenant) && !self.logged_nothing(cell, tenant) {
            return Err(self.no_samples(cell, tenant));
        }
        file.load(cell, tenant)
    }

    fn latency_file(
        &self,
        open: impl FnOnce() -> Result<LatencyFile, StoreError>,
    ) -> Result<&LatencyFile, StoreError> {
        if let Some(file) = self.latencies.get() {
            return Ok(file);
        }
        let file = open()?;
        Ok(self.latencies.get_or_init(|| file))
    }

    /// The record that its events give, without scores.
    /// Fails when it has none, or they cannot be read.
    pub fn from_events(&self) -> Result<RunRecord, StoreError> {
        Ok(rebuild::rebuild(&self.dir, read_events(&self.dir)?, false)?.0)
    }

    /// What is wrong with the files beside `record.json` whether or not checksums cover them: one
    /// sentence for each.
    pub fn problems_of_side_files(&self) -> Vec<String> {
        let (own, samples) = (self.dir.join(LATENCIES_FILE), self.dir.join(SAMPLES_FILE));
        let mut problems = Vec::new();
        if own.exists() && samples.exists() {
            let found = LatencyFile::open(&own)
                .and_then(|own| own.differences(&LatencyFile::of_samples(&samples)?));
            problems.extend(found.unwrap_or_else(|error| vec![error.to_string()]));
        }
        if samples.exists() {
            let found = sample_file::impossible(&samples);
            problems.extend(found.unwrap_or_else(|error| Some(error.to_string())));
        }
        match self.telemetry() {
            Ok(rows) => problems.extend(telemetry::problems(&self.dir, &self.run.plan, &rows)),
            Err(error) => problems.push(error.to_string()),
        }
        problems
    }

    fn no_samples(&self, cell: &str, tenant: &str) -> StoreError {
        StoreError::NoSamples {
            dir: self.dir.clone(),
            cell: cell.to_owned(),
            tenant: tenant.to_owned(),
        }
    }

    /// Whether the folder holds samples or latencies.
    pub fn has_latencies(&self) -> bool {
        let names = [LATENCIES_FILE, SAMPLES_FILE, CELLS_FOLDER];
        names.iter().any(|name| self.dir.join(name).exists())
    }

    /// The telemetry: from its log if that exists, else from Parquet; empty without either.
    pub fn telemetry(&self) -> Result<Vec<TelemetryRow>, StoreError> {
        telemetry::of_folder(&self.dir)
    }

    /// As [`Self::telemetry`], the values of these metrics alone: less is read.
    /// Fails as [`Self::telemetry`].
    pub fn readings(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Reading>, StoreError> {
        telemetry::readings(&self.dir, is_wanted)
    }

    /// Whether the record lists the tenant with no row, as an idle tenant has.
    fn logged_nothing(&self, cell: &str, tenant: &str) -> bool {
        if self.without_rows.contains(&(cell.to_owned(), tenant.to_owned())) {
            return true;
        }
        let mut cells = self.run.cells.iter().filter(|one| one.cell.id == cell);
        cells.any(|cell| {
            let mut results = cell.tenant_results.iter();
            results.any(|one| one.planned.tenant == tenant && one.rows == 0)
        })
    }

    fn sample_file(&self) -> Result<Option<&SampleFile>, StoreError> {
        let path = self.dir.join(SAMPLES_FILE);
        if !path.exists() {
            return Ok(None);
        }
        if let Some(file) = self.samples.get() {
            return Ok(Some(file));
        }
        let file = SampleFile::open(&path)?;
        Ok(Some(self.samples.get_or_init(|| file)))
    }
}
