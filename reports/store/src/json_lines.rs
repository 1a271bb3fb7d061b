//! Files with one JSON value per line. Lines are appended whole; readers accept a torn last line.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use gpubench_record::{DeviceKind, FormatVersion, Json, RunEvent, TelemetryRow, regular_file};
use serde::Deserialize;

use super::error::{StoreError, without_position};
use super::{EVENTS_FILE, RECORD_FILE, TELEMETRY_LOG_FILE, files};

/// An append-only file of JSON lines. Every line is written to the system before `append` returns.
#[derive(Debug)]
pub(super) struct JsonLines<T> {
    file: File,
    path: PathBuf,
    whole_bytes: u64,
    of: PhantomData<fn(&T)>,
}

impl<T: Json> JsonLines<T> {
    /// Creates the file, which must not exist yet.
    pub(super) fn create(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(StoreError::io("create", path))?;
        Ok(Self { file, path: path.to_path_buf(), whole_bytes: 0, of: PhantomData })
    }

    /// Opens an existing file to append to it. A torn last line is cut off.
    pub(super) fn reopen(path: &Path) -> Result<Self, StoreError> {
        let bytes = read_bytes(path)?;
        let whole_bytes = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = Self {
            file: OpenOptions::new()
                .append(true)
                .open(path)
                .map_err(StoreError::io("open", path))?,
            path: path.to_path_buf(),
            whole_bytes: whole_bytes as u64,
            of: PhantomData,
        };
        let cut = lines.file.set_len(lines.whole_bytes);
        cut.map_err(StoreError::io("shorten", path))?;
        // A line that lacks only its line feed is whole, and is written again with it.
        if let Ok(last) = T::from_json(&bytes[whole_bytes..]) {
            lines.append("the last line", &last)?;
        }
        Ok(lines)
    }

    pub(super) fn second_handle(&self) -> Result<File, StoreError> {
        self.file.try_clone().map_err(StoreError::io("lock", &self.path))
    }

    pub(super) fn append(&mut self, what: &'static str, value: &T) -> Result<(), StoreError> {
        let mut line = self.storable(what, value)?;
        line.push(b'\n');
        if let Err(source) = self.file.write_all(&line) {
            // A full disk may have stored half of the line. It is cut off, so that a later line
            // starts at the beginning of a line.
            self.file.set_len(self.whole_bytes).map_err(StoreError::io("shorten", &self.path))?;
            return Err(StoreError::Io { action: "append to", path: self.path.clone(), source });
        }
        self.whole_bytes += line.len() as u64;
        Ok(())
    }

    /// Waits until everything is on the disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_all().map_err(StoreError::io("sync", &self.path))
    }

    /// The value as JSON. A value that does not parse back is an error: JSON has no infinity and no
    /// NaN, and serde_json writes them as null.
    fn storable(&self, what: &'static str, value: &T) -> Result<Vec<u8>, StoreError> {
        let json = value.to_json();
        let checked = json.and_then(|json| T::from_json(json.as_bytes()).map(|_| json));
        let checked = checked.map(String::into_bytes);
        checked.map_err(|error| StoreError::Unstorable {
            what,
            path: self.path.clone(),
            reason: without_position(&error),
        })
    }
}

/// The lines of a file, and whether its last one was torn off.
#[derive(Debug)]
pub(super) struct Lines<T> {
    pub(super) values: Vec<T>,
    /// Number of the torn last line, from 1, if there is one.
    pub(super) torn_line: Option<usize>,
}

/// Reads the whole file at `path`.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, StoreError> {
    files::read(path)
}

/// Parses JSON lines. An unreadable last line without a line feed is torn: the writer died while it
/// wrote. Any other unreadable line is an error.
pub(super) fn parse<T: Json>(path: &Path, bytes: &[u8]) -> Result<Lines<T>, StoreError> {
    let mut lines = Lines { values: Vec::new(), torn_line: None };
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let whole = line.ends_with(b"\n");
        match T::from_json(line) {
            Ok(value) => lines.values.push(value),
            Err(_) if !whole => lines.torn_line = Some(index + 1),
            Err(error) => return Err(StoreError::line(path, index + 1, without_position(&error))),
        }
    }
    Ok(lines)
}

// `events.jsonl` and `telemetry.jsonl`: written during a run, read after it ended or crashed.

/// The events of a run being written. A lock on the file shows that the run is alive, so that no
/// other process finishes the record as that of a crashed run.
#[derive(Debug)]
pub struct EventLog {
    lines: JsonLines<RunEvent>,
    _lock: EventLock,
}

