//! Converts the logs of a run to Parquet and a latency log, compares them, and removes the logs.
//!
//! The steps can be interrupted anywhere and repeated. While `cells/` exists it is complete, and
//! the files are made from it again. It is renamed before it is deleted, so that a half-deleted
//! folder is never read as a complete one. An unreadable log is moved aside and never deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use gpubench_record::{Plan, RunEvent, TelemetryRow};

use super::checksums;
use super::error::StoreError;
use super::events::{lock_events, read_events};
use super::folder::files_below;
use super::json_lines::{parse, read_bytes};
use super::latencies::write_latencies;
use super::replace::sync_folder_of;
use super::sample_columns::SegmentKey;
use super::sample_log::SampleLog;
use super::samples::{StoredLog, write_samples};
use super::telemetry::write_telemetry;
use super::{
    CELLS_FOLDER, LATENCIES_FILE, SAMPLES_FILE, TELEMETRY_FILE, TELEMETRY_LOG_FILE, log_path,
};

/// New name of `cells/` once its rows are stored, until it is deleted.
const STORED_FOLDER: &str = "cells.stored";
/// Folder for logs that cannot be stored.
const ASIDE_FOLDER: &str = "unreadable";

/// What [`finish`] did.
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
///
/// # Errors
/// When a run still writes the record, when its events cannot be read, or when a file cannot be
/// written or does not read back. The logs then stay.
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
#[must_use]
pub fn plan_of(events: &[RunEvent]) -> Option<Plan> {
    let Some(RunEvent::Began { plan, .. }) = events.first() else {
        return None;
    };
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

/// The rows that each tenant reported, by cell and tenant.
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
