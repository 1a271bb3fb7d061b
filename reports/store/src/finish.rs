//! Converts the logs of a run to Parquet and a latency log, compares them, and removes the logs.
//!
//! The steps can be interrupted anywhere and repeated. While `cells/` exists it is complete, and
//! the files are made from it again. It is renamed before it is deleted, so that a half-deleted
//! folder is never read as a complete one. An unreadable log is moved aside and never deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use gpubench_record::sample::{
    CAPACITY_OFFSET, COMMITTED_OFFSET, HEADER_BYTES, LOG_MAGIC, ROW_BYTES,
};
use gpubench_record::{Json, Plan, RunEvent, SampleRow, TelemetryRow};

use super::checksums::{CHECKSUMS_FILE, SIGNATURE_FILE};
use super::error::StoreError;
use super::files::{files_below, replace, sync_folder_of};
use super::json_lines::{lock_events, parse, read_bytes, read_events};
use super::latencies::write_latencies;
use super::sample_file::{SampleLog, read_log};
use super::samples::{SegmentKey, StoredLog, write_samples};
use super::telemetry::write_telemetry;
use super::{
    CELLS_FOLDER, LATENCIES_FILE, LOG_EXTENSION, PAGE_FILE, RECORD_FILE, SAMPLES_FILE, SampleFile,
    TELEMETRY_FILE, TELEMETRY_LOG_FILE, checksums, log_path, read_telemetry,
};

/// New name of `cells/` once its rows are stored, until it is deleted.
const STORED_FOLDER: &str = "cells.stored";
/// Folder for logs that cannot be stored.
const ASIDE_FOLDER: &str = "unreadable";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Finished {
    /// Rows in `samples.parquet`; absent if the file existed before.
    pub sample_rows: Option<u64>,
    /// Rows in `telemetry.parquet`; absent if the file existed before.
    pub telemetry_rows: Option<u64>,
    /// Logs that are unreadable, missing or shorter than reported.
    pub warnings: Vec<String>,
}

/// Converts the logs of the record in `dir` to `samples.parquet`, `latencies.hlog` and
/// `telemetry.parquet`, compares these with the logs, and then removes the logs. A repeated call
/// does the steps that are left.
/// Fails when a run still writes the record, when its events cannot be read, or when a file cannot
/// be written or does not read back. The logs then stay.
pub fn finish(dir: &Path) -> Result<Finished, StoreError> {
    let _lock = lock_events(dir)?;
    let events = read_events(dir)?.events;
    let mut done = Finished::default();
    remove_stored(dir)?;
    finish_samples(dir, &events, &mut done)?;
    finish_telemetry(dir, &mut done)?;
    Ok(done)
}

fn finish_samples(dir: &Path, events: &[RunEvent], done: &mut Finished) -> Result<(), StoreError> {
    let cells = dir.join(CELLS_FOLDER);
    let samples = dir.join(SAMPLES_FILE);
    if !cells.exists() && samples.exists() {
        return Ok(());
    }
    let rows = reported_rows(events).values().sum();
    if !cells.exists() && rows > 0 {
        return Err(StoreError::SamplesLost { dir: dir.to_path_buf(), rows });
    }
    let Some(plan) = plan_of(events) else {
        return Err(StoreError::NoRecord { dir: dir.to_path_buf() });
    };
    let (logs, aside) = sort_logs(dir, &plan, events, &mut done.warnings)?;
    done.sample_rows = Some(write_samples(&samples, &logs)?);
    write_latencies(&dir.join(LATENCIES_FILE), &logs)?;
    checksums::store(dir, SAMPLES_FILE)?;
    checksums::store(dir, LATENCIES_FILE)?;
    for path in aside {
        set_aside(dir, &path)?;
    }
    if cells.exists() {
        let stored = dir.join(STORED_FOLDER);
        std::fs::rename(&cells, &stored).map_err(StoreError::io("rename", &cells))?;
        sync_folder_of(&cells)?;
        remove_stored(dir)?;
    }
    Ok(())
}

fn finish_telemetry(dir: &Path, done: &mut Finished) -> Result<(), StoreError> {
    let log = dir.join(TELEMETRY_LOG_FILE);
    let target = dir.join(TELEMETRY_FILE);
    if !log.exists() && target.exists() {
        return Ok(());
    }
    let mut rows = Vec::new();
    if log.exists() {
        let lines = parse::<TelemetryRow>(&log, &read_bytes(&log)?)?;
        if let Some(line) = lines.torn_line {
            done.warnings.push(format!(
                "the last telemetry reading (line {line}) is incomplete and is left out"
            ));
        }
        rows = lines.values;
    }
    write_telemetry(&target, &rows)?;
    checksums::store(dir, TELEMETRY_FILE)?;
    if log.exists() {
        std::fs::remove_file(&log).map_err(StoreError::io("remove", &log))?;
    }
    done.telemetry_rows = Some(rows.len() as u64);
    Ok(())
}

