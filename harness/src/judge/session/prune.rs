//! Removing old nights: which records go, and which stay for what reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gpubench_compare::Session;
use gpubench_reports::store::{
    CELLS_FOLDER, CHECKSUMS_FILE, EVENTS_FILE, LATENCIES_FILE, RECORD_FILE, SAMPLES_FILE,
    TELEMETRY_FILE, TELEMETRY_LOG_FILE,
};

use super::pins::pins;
use super::{index, night_means};
use crate::error::ExpectedError;
use crate::run::rfc3339;

/// The files of a record, `record.json` last: until it goes, the record is one.
const FILES: [&str; 8] = [
    "report.html",
    SAMPLES_FILE,
    LATENCIES_FILE,
    TELEMETRY_LOG_FILE,
    TELEMETRY_FILE,
    CHECKSUMS_FILE,
    EVENTS_FILE,
    RECORD_FILE,
];

/// Which nights stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// The last so many of each GPU.
    Last(usize),
    /// Those that began at this time or later.
    Since(String),
}

/// What pruning does.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pruning {
    /// Records that go, the oldest first, with the time at which each began.
    pub remove: Vec<(PathBuf, String)>,
    /// Old records that stay, with the reason; one line each.
    pub stay: Vec<String>,
}

/// Decides which records of the folder go. Pinned, unfinished and unreadable ones stay.
///
/// # Errors
/// When the folder or the list of baselines cannot be read.
pub fn pruning(folder: &Path, keep: &Keep) -> Result<Pruning, ExpectedError> {
    let pins = pins(folder)?;
    let pinned: BTreeSet<&str> =
        pins.values().flat_map(|pin| pin.records.iter().map(String::as_str)).collect();
    let found = night_means(&[folder.to_owned()], |_| false)?;
    let mut pruning = Pruning { remove: Vec::new(), stay: found.left_out };
    for session in old(&found.sessions, keep) {
        let path = PathBuf::from(&session.name);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_timed = rfc3339(&session.started_at).is_ok();
        let why = if !is_timed {
            "its record has no valid time of its start (provenance.started_at)"
        } else if pinned.contains(&*name) {
            "a pinned baseline has it"
        } else if !path.join(RECORD_FILE).is_file() {
            "its run is not finished"
        } else if path.is_symlink() {
            "it is a link"
        } else {
            pruning.remove.push((path, session.started_at.clone()));
            continue;
        };
        pruning.stay.push(format!("{}: {why}", session.name));
    }
    Ok(pruning)
}

/// Sessions that are not to keep.
fn old<'a>(sessions: &'a [Session], keep: &Keep) -> Vec<&'a Session> {
    match keep {
        Keep::Since(time) => {
            let old = sessions.iter();
            old.filter(|session| session.started_at < *time).collect()
        }
        Keep::Last(count) => {
            let mut kept: BTreeMap<Option<&String>, usize> = BTreeMap::new();
            let mut old: Vec<&Session> = sessions
                .iter()
                .rev()
                .filter(|session| {
                    let of_gpu = kept.entry(session.facts.get("uuid")).or_insert(0);
                    *of_gpu += 1;
                    *of_gpu > *count
                })
                .collect();
            old.reverse();
            old
        }
    }
}

/// Removes a record: the files of a record, and its folder if nothing else is in it. Returns
/// whether the folder is gone.
///
/// # Errors
/// When a file cannot be removed.
pub fn remove(record: &Path) -> Result<bool, ExpectedError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| ExpectedError::from_write(&path, error)
    };
    let cells = record.join(CELLS_FOLDER);
    if cells.is_dir() {
        std::fs::remove_dir_all(&cells).map_err(failed(&cells))?;
    }
    for name in FILES {
        let path = record.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(&path)(error));
            }
            _ => {}
        }
    }
    index::forget(record);
    match std::fs::remove_dir(record) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(failed(record)(error)),
    }
}