impl EventLog {
    /// Begins a record in `dir`, which is created if it does not exist.
    /// Fails when `dir` already holds a record, or cannot be written.
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
    /// Fails when a run still writes them, or they cannot be read or written.
    pub fn reopen(dir: &Path) -> Result<Self, StoreError> {
        // Locked first: the last line of a live run may be half written.
        let path = dir.join(EVENTS_FILE);
        let lock = EventLock::take(files::open(&path)?, dir)?;
        let lines = JsonLines::reopen(&path)?;
        Ok(Self { lines, _lock: lock })
    }

    /// Appends one event. It is written to the system when this returns.
    /// Fails when it cannot be written (the file then ends with the event before it), or does not
    /// parse back.
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
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        Ok(Self { lines: JsonLines::create(&dir.join(TELEMETRY_LOG_FILE))? })
    }

    /// Goes on with the telemetry of the interrupted run in `dir`.
    pub fn reopen(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(TELEMETRY_LOG_FILE);
        if !path.exists() {
            return Self::create(dir);
        }
        Ok(Self { lines: JsonLines::reopen(&path)? })
    }

    /// Appends one reading. It is written to the system when this returns.
    /// Fails when it cannot be written, or its value is not finite.
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
    pub warnings: Vec<String>,
}

/// Reads the events of the record in `dir`.
/// Fails when the file cannot be read, is of another version, does not begin with `Began`, or has
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

/// The kind of device that the first event names; `None` where it cannot be read.
pub(super) fn kind_of_first_event(dir: &Path) -> Option<DeviceKind> {
    #[derive(Deserialize)]
    struct First {
        device: Device,
    }
    #[derive(Deserialize)]
    struct Device {
        kind: DeviceKind,
    }
    let file = regular_file::open(&dir.join(EVENTS_FILE)).ok()?;
    let mut line = Vec::new();
    BufReader::new(file.take(FIRST_EVENT_BYTES)).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice::<First>(&line).ok().map(|first| first.device.kind)
}

/// The plan of 100,000 cells has a quarter of it.
const FIRST_EVENT_BYTES: u64 = 256 << 20;

/// Whether a live process still appends to the events in `dir`.
pub(super) fn is_being_written(dir: &Path) -> bool {
    let file = regular_file::open(&dir.join(EVENTS_FILE));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Locks the events in `dir`: until the lock drops, no other process can finish the record.
pub(super) fn lock_events(dir: &Path) -> Result<EventLock, StoreError> {
    let path = dir.join(EVENTS_FILE);
    let file = files::open(&path)?;
    EventLock::take(file, dir)
}

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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpubench_record::TelemetryRow;
    use proptest::prelude::*;

    use super::{JsonLines, parse};

    fn reading(value: f64) -> TelemetryRow {
        TelemetryRow {
            t_ns: 1,
            cell: String::new(),
            source: "nvml".to_owned(),
            metric: "power".to_owned(),
            value,
            unit: "mW".to_owned(),
        }
    }

    #[test]
    fn refuses_a_figure_that_json_cannot_hold_and_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let mut lines = JsonLines::create(&path).unwrap();
        lines.append("a reading", &reading(1.5)).unwrap();
        for value in [f64::NAN, f64::INFINITY] {
            let text = lines.append("a reading", &reading(value)).unwrap_err().to_string();
            assert!(text.starts_with("cannot store a reading in "), "{text}");
        }
        lines.append("a reading", &reading(0.1 + 0.2)).unwrap();
        let read = parse::<TelemetryRow>(&path, &std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.values, [reading(1.5), reading(0.1 + 0.2)]);
        assert_eq!(read.torn_line, None);
    }

    #[test]
    fn only_the_last_line_may_be_torn() {
        let line = serde_json::to_string(&reading(2.0)).unwrap();
        let torn = format!("{line}\n{}", &line[..line.len() / 2]);
        let read = parse::<TelemetryRow>(Path::new("t"), torn.as_bytes()).unwrap();
        assert_eq!((read.values.len(), read.torn_line), (1, Some(2)));
        let broken = format!("{line}\n{}\n{line}\n", &line[..line.len() / 2]);
        let error = parse::<TelemetryRow>(Path::new("t"), broken.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("t line 2: "), "{error}");
    }

    proptest! {
        #[test]
        fn every_prefix_of_a_file_is_readable(cut in any::<prop::sample::Index>(), n in 0..5usize) {
            let line = serde_json::to_string(&reading(0.1)).unwrap() + "\n";
            let whole = line.repeat(n);
            let bytes = &whole.as_bytes()[..cut.index(whole.len() + 1)];
            let read = parse::<TelemetryRow>(Path::new("t"), bytes).unwrap();
            // A line that lacks only its line feed counts.
            prop_assert_eq!(read.values.len(), (bytes.len() + 1) / line.len());
        }

        #[test]
        fn any_bytes_give_lines_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse::<TelemetryRow>(Path::new("t"), &bytes);
        }
    }
}
