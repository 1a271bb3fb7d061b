//! Which folders of records the arguments name: a record, a folder of records, or a pattern.

use std::collections::BTreeSet;
use std::io::Write;
use std::num::NonZero;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gpubench_compare::Session;
use gpubench_predict::parallel;
use gpubench_record::{Json, regular_file};
use gpubench_store::{
    CHECKSUMS_FILE, EVENTS_FILE, LATENCIES_FILE, PAGE_FILE, RECORD_FILE, SAMPLES_FILE,
    TELEMETRY_FILE, TELEMETRY_LOG_FILE, folder_of,
};
use serde::{Deserialize, Serialize};

use crate::error::{ExpectedError, RECORD_BYTES_MAX};

/// Most records of one comparison, so that its memory has a limit: 1 GiB in all.
const RECORDS_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFolder {
    pub path: PathBuf,
    /// Whether an argument names it, rather than a folder or pattern that it was found in.
    pub is_listed: bool,
}

pub fn record_folders(arguments: &[PathBuf]) -> Result<Vec<RecordFolder>, ExpectedError> {
    let mut found: Vec<RecordFolder> = Vec::new();
    for argument in arguments {
        refuse_flag(argument)?;
        let is_pattern = argument.to_string_lossy().contains(['*', '?']);
        let paths = if is_pattern && !argument.exists() {
            matching(argument)?
        } else {
            vec![argument.clone()]
        };
        let before = found.len();
        for path in paths {
            let path = folder_of(&path).to_owned();
            if !is_pattern && path.is_file() {
                let reason = "it is a file; a record is a folder with record.json".to_owned();
                return Err(ExpectedError::unreadable_record(argument, reason));
            }
            let is_listed = !is_pattern && is_record(&path);
            let inside = if is_record(&path) {
                vec![path]
            } else {
                let mut inside = entries(&path)?;
                inside.retain(|path| is_record(path));
                inside
            };
            found.extend(inside.into_iter().map(|path| RecordFolder { path, is_listed }));
        }
        if found.len() == before {
            return Err(ExpectedError::unreadable_record(
                argument,
                format!("it has neither {RECORD_FILE} nor {EVENTS_FILE}, nor folders with them"),
            ));
        }
    }
    let mut known = BTreeSet::new();
    found.retain(|folder| {
        // A record that two arguments name is one session.
        let real = folder.path.canonicalize();
        known.insert(real.unwrap_or_else(|_| folder.path.clone()))
    });
    at_most(RECORDS_MAX, found)
}

/// Refuses a flag in the place of a folder, as behind `--`, unless a folder has its name.
fn refuse_flag(argument: &Path) -> Result<(), ExpectedError> {
    let text = argument.to_string_lossy();
    if !text.starts_with('-') || argument.exists() {
        return Ok(());
    }
    Err(ExpectedError::usage(
        format!(
            "{text} stands where a record is named, and no folder has this name (a flag stands \
             before --)"
        ),
        None,
    ))
}

fn at_most(max: usize, found: Vec<RecordFolder>) -> Result<Vec<RecordFolder>, ExpectedError> {
    if found.len() <= max {
        return Ok(found);
    }
    Err(ExpectedError::usage(
        format!("{} records are named, at most {max} are read", found.len()),
        Some("name fewer, or remove old nights with `gpubench history prune`"),
    ))
}

