//! What a user decides about a folder of nights: declared changes, pinned baselines, and which old
//! nights go.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gpubench_compare::Session;
use gpubench_compare::history::{Acknowledged, Declared};
use gpubench_record::{excerpt, parser_message, regular_file};
use gpubench_run::rfc3339;
use gpubench_store::{
    CELLS_FOLDER, CHECKSUMS_FILE, EVENTS_FILE, LATENCIES_FILE, RECORD_FILE, SAMPLES_FILE,
    TELEMETRY_FILE, TELEMETRY_LOG_FILE,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::folders::record_folders;
use super::{folders, night_means};
use crate::error::output::write_whole;
use crate::error::{ExpectedError, RECORD_BYTES_MAX, read_text, unreadable};

// Declared changes and acknowledged regressions of a folder of nights: one JSON line each, beside
// the records.

/// The file in a folder of nights.
const DECLARED_FILE: &str = "declared.jsonl";
const ACKNOWLEDGED_FILE: &str = "acknowledged.jsonl";

pub fn declare(folder: &Path, change: &Declared) -> Result<PathBuf, ExpectedError> {
    add_line(folder.join(DECLARED_FILE), change)
}

pub fn acknowledge(folder: &Path, one: &Acknowledged) -> Result<PathBuf, ExpectedError> {
    add_line(folder.join(ACKNOWLEDGED_FILE), one)
}

fn add_line(path: PathBuf, change: &impl Serialize) -> Result<PathBuf, ExpectedError> {
    let line = serde_json::to_string(change).map_err(ExpectedError::internal)?;
    let appended = || {
        if is_there(&path) {
            no_link(&path)?;
            regular_file::open(&path)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
        // Behind a line that was cut short a new one begins.
        let mut last = [b'\n'];
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        let start = if last == [b'\n'] { "" } else { "\n" };
        file.write_all(format!("{start}{line}\n").as_bytes())
    };
    appended().map_err(|error| ExpectedError::from_write(&path, error))?;
    Ok(path)
}

/// Whether a name is taken. What cannot be read, a link to nothing among it, is not absent.
fn is_there(path: &Path) -> bool {
    !path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// A link in a folder that others share could name any file of this user.
fn no_link(path: &Path) -> std::io::Result<()> {
    if path.is_symlink() {
        return Err(std::io::Error::other("it is a link (accepted: a regular file)"));
    }
    Ok(())
}

/// The text of a file of decisions; `None` where there is none.
fn decisions(what: &'static str, path: &Path) -> Result<Option<String>, ExpectedError> {
    if !is_there(path) {
        return Ok(None);
    }
    no_link(path).map_err(|source| unreadable(what, path, source))?;
    read_text(what, path, RECORD_BYTES_MAX).map(Some)
}

pub fn declared(folders: &[PathBuf]) -> Result<Vec<Declared>, ExpectedError> {
    lines(folders, DECLARED_FILE, |line| {
        let change: Declared = json(line)?;
        Ok(Declared { at: time_of(&change.at)?, ..change })
    })
}

pub fn acknowledged(folders: &[PathBuf]) -> Result<Vec<Acknowledged>, ExpectedError> {
    lines(folders, ACKNOWLEDGED_FILE, |line| {
        let one: Acknowledged = json(line)?;
        Ok(Acknowledged { at: time_of(&one.at)?, ..one })
    })
}

/// The lines of the file of this name in each folder that has it.
fn lines<T>(
    folders: &[PathBuf],
    file: &str,
    read: fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, ExpectedError> {
    let mut found = Vec::new();
    for folder in folders {
        let path = folder.join(file);
        let text = decisions("decisions about nights", &path)?.unwrap_or_default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let change = read(line).map_err(|problem| {
                ExpectedError::usage(
                    format!("{}:{}: {problem}", path.display(), at + 1),
                    Some(
                        "correct or remove the line, accepted: {\"at\": \"2026-01-31T00:00:00Z\", \
                     \"what\": \"...\"}, with \"rows\" where it acknowledges",
                    ),
                )
            })?;
            found.push(change);
        }
    }
    Ok(found)
}

fn json<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| parser_message(&error.to_string()))
}

fn time_of(at: &str) -> Result<String, String> {
    rfc3339(at).map_err(|problem| format!("\"at\": \"{}\": {problem}", excerpt(at)))
}

// Pinned baselines of a folder of nights: records under a name, in one readable file beside them.

/// The file in a folder of nights.
const PINS_FILE: &str = "baselines.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// RFC 3339 time in UTC at which it was pinned.
    #[serde(deserialize_with = "time")]
    pub at: String,
    /// The folders of its records, within the folder of nights.
    pub records: Vec<String>,
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    rfc3339(&text).map_err(|problem| {
        serde::de::Error::custom(format!("\"at\": \"{}\": {problem}", excerpt(&text)))
    })
}

/// The pinned baselines by name.
pub type Pins = BTreeMap<String, Pin>;

/// The pinned baselines of a folder; none without the file.
pub fn pins(folder: &Path) -> Result<Pins, ExpectedError> {
    let path = folder.join(PINS_FILE);
    let Some(text) = decisions("pinned baselines", &path)? else {
        return Ok(Pins::new());
    };
    serde_json::from_str(&text).map_err(|error| {
        ExpectedError::usage(
            format!("{}: {}", path.display(), parser_message(&error.to_string())),
            Some(
                "accepted: {\"NAME\": {\"at\": \"2026-01-31T00:00:00Z\", \"records\": [\"...\"]}}",
            ),
        )
    })
}

