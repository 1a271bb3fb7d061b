//! Files with one JSON value per line. Lines are appended whole; readers accept a torn last line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use gpubench_record::Json;

use super::error::{StoreError, without_position};
use super::regular;

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

    /// A second handle of the open file, for locking.
    pub(super) fn second_handle(&self) -> Result<File, StoreError> {
        self.file.try_clone().map_err(StoreError::io("lock", &self.path))
    }

    /// Appends one value as one line.
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
    /// The values, in order.
    pub(super) values: Vec<T>,
    /// Number of the torn last line, from 1, if there is one.
    pub(super) torn_line: Option<usize>,
}

/// Reads the whole file at `path`.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, StoreError> {
    regular::read(path)
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
            Err(error) => {
                return Err(StoreError::line(path, index + 1, without_position(&error)));
            }
        }
    }
    Ok(lines)
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