/// Whether a run wrote into this folder itself.
pub fn is_record(path: &Path) -> bool {
    [RECORD_FILE, EVENTS_FILE].iter().any(|name| path.join(name).is_file())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ExpectedError> {
    let unreadable =
        |source| ExpectedError::Unreadable { what: "folder", path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(unreadable)?;
    paths.sort();
    Ok(paths)
}

/// The folders that match a pattern: `*` and `?` within names, not across folders. Brackets are
/// letters of a name.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, ExpectedError> {
    let mut text = pattern.to_string_lossy().replace('[', "[[]");
    while text.contains("**") {
        text = text.replace("**", "*");
    }
    let found = glob::glob(&text)
        .map_err(|error| ExpectedError::usage(format!("{}: {error}", pattern.display()), None))?;
    let found: Result<Vec<PathBuf>, glob::GlobError> = found.collect();
    let mut found = found.map_err(|error| ExpectedError::Unreadable {
        what: "folder",
        path: error.path().to_owned(),
        source: error.into(),
    })?;
    found.retain(|path| path.is_dir());
    Ok(found)
}

// An index beside the records of nights, so that a look at many nights does not read each record
// again. It can be removed at any time.
//
// One file for each record, in a folder beside them. It counts only while the files of its record
// are those that it was made from, and it is whole; else the record is read, and the file is
// replaced. A folder that cannot be written has no index.

/// The folder beside the records.
pub(super) const FOLDER: &str = ".gpubench-index";

/// The files of a finished record, each of which checksums cover: damage of one is a loss of the
/// session.
const SOURCES: [&str; 8] = [
    RECORD_FILE,
    EVENTS_FILE,
    SAMPLES_FILE,
    LATENCIES_FILE,
    TELEMETRY_FILE,
    TELEMETRY_LOG_FILE,
    PAGE_FILE,
    CHECKSUMS_FILE,
];

/// Rises when a session of the same record has other content.
const FORMAT: u32 = 8;

/// The first line of a file of the index; the session is the rest.
#[derive(PartialEq, Serialize, Deserialize)]
struct Head {
    format: u32,
    gpubench: String,
    sources: Vec<Source>,
    /// BLAKE3 of the session.
    hash: String,
}

/// A file of the record when it was read; a file that it lacks has no entry.
#[derive(PartialEq, Serialize, Deserialize)]
struct Source {
    name: String,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds of the last change of the content, and of the file as such.
    modified: [i64; 2],
    changed: [i64; 2],
}

/// The sources of a finished record; `None` for one that a run may still write.
#[derive(PartialEq)]
pub(super) struct Sources(Vec<Source>);

impl Sources {
    pub(super) fn of(dir: &Path) -> Option<Self> {
        let found = SOURCES.into_iter().filter_map(|name| {
            let meta = dir.join(name).metadata().ok()?;
            Some(Source {
                name: name.to_owned(),
                inode: meta.ino(),
                bytes: meta.len(),
                modified: [meta.mtime(), meta.mtime_nsec()],
                changed: [meta.ctime(), meta.ctime_nsec()],
            })
        });
        let found: Vec<Source> = found.collect();
        let is_finished = found.first().is_some_and(|one| one.name == RECORD_FILE);
        is_finished.then_some(Self(found))
    }
}

/// The session of a record by the index; `None` where the index does not have it as it is now.
pub(super) fn load(dir: &Path, sources: &Sources) -> Option<Session> {
    let bytes = regular_file::read(&path(dir)?, RECORD_BYTES_MAX).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(&bytes[..end]).ok()?;
    let rest = &bytes[end + 1..];
    let is_valid = head.format == FORMAT
        && head.gpubench == env!("CARGO_PKG_VERSION")
        && head.sources == sources.0
        && head.hash == hash(rest);
    if !is_valid {
        return None;
    }
    let mut session = Session::from_json(rest).ok()?;
    session.name = dir.display().to_string();
    Some(session)
}

/// Keeps the session of a record, as a whole or not at all. Without leave to write there is no
/// index, and nothing else changes.
pub(super) fn store(dir: &Path, sources: Sources, session: &Session) {
    let _ = try_store(dir, sources, session);
}

fn try_store(dir: &Path, sources: Sources, session: &Session) -> std::io::Result<()> {
    let Some(path) = path(dir) else {
        return Ok(());
    };
    let body = session.to_json()?.into_bytes();
    let head = Head {
        format: FORMAT,
        gpubench: env!("CARGO_PKG_VERSION").to_owned(),
        sources: sources.0,
        hash: hash(&body),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let everyone_reads = std::fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new().permissions(everyone_reads).tempfile_in(folder)?;
    serde_json::to_writer(&mut file, &head)?;
    file.write_all(b"\n")?;
    file.write_all(&body)?;
    file.persist(&path).map(|_| ()).map_err(|error| error.error)
}

/// Removes what the index has of a record.
pub(super) fn forget(dir: &Path) {
    if let Some(path) = path(dir) {
        // A file that stays belongs to no record, and is never read.
        let _ = std::fs::remove_file(path);
    }
}

/// The file of a record, beside it.
fn path(dir: &Path) -> Option<PathBuf> {
    let mut name = dir.file_name()?.to_os_string();
    name.push(".json");
    Some(dir.parent()?.join(FOLDER).join(name))
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

// The same work on many records, on as many threads as there are cores.

/// Most threads: each holds one record in memory.
const THREADS_MAX: usize = 8;

pub(super) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let threads = NonZero::new(THREADS_MAX).map_or(cores, |most| cores.min(most));
    parallel::map(items, threads, work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_folders_and_patterns_are_found_once() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        for name in ["n1", "n2", "other", "[1] 570"] {
            std::fs::create_dir(dir.path().join(name))?;
        }
        for name in ["n1", "n2", "[1] 570"] {
            std::fs::write(dir.path().join(name).join(EVENTS_FILE), "")?;
        }
        let found = |names: &[&str]| {
            let arguments: Vec<PathBuf> = names.iter().map(|name| dir.path().join(name)).collect();
            record_folders(&arguments)
        };
        assert_eq!(found(&["", "n1"])?.len(), 3);
        for (pattern, count) in
            [("n*", 2), ("n**", 2), ("?2", 1), ("*1*", 2), ("[1]*", 1), ("*]*5?0", 1), ("[n]*", 0)]
        {
            let all = found(&[pattern]).map_or(0, |all| all.len());
            assert_eq!(all, count, "{pattern}");
        }
        let listed = found(&["n2", "n*"])?;
        let listed: Vec<bool> = listed.iter().map(|one| one.is_listed).collect();
        assert_eq!(listed, [true, false]);
        assert!(found(&["other"]).is_err());
        assert!(found(&["x*"]).is_err());
        assert!(found(&["absent"]).is_err());
        assert_eq!(at_most(2, found(&["n*"])?)?.len(), 2);
        let Err(refused) = at_most(1, found(&["n*"])?) else {
            return Err("two records of at most one".into());
        };
        let text = "2 records are named, at most 1 are read";
        assert!(refused.to_string().contains(text), "{refused}");
        Ok(())
    }
}
