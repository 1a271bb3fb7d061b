//! `events.jsonl` and `telemetry.jsonl`: written during a run, read after it ended or crashed.

use std::fs::{File, TryLockError};
use std::path::Path;

use gpubench_record::{FormatVersion, RunEvent, TelemetryRow};

use super::error::StoreError;
use super::json_lines::{JsonLines, parse, read_bytes};
use super::{EVENTS_FILE, RECORD_FILE, TELEMETRY_LOG_FILE, regular};

/// The events of a run being written. A lock on the file shows that the run is alive, so that no
/// other process finishes the record as that of a crashed run.
#[derive(Debug)]
pub struct EventLog {
    lines: JsonLines<RunEvent>,
    _lock: EventLock,
}

impl EventLog {
    /// Begins a record in `dir`, which is created if it does not exist.
    ///
    /// # Errors
    /// When `dir` already holds a record, or cannot be written.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
        let path = dir.join(EVENTS_FILE);
        for name in [RECORD_FILE, EVENTS_FILE] {
            if dir.join(name).symlink_metadata().is_ok() {
                return Err(StoreError::Occupied { dir: dir.to_path_buf() });
            }
        }
        let lines = JsonLines::create(&path)?;
        let lock = EventLock::take(lines.second_handle()?, dir)?;
        Ok(Self { lines, _lock: lock })
    }

    /// Goes on with the events of the interrupted run in `dir`. An event that the interruption cut
    /// is removed.
    ///
    /// # Errors
    /// When a run still writes them, or they cannot be read or written.
    pub fn reopen(dir: &Path) -> Result<Self, StoreError> {
        // Locked first: the last line of a live run may be half written.
        let path = dir.join(EVENTS_FILE);
        let lock = EventLock::take(regular::open(&path)?, dir)?;
        let lines = JsonLines::reopen(&path)?;
        Ok(Self { lines, _lock: lock })
    }

    /// Appends one event. It is written to the system when this returns.
    ///
    /// # Errors
    /// When it cannot be written (the file then ends with the event before it), or does not parse
    /// back.
    pub fn append(&mut self, event: &RunEvent) -> Result<(), StoreError> {
        self.lines.append("an event", event)
    }

    /// Syncs the file to disk and releases the lock.
    pub fn close(self) -> Result<(), StoreError> {
        self.lines.sync()
    }
}

/// The telemetry of a run being written.
#[derive(Debug)]
pub struct TelemetryLog {
    lines: JsonLines<TelemetryRow>,
}

impl TelemetryLog {
    /// Begins the telemetry of the record in `dir`.
    ///
    /// # Errors
    /// When it already exists, or cannot be written.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        Ok(Self { lines: JsonLines::create(&dir.join(TELEMETRY_LOG_FILE))? })
    }

    /// Goes on with the telemetry of the interrupted run in `dir`.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn reopen(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(TELEMETRY_LOG_FILE);
        if !path.exists() {
            return Self::create(dir);
        }
        Ok(Self { lines: JsonLines::reopen(&path)? })
    }

    /// Appends one reading. It is written to the system when this returns.
    ///
    /// # Errors
    /// When it cannot be written, or its value is not finite.
    pub fn append(&mut self, row: &TelemetryRow) -> Result<(), StoreError> {
        self.lines.append("a reading", row)
    }

    /// Syncs the file to disk.
    pub fn close(self) -> Result<(), StoreError> {
        self.lines.sync()
    }
}

/// The events of a run, as far as they can be read.
#[derive(Debug)]
pub struct Events {
    /// In the order of their writing; the first is `Began`.
    pub events: Vec<RunEvent>,
    /// Warnings about the file.
    pub warnings: Vec<String>,
}

/// Reads the events of the record in `dir`.
///
/// # Errors
/// When the file cannot be read, is of another version, does not begin with `Began`, or has
/// an unreadable line before its last.
pub fn read_events(dir: &Path) -> Result<Events, StoreError> {
    let path = dir.join(EVENTS_FILE);
    parse_events(&path, &read_bytes(&path)?)
}

/// [`read_events`] for bytes already read from `path`.
pub fn parse_events(path: &Path, bytes: &[u8]) -> Result<Events, StoreError> {
    check_version(path, bytes)?;
    let lines = parse::<RunEvent>(path, bytes)?;
    let mut warnings = Vec::new();
    if let Some(line) = lines.torn_line {
        warnings.push(format!("the last event (line {line}) is incomplete and is left out"));
    }
    if !matches!(lines.values.first(), Some(RunEvent::Began { .. })) {
        return Err(StoreError::line(path, 1, "the first event must be \"began\", with the plan"));
    }
    let second = lines.values.iter().skip(1).position(|e| matches!(e, RunEvent::Began { .. }));
    if let Some(index) = second {
        return Err(StoreError::line(path, index + 2, "a second \"began\"; a record has one run"));
    }
    Ok(Events { events: lines.values, warnings })
}

/// Whether a live process still appends to the events in `dir`.
pub(super) fn is_being_written(dir: &Path) -> bool {
    let file = regular::open_regular(&dir.join(EVENTS_FILE));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Locks the events in `dir`: until the lock drops, no other process can finish the record.
pub(super) fn lock_events(dir: &Path) -> Result<EventLock, StoreError> {
    let path = dir.join(EVENTS_FILE);
    let file = regular::open(&path)?;
    EventLock::take(file, dir)
}

/// The lock on the events of a record.
#[derive(Debug)]
pub(super) struct EventLock(File);

impl EventLock {
    fn take(file: File, dir: &Path) -> Result<Self, StoreError> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse { dir: dir.to_path_buf() }),
            // Some network file systems have no locks; a record there is written without one.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self(file)),
        }
    }
}

impl Drop for EventLock {
    fn drop(&mut self) {
        // Closing alone is not enough: a child that has forked but not yet called exec still holds
        // a copy of the descriptor. If unlocking fails, only closing is left.
        let _ = self.0.unlock();
    }
}

/// Checks the version first: the events of an unknown version may not parse.
fn check_version(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let first = bytes.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
    let version = serde_json::from_slice::<serde_json::Value>(first)
        .ok()
        .and_then(|mut value| value.get_mut("format_version").map(serde_json::Value::take))
        .and_then(|value| serde_json::from_value::<FormatVersion>(value).ok());
    match version.map(FormatVersion::check_current) {
        Some(Err(source)) => Err(StoreError::Version { path: path.to_path_buf(), source }),
        Some(Ok(())) => Ok(()),
        None => Err(StoreError::line(
            path,
            1,
            "the first event has no format_version, so the file has no plan",
        )),
    }
}