pub fn pinned(folder: &Path, name: &str) -> Result<Pin, ExpectedError> {
    let mut all = pins(folder)?;
    all.remove(name).ok_or_else(|| ExpectedError::UnknownName {
        kind: "baseline",
        name: name.to_owned(),
        known: all.into_keys().collect(),
    })
}

/// Pins records of the folder under a name, in place of what the name had.
pub fn pin(
    folder: &Path,
    name: &str,
    records: &[PathBuf],
    at: String,
) -> Result<usize, ExpectedError> {
    let mut names = Vec::new();
    for record in record_folders(records)? {
        let name = record.path.file_name().unwrap_or_default();
        let inside = folder.join(name);
        let same = |path: &Path| path.canonicalize().ok();
        if same(&inside).is_none() || same(&inside) != same(&record.path) {
            return Err(ExpectedError::usage(
                format!("{} is no record in {}", record.path.display(), folder.display()),
                Some("move it there, or pin records of that folder"),
            ));
        }
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    let count = names.len();
    let mut all = pins(folder)?;
    all.insert(name.to_owned(), Pin { at, records: names });
    write(folder, &all)?;
    Ok(count)
}

/// Removes the baseline of a name; its records stay.
pub fn unpin(folder: &Path, name: &str) -> Result<(), ExpectedError> {
    pinned(folder, name)?;
    let mut all = pins(folder)?;
    all.remove(name);
    write(folder, &all)
}

fn write(folder: &Path, pins: &Pins) -> Result<(), ExpectedError> {
    let path = folder.join(PINS_FILE);
    let text = serde_json::to_string_pretty(pins).map_err(ExpectedError::internal)?;
    write_whole(&path, format!("{text}\n").as_bytes())
}

// Removing old nights: which records go, and which stay for what reason.

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

/// A night that is older than what is kept.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Old {
    pub record: PathBuf,
    /// When it began.
    pub began: String,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pruning {
    /// Records that go, the oldest first.
    pub remove: Vec<Old>,
    /// Old records that stay, with the reason; one line each.
    pub stay: Vec<String>,
}

/// Decides which records of the folder go. Pinned, unfinished and unreadable ones stay.
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
            pruning.remove.push(Old { record: path, began: session.started_at.clone() });
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
    folders::forget(record);
    match std::fs::remove_dir(record) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(failed(record)(error)),
    }
}

#[cfg(test)]
mod tests {
    use gpubench_store::EVENTS_FILE;

    use super::*;

    #[test]
    fn declared_changes_are_read_back_and_damage_names_its_line()
    -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let folders = [folder.path().to_owned()];
        assert!(declared(&folders)?.is_empty());
        let change =
            |what: &str| Declared { at: "2026-01-31T00:00:00Z".to_owned(), what: what.to_owned() };
        declare(folder.path(), &change("one"))?;
        let path = declare(folder.path(), &change("two"))?;
        assert_eq!(declared(&folders)?, [change("one"), change("two")]);
        std::fs::write(&path, "\n{}\n")?;
        let error = declared(&folders).err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| text.contains("declared.jsonl:2")));
        let line = |at: &str| format!("{{\"at\": \"{at}\", \"what\": \"x\"}}\n");
        std::fs::write(&path, line("2026-01-31T00:00:00Z") + &line("2026-99-99T00:00:00Z"))?;
        let error = declared(&folders).err().map(|error| error.to_string()).ok_or("accepted")?;
        let said = "declared.jsonl:2: \"at\": \"2026-99-99T00:00:00Z\": the calendar has no";
        assert!(error.contains(said), "{error}");
        Ok(())
    }

    #[test]
    fn baselines_are_pinned_listed_and_removed() -> Result<(), Box<dyn std::error::Error>> {
        let nights = tempfile::tempdir()?;
        let other = tempfile::tempdir()?;
        for folder in [nights.path().join("n1"), nights.path().join("n2"), other.path().join("n1")]
        {
            std::fs::create_dir(&folder)?;
            std::fs::write(folder.join(EVENTS_FILE), "")?;
        }
        let at = || "2026-01-31T00:00:00Z".to_owned();
        let folder = nights.path();
        assert!(pins(folder)?.is_empty());
        assert_eq!(pin(folder, "golden", &[folder.join("n*")], at())?, 2);
        assert_eq!(pin(folder, "last", &[folder.join("n2")], at())?, 1);
        assert_eq!(pinned(folder, "golden")?.records, ["n1", "n2"]);
        let foreign = pin(folder, "golden", &[other.path().join("n1")], at());
        assert!(foreign.is_err_and(|error| error.to_string().contains("is no record in")));
        unpin(folder, "golden")?;
        assert_eq!(pins(folder)?.into_keys().collect::<Vec<_>>(), ["last"]);
        let unknown = unpin(folder, "golden").err().map(|error| error.to_string());
        assert!(unknown.is_some_and(|text| text.contains("(known: last)")));
        let text = std::fs::read_to_string(folder.join(PINS_FILE))?;
        std::fs::write(folder.join(PINS_FILE), text.replace("2026-01-31", "2026-02-31"))?;
        let error = pins(folder).err().map(|error| error.to_string()).ok_or("accepted")?;
        let said = "\"at\": \"2026-02-31T00:00:00Z\": the calendar has no such time";
        assert!(error.contains(said) && error.contains("line 3"), "{error}");
        std::fs::write(folder.join(PINS_FILE), "[]")?;
        assert!(pins(folder).is_err());
        std::fs::remove_file(folder.join(PINS_FILE))?;
        std::os::unix::fs::symlink("gone", folder.join(PINS_FILE))?;
        assert!(pins(folder).is_err() && pruning(folder, &Keep::Last(1)).is_err());
        Ok(())
    }
}