/// The plan with the cells that undecided rows got, and as interruptions left it. `None` for events
/// without a plan.
pub fn plan_of(events: &[RunEvent]) -> Option<Plan> {
    let Some(RunEvent::Began { plan, .. }) = events.first() else { return None };
    let mut plan = (**plan).clone();
    for event in events {
        match event {
            RunEvent::ToppedUp { top_up, cells } => plan.extend(top_up.clone(), cells.clone()),
            RunEvent::Resumed { left, .. } => plan.resume(left),
            _ => {}
        }
    }
    Some(plan)
}

/// The start of the run in which each cell and fault trial began, from 0.
fn sessions(events: &[RunEvent]) -> BTreeMap<&str, u32> {
    let mut session = 0;
    let mut found = BTreeMap::new();
    for event in events {
        match event {
            RunEvent::Resumed { .. } => session += 1,
            RunEvent::CellBegan { id } | RunEvent::FaultTrialBegan { id } => {
                found.insert(id.as_str(), session);
            }
            _ => {}
        }
    }
    found
}

fn reported_rows(events: &[RunEvent]) -> BTreeMap<(&str, &str), u64> {
    let mut reported = BTreeMap::new();
    for event in events {
        if let RunEvent::CellEnded { id, tenants, .. } = event {
            for tenant in tenants {
                reported.insert((id.as_str(), tenant.planned.tenant.as_str()), tenant.rows);
            }
        }
    }
    reported
}

/// The readable logs, in plan order, and the files that cannot be stored.
fn sort_logs(
    dir: &Path,
    plan: &Plan,
    events: &[RunEvent],
    warnings: &mut Vec<String>,
) -> Result<(Vec<StoredLog>, Vec<PathBuf>), StoreError> {
    let (reported, sessions) = (reported_rows(events), sessions(events));
    let mut logs = Vec::new();
    let mut aside = Vec::new();
    let mut found: BTreeSet<PathBuf> = files_below(&dir.join(CELLS_FOLDER))?.into_iter().collect();
    let cells = plan.all_cells();
    let cells = cells.map(|cell| (cell.block, &cell.id, &cell.tenants));
    // Trials get the block after the last, so that no block of cells contains one.
    let trials = plan.all_fault_trials();
    let last = plan.cells.iter().map(|cell| cell.block + 1).max();
    let after = last.unwrap_or(plan.blocks);
    let trials = trials.map(|trial| (after, &trial.id, &trial.tenants));
    for (block, id, tenants) in cells.chain(trials) {
        for tenant in tenants {
            let name = &tenant.tenant;
            let path = log_path(dir, id, name)?;
            let expected = reported.get(&(id.as_str(), name.as_str())).copied().unwrap_or(0);
            let log_name = format!("the log of {name} in cell {id}");
            if !path.exists() {
                if expected > 0 {
                    warnings.push(format!("{log_name} is missing, with {expected} rows"));
                }
                continue;
            }
            match readable_rows(&path) {
                Ok(log) => {
                    let rows = log.committed();
                    warnings.extend(log.loss(&log_name));
                    if rows < expected && log.lost() == 0 {
                        warnings.push(format!("{log_name} has {rows} of {expected} rows"));
                    }
                    found.remove(&path);
                    let key = SegmentKey {
                        session: sessions.get(id.as_str()).copied().unwrap_or(0),
                        block,
                        cell: id.clone(),
                        tenant: name.clone(),
                    };
                    logs.push(StoredLog { key, path });
                }
                Err(error) => {
                    warnings.push(format!("{error}; moved to {ASIDE_FOLDER}/"));
                    found.remove(&path);
                    aside.push(path);
                }
            }
        }
    }
    for stray in found {
        let stray_name = stray.display();
        warnings.push(format!("{stray_name} is no planned log; moved to {ASIDE_FOLDER}/"));
        aside.push(stray);
    }
    Ok((logs, aside))
}

/// Reads a log to its end, so that each of its rows is known to be readable.
fn readable_rows(path: &Path) -> Result<SampleLog<BufReader<File>>, StoreError> {
    let mut log = SampleLog::open(path)?;
    loop {
        let rows = log
            .next_rows(1 << 16)
            .map_err(|source| StoreError::Log { path: path.to_path_buf(), source })?;
        if rows.is_empty() {
            return Ok(log);
        }
    }
}

/// Moves a file from `cells/` to [`ASIDE_FOLDER`].
fn set_aside(dir: &Path, path: &Path) -> Result<(), StoreError> {
    let below = path.strip_prefix(dir.join(CELLS_FOLDER)).unwrap_or(path);
    let target = dir.join(ASIDE_FOLDER).join(below);
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    }
    std::fs::rename(path, &target).map_err(StoreError::io("move", path))
}

