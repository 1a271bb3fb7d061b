//! An index beside the records of nights, so that a look at many nights does not read each record
//! again. It can be removed at any time.
//!
//! One file for each record, in a folder beside them. It counts only while the files of its record
//! are those that it was made from, and it is whole; else the record is read, and the file is
//! replaced. A folder that cannot be written has no index.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gpubench_compare::Session;
use gpubench_record::Json;
use gpubench_reports::store::{
    CHECKSUMS_FILE, EVENTS_FILE, RECORD_FILE, TELEMETRY_FILE, TELEMETRY_LOG_FILE,
};
use serde::{Deserialize, Serialize};

/// The folder beside the records.
pub(super) const FOLDER: &str = ".gpubench-index";

/// Rises when a session of the same record has other content.
const FORMAT: u32 = 6;

/// The files that a session is made from.
const SOURCES: [&str; 5] =
    [RECORD_FILE, EVENTS_FILE, TELEMETRY_FILE, TELEMETRY_LOG_FILE, CHECKSUMS_FILE];

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
    let bytes = std::fs::read(path(dir)?).ok()?;
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
