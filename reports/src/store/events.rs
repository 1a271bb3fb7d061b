//! `events.jsonl` and `telemetry.jsonl`: written as a run goes, read after its end or its death.

use std::fs::{File, TryLockError};
use std::path::Path;

use gpubench_record::{FormatVersion, RunEvent, TelemetryRow};

use super::error::StoreError;
use super::json_lines::{JsonLines, parse, parse_upgraded, read_bytes};
use super::{EVENTS_FILE, RECORD_FILE, TELEMETRY_LOG_FILE, upgrade};

/// The events of a run being written. Holds a lock on them, so that nobody takes a living run for
/// a crashed one and clears its logs away.
#[derive(Debug)]
pub struct EventLog {
    lines: JsonLines<RunEvent>,
    _lock: EventLock,
}

impl EventLog {
    /// Begins a record in `dir`, which is made if it is not there.
    ///
    /// # Errors
    /// When `dir` holds a record already, or cannot be written.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
        let path = dir.join(EVENTS_FILE);
        for name in [RECORD_FILE, EVENTS_FILE] {
            if dir.join(name).symlink_metadata().is_ok() {
                return Err(StoreError::Occupied {
                    dir: dir.to_path_buf(),
                });
            }
        }
        let lines = JsonLines::create(&path)?;
        let lock = EventLock::take(lines.second_handle()?, dir)?;
        Ok(Self { lines, _lock: lock })
    }

    /// Appends one event; it has reached the system when this returns.
    ///
    /// # Errors
    /// When it cannot be written (the file then ends with the event before it), or could not be
    /// read again.
    pub fn append(&mut self, event: &RunEvent) -> Result<(), StoreError> {
        self.lines.append("an event", event)
    }

    /// Ends the file: waits until it is on the disk, and gives up the lock.
    ///
    /// # Errors
    /// When the system cannot say that it is on the disk.
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
    /// When it is there already, or cannot be written.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            lines: JsonLines::create(&dir.join(TELEMETRY_LOG_FILE))?,
        })
    }

    /// Appends one reading; it has reached the system when this returns.
    ///
    /// # Errors
    /// When it cannot be written, or its value is not finite.
    pub fn append(&mut self, row: &TelemetryRow) -> Result<(), StoreError> {
        self.lines.append("a reading", row)
    }

    /// Ends the file: waits until it is on the disk.
    ///
    /// # Errors
    /// When the system cannot say that it is on the disk.
    pub fn close(self) -> Result<(), StoreError> {
        self.lines.sync()
    }
}

/// The events of a run, as far as they can be read.
#[derive(Debug)]
pub struct Events {
    /// In the order in which they happened; the first is `Began`.
    pub events: Vec<RunEvent>,
    /// What the reader should know about the file.
    pub warnings: Vec<String>,
}

/// Reads the events of the record in `dir`.
///
/// # Errors
/// When the file cannot be read, is of another major version, does not begin with `Began`, or has
/// an unreadable line before its last.
pub fn read_events(dir: &Path) -> Result<Events, StoreError> {
    let path = dir.join(EVENTS_FILE);
    parse_events(&path, &read_bytes(&path)?)
}

/// [`read_events`] for bytes already read from `path`.
///
/// # Errors
/// As there.
pub fn parse_events(path: &Path, bytes: &[u8]) -> Result<Events, StoreError> {
    let version = check_version(path, bytes)?;
    let lines = if upgrade::is_needed(version) {
        parse_upgraded(path, bytes, upgrade::event)?
    } else {
        parse::<RunEvent>(path, bytes)?
    };
    let mut warnings = Vec::new();
    if let Some(line) = lines.torn_line {
        warnings.push(format!(
            "the last event (line {line}) was torn off while it was written and is left out"
        ));
    }
    if !matches!(lines.values.first(), Some(RunEvent::Began { .. })) {
        return Err(StoreError::line(
            path,
            1,
            "the first event must be \"began\", with the plan",
        ));
    }
    let second = lines
        .values
        .iter()
        .skip(1)
        .position(|e| matches!(e, RunEvent::Began { .. }));
    if let Some(index) = second {
        return Err(StoreError::line(
            path,
            index + 2,
            "a second \"began\"; a record has one run",
        ));
    }
    Ok(Events {
        events: lines.values,
        warnings,
    })
}

/// Whether a living process still appends to the events in `dir`.
pub(super) fn is_being_written(dir: &Path) -> bool {
    let file = File::open(dir.join(EVENTS_FILE));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Keeps others from finishing the record in `dir` for as long as it lives.
pub(super) fn lock_events(dir: &Path) -> Result<EventLock, StoreError> {
    let path = dir.join(EVENTS_FILE);
    let file = File::open(&path).map_err(StoreError::io("read", &path))?;
    EventLock::take(file, dir)
}

/// The lock on the events of a record.
#[derive(Debug)]
pub(super) struct EventLock(File);

impl EventLock {
    fn take(file: File, dir: &Path) -> Result<Self, StoreError> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
                dir: dir.to_path_buf(),
            }),
            // Some network file systems have no locks; a record there is written all the same.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self(file)),
        }
    }
}

impl Drop for EventLock {
    fn drop(&mut self) {
        // Closing is not enough: a process being started at this moment still holds a copy of the
        // file until it has become another program. Where unlocking fails, closing is all there is.
        let _ = self.0.unlock();
    }
}

/// Looks at the version before anything else: another one may not even parse.
fn check_version(path: &Path, bytes: &[u8]) -> Result<FormatVersion, StoreError> {
    let first = bytes
        .split_inclusive(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    let version = serde_json::from_slice::<serde_json::Value>(first)
        .ok()
        .and_then(|mut value| value.get_mut("format_version").map(serde_json::Value::take))
        .and_then(|value| serde_json::from_value::<FormatVersion>(value).ok());
    match version.map(|version| (version, version.check_readable())) {
        Some((_, Err(source))) => Err(StoreError::Version {
            path: path.to_path_buf(),
            source,
        }),
        Some((version, Ok(()))) => Ok(version),
        None => Err(StoreError::line(
            path,
            1,
            "no event with a format_version stands first, so there is no plan to read the rest by",
        )),
    }
}