pub(super) fn remove_stored(dir: &Path) -> Result<(), StoreError> {
    let stored = dir.join(STORED_FOLDER);
    if stored.exists() {
        std::fs::remove_dir_all(&stored).map_err(StoreError::io("remove", &stored))?;
    }
    Ok(())
}

// Turns the folder of an ended run back into that of a run: its samples and telemetry into logs,
// so that a later start of the run appends to them.
//
// The steps can be interrupted anywhere and repeated. Logs are complete before they have their
// name, and a file is removed only once its rows are in logs.

/// The logs until all of them are written.
const PART_FOLDER: &str = "cells.part";

/// Turns `samples.parquet` and `telemetry.parquet` of the record in `dir` into logs, and removes
/// what the end of the run made. The folder of a run that crashed stays as it is.
/// Fails when a run still writes the record, or a file is damaged or cannot be written. Nothing is
/// removed then.
pub fn reopen(dir: &Path) -> Result<(), StoreError> {
    let _lock = lock_events(dir)?;
    remove_stored(dir)?;
    let samples = dir.join(SAMPLES_FILE);
    let cells = dir.join(CELLS_FOLDER);
    if samples.exists() && !cells.exists() {
        write_logs(dir, &SampleFile::open(&samples)?, &cells)?;
    }
    let (telemetry, log) = (dir.join(TELEMETRY_FILE), dir.join(TELEMETRY_LOG_FILE));
    if telemetry.exists() && !log.exists() {
        write_readings(&telemetry, &log)?;
    }
    // The checksums first, so that no file is missed that they list.
    for name in [
        SIGNATURE_FILE,
        CHECKSUMS_FILE,
        RECORD_FILE,
        PAGE_FILE,
        LATENCIES_FILE,
        SAMPLES_FILE,
        TELEMETRY_FILE,
    ] {
        let path = dir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes a log for each segment, reads it back, and gives the folder its name.
fn write_logs(dir: &Path, file: &SampleFile, cells: &Path) -> Result<(), StoreError> {
    let part = dir.join(PART_FOLDER);
    if part.exists() {
        std::fs::remove_dir_all(&part).map_err(StoreError::io("remove", &part))?;
    }
    if file.is_torn() {
        return Err(StoreError::Damaged { path: dir.join(SAMPLES_FILE) });
    }
    std::fs::create_dir(&part).map_err(StoreError::io("create", &part))?;
    for segment in file.segments() {
        let (cell, tenant) = (&segment.key.cell, &segment.key.tenant);
        // It refuses names that lead out of the folder.
        log_path(dir, cell, tenant)?;
        let folder = part.join(cell);
        std::fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
        let path = folder.join(format!("{tenant}.{LOG_EXTENSION}"));
        let rows = file.load(cell, tenant)?;
        write_log(&path, &rows).map_err(StoreError::io("write", &path))?;
        if read_log(&path)? != rows {
            return Err(differs(&path));
        }
    }
    std::fs::rename(&part, cells).map_err(StoreError::io("rename", &part))?;
    sync_folder_of(cells)
}

/// Writes rows as the log of a tenant that committed all of them.
fn write_log(path: &Path, rows: &[SampleRow]) -> std::io::Result<()> {
    let count = (rows.len() as u64).to_le_bytes();
    let mut header = [0_u8; HEADER_BYTES];
    header[..LOG_MAGIC.len()].copy_from_slice(&LOG_MAGIC);
    for at in [CAPACITY_OFFSET, COMMITTED_OFFSET] {
        header[at..at + count.len()].copy_from_slice(&count);
    }
    let mut file = BufWriter::with_capacity(1024 * ROW_BYTES, File::create(path)?);
    file.write_all(&header)?;
    for row in rows {
        file.write_all(&row.to_bytes())?;
    }
    file.into_inner()?.sync_all()
}

fn write_readings(from: &Path, log: &Path) -> Result<(), StoreError> {
    let readings = read_telemetry(from)?;
    let mut text = Vec::new();
    for reading in &readings {
        text.extend(reading.to_json().map_err(|_| differs(log))?.into_bytes());
        text.push(b'\n');
    }
    replace(
        log,
        |mut file, part| file.write_all(&text).map_err(StoreError::io("write", part)),
        |part| {
            let read = parse::<TelemetryRow>(part, &read_bytes(part)?)?;
            if read.values == readings {
                return Ok(());
            }
            Err(differs(part))
        },
    )
}

fn differs(path: &Path) -> StoreError {
    StoreError::Differs {
        path: PathBuf::from(path),
        reason: "the rows are not those of the Parquet file".to_owned(),
    }
}
