//! Files of a record: opened as regular files only, written as a whole or not at all, and
//! `record.json`.

use std::fs::File;
use std::io::{Error, Read, Write};
use std::path::{Path, PathBuf};

use gpubench_record::{FIRST_VERSION, FormatVersion, Json, RunRecord, json};
use serde::Deserialize;

use super::error::{StoreError, without_position};
use super::json_lines::read_bytes;
use super::{RECORD_FILE, upgrade};

// Opens files of a record. A record can come from another person: a pipe in it would never be
// read to its end, and a device has none.

/// Longest file that is read as a whole: several hundred times a record of every axis.
const BYTES_MAX: u64 = 1 << 29;

/// Opens a regular file for reading.
pub(super) fn open(path: &Path) -> Result<File, StoreError> {
    open_regular(path).map_err(StoreError::io("read", path))
}

/// [`open`] for a caller with another error.
pub(super) fn open_regular(path: &Path) -> std::io::Result<File> {
    // Asked before the file is opened, because opening a pipe waits for a writer.
    let found = std::fs::metadata(path)?;
    if found.is_dir() {
        return Err(Error::other("it is a folder (accepted: a regular file)"));
    }
    if !found.is_file() {
        return Err(Error::other("it is a pipe or a device (accepted: a regular file)"));
    }
    File::open(path)
}

/// The bytes of a regular file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    let bytes = open_regular(path).and_then(|file| {
        let length = file.metadata()?.len();
        if length > BYTES_MAX {
            let accepted = format!("it has {length} bytes (accepted: at most {BYTES_MAX})");
            return Err(Error::other(accepted));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    bytes.map_err(StoreError::io("read", path))
}

// Writes a file as a whole or not at all: a temporary file beside it, synced, checked, renamed.

/// Writes a file at `path` through a temporary file in the same folder. `check` gets the finished
/// temporary file before that replaces an older file. On any error nothing changes.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&File, &Path) -> Result<(), StoreError>,
    check: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = File::create(&part)
        .map_err(StoreError::io("create", &part))
        .and_then(|file| {
            write(&file, &part)?;
            file.sync_all().map_err(StoreError::io("sync", &part))
        })
        .and_then(|()| check(&part))
        .and_then(|()| std::fs::rename(&part, path).map_err(StoreError::io("replace", path)));
    if written.is_err() {
        // The first error is the one to report; the next call overwrites a left-over `.part`.
        let _ = std::fs::remove_file(&part);
    }
    written?;
    sync_folder_of(path)
}

/// Syncs the folder of `path`, so that a rename in it survives a power loss.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(StoreError::io("sync", folder))
}

// The files of a folder.

/// Every file below a folder, sorted; none if the folder does not exist.
pub(super) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
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

// `record.json`: the record as one JSON value. Its version is checked before the rest is parsed.

/// Writes `record.json` into `dir`, whole or not at all.
///
/// # Errors
/// When it cannot be written, or the record could not be read again (a figure is not finite).
pub fn write_record_json(dir: &Path, record: &RunRecord) -> Result<(), StoreError> {
    let path = dir.join(RECORD_FILE);
    let json = to_json(record).map_err(|reason| StoreError::Unstorable {
        what: "the record",
        path: path.clone(),
        reason,
    })?;
    replace(
        &path,
        |mut file, part| file.write_all(json.as_bytes()).map_err(StoreError::io("write", part)),
        |part| {
            if read_bytes(part)? == json.as_bytes() {
                return Ok(());
            }
            Err(StoreError::Differs { path: part.into(), reason: "other bytes".to_owned() })
        },
    )
}

/// The record as indented JSON with a final line feed, or why it could not be read again.
pub(crate) fn to_json(record: &RunRecord) -> Result<String, String> {
    let mut json = json::indented(record).map_err(|e| without_position(&e))?;
    json.push('\n');
    let reparsed = RunRecord::from_json(json.as_bytes())
        .map_err(|e| format!("line {} of its JSON: {}", e.line(), without_position(&e)))?;
    if reparsed == *record {
        Ok(json)
    } else {
        Err("its JSON reads back as a different record".to_owned())
    }
}

/// Reads a `record.json`.
pub(super) fn read_record_json(path: &Path) -> Result<RunRecord, StoreError> {
    #[derive(Deserialize)]
    struct VersionOnly {
        format_version: FormatVersion,
    }
    let bytes = read_bytes(path)?;
    // A record of this version is parsed once. Only one that differs is asked for its version
    // first.
    let parsed = RunRecord::from_json(&bytes);
    let version = match &parsed {
        Ok(run) => run.format_version,
        Err(_) => {
            let head = serde_json::from_slice::<VersionOnly>(&bytes);
            head.map_err(|e| StoreError::json(path, &e))?.format_version
        }
    };
    version
        .check_readable()
        .map_err(|source| StoreError::Version { path: path.to_path_buf(), source })?;
    if version != FIRST_VERSION {
        return parsed.map_err(|e| StoreError::json(path, &e));
    }
    let mut value = serde_json::from_slice(&bytes).map_err(|e| StoreError::json(path, &e))?;
    upgrade::record(&mut value);
    let upgraded = serde_json::to_vec(&value);
    let upgraded = upgraded.and_then(|json| RunRecord::from_json(&json));
    // An upgraded value has no line in the file.
    upgraded.map_err(|error| StoreError::OldRecord {
        path: path.to_path_buf(),
        reason: without_position(&error),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::read;

    #[test]
    fn what_has_no_end_is_refused_before_it_is_read() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let large = dir.path().join("large");
        std::fs::File::create(&large)?.set_len(1 << 40)?;
        for (path, problem) in [
            (Path::new("/dev/zero"), "a pipe or a device"),
            (dir.path(), "a folder (accepted: a regular file)"),
            (&large, "(accepted: at most 536870912)"),
        ] {
            let refused = read(path).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|text| text.contains(problem)), "{problem}");
        }
        std::fs::write(&large, "text")?;
        assert!(read(&large).is_ok_and(|bytes| bytes == b"text"));
        Ok(())
    }
}
