//! The end of a record's logs: samples and telemetry into Parquet, compared, and only then cleared.
//!
//! The steps can be broken off anywhere and begun again. While `cells/` is there it is whole and
//! the Parquet file is made from it anew; it is renamed before it is deleted, so that half of it
//! is never taken for all of it. What cannot be read is set aside, never deleted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpubench_record::{Plan, RunEvent, TelemetryRow};

use super::checksums;
use super::error::StoreError;
use super::events::{lock_events, read_events};
use super::json_lines::{parse, read_bytes};
use super::replace::sync_folder_of;
use super::sample_columns::StretchKey;
use super::sample_log::SampleLog;
use super::samples::{StoredLog, write_samples};
use super::telemetry::write_telemetry;
use super::{CELLS_FOLDER, SAMPLES_FILE, TELEMETRY_FILE, TELEMETRY_LOG_FILE, log_path};

/// `cells/` under its last name, once its rows are stored.
const STORED_FOLDER: &str = "cells.stored";
/// Where files go that could not be stored.
const ASIDE_FOLDER: &str = "unreadable";

/// What [`finish`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Finished {
    /// Rows now in `samples.parquet`, if it was written; absent if it stood there already.
    pub sample_rows: Option<u64>,
    /// Rows now in `telemetry.parquet`, if it was written; absent if it stood there already.
    pub telemetry_rows: Option<u64>,
    /// What the reader should know: logs that are unreadable, missing or shorter than reported.
    pub warnings: Vec<String>,
}

/// Turns the logs of the record in `dir` into `samples.parquet` and `telemetry.parquet`, compares
/// these with the logs row by row, and then removes the logs. Does what is left to do: a second
/// call, or one after a crash, is fine.
///
/// # Errors
/// When a run still writes the record, when its events cannot be read, or when a file cannot be
/// written or does not read back. Whatever was not stored is still there.
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
    let reported = reported_rows(events);
    let rows = reported.values().sum();
    if !cells.exists() && rows > 0 {
        return Err(StoreError::SamplesLost {
            dir: dir.to_path_buf(),
            rows,
        });
    }
    let Some(plan) = plan_of(events) else {
        return Err(StoreError::NoRecord {
            dir: dir.to_path_buf(),
        });
    };
    let (logs, aside) = sort_logs(dir, plan, &reported, &mut done.warnings)?;
    done.sample_rows = Some(write_samples(&samples, &logs)?);
    checksums::note(dir, SAMPLES_FILE)?;
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
                "the last telemetry reading (line {line}) was torn off"
            ));
        }
        rows = lines.values;
    }
    write_telemetry(&target, &rows)?;
    checksums::note(dir, TELEMETRY_FILE)?;
    if log.exists() {
        std::fs::remove_file(&log).map_err(StoreError::io("remove", &log))?;
    }
    done.telemetry_rows = Some(rows.len() as u64);
    Ok(())
}

fn plan_of(events: &[RunEvent]) -> Option<&Plan> {
    match events.first() {
        Some(RunEvent::Began { plan, .. }) => Some(plan),
        _ => None,
    }
}

/// What the tenants said that they had logged, by cell and tenant.
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

/// The logs that can be read, in plan order, and the files that cannot be stored.
fn sort_logs(
    dir: &Path,
    plan: &Plan,
    reported: &BTreeMap<(&str, &str), u64>,
    warnings: &mut Vec<String>,
) -> Result<(Vec<StoredLog>, Vec<PathBuf>), StoreError> {
    let mut logs = Vec::new();
    let mut aside = Vec::new();
    let mut found = files_below(&dir.join(CELLS_FOLDER))?;
    let cells = plan.cells.iter();
    let cells = cells.map(|cell| (cell.block, &cell.id, &cell.tenants));
    // After the last block, so that a reader who groups by block finds no trial in one.
    let trials = plan.fault_trials.iter();
    let trials = trials.map(|trial| (plan.blocks, &trial.id, &trial.tenants));
    for (block, id, tenants) in cells.chain(trials) {
        for tenant in tenants {
            let name = &tenant.tenant;
            let path = log_path(dir, id, name)?;
            let said = reported
                .get(&(id.as_str(), name.as_str()))
                .copied()
                .unwrap_or(0);
            let whose = format!("{name} in cell {id}");
            if !path.exists() {
                if said > 0 {
                    warnings.push(format!("the log of {whose} is gone, with its {said} rows"));
                }
                continue;
            }
            match readable_rows(&path) {
                Ok(rows) => {
                    if rows < said {
                        warnings.push(format!("the log of {whose} has {rows} of {said} rows"));
                    }
                    found.retain(|file| *file != path);
                    let key = StretchKey {
                        session: 0,
                        block,
                        cell: id.clone(),
                        tenant: name.clone(),
                    };
                    logs.push(StoredLog { key, path });
                }
                Err(error) => {
                    warnings.push(format!("{error}; set aside in {ASIDE_FOLDER}/"));
                    found.retain(|file| *file != path);
                    aside.push(path);
                }
            }
        }
    }
    for stray in found {
        let stray_name = stray.display();
        warnings.push(format!(
            "{stray_name} is no planned log; set aside in {ASIDE_FOLDER}/"
        ));
        aside.push(stray);
    }
    Ok((logs, aside))
}

/// Reads a log to its end, and says how many rows it has.
fn readable_rows(path: &Path) -> Result<u64, StoreError> {
    let mut log = SampleLog::open(path)?;
    loop {
        let rows = log.next_rows(1 << 16).map_err(|source| StoreError::Log {
            path: path.to_path_buf(),
            source,
        })?;
        if rows.is_empty() {
            return Ok(log.committed());
        }
    }
}

/// Every file below a folder, sorted; none if the folder is not there.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        if !folder.exists() {
            continue;
        }
        let failed = || StoreError::io("list", &folder);
        for entry in std::fs::read_dir(&folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            if entry.file_type().map_err(failed())?.is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Moves a file from `cells/` to the folder for what could not be stored.
fn set_aside(dir: &Path, path: &Path) -> Result<(), StoreError> {
    let below = path.strip_prefix(dir.join(CELLS_FOLDER)).unwrap_or(path);
    let target = dir.join(ASIDE_FOLDER).join(below);
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    }
    std::fs::rename(path, &target).map_err(StoreError::io("set aside", path))
}

fn remove_stored(dir: &Path) -> Result<(), StoreError> {
    let stored = dir.join(STORED_FOLDER);
    if stored.exists() {
        std::fs::remove_dir_all(&stored).map_err(StoreError::io("remove", &stored))?;
    }
    Ok(())
}
