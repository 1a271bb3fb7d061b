//! Files of a record: opened as regular files only, written as a whole or not at all, and
//! `record.json`.

use std::fs::File;
use std::path::{Path, PathBuf};

use gpubench_record::regular_file;

use super::error::StoreError;

// Opens files of a record. A record can come from another person: a pipe in it would never be
// read to its end, and a device has none.

/// Longest file that is read as a whole: several hundred times a record of every axis.
const BYTES_MAX: u64 = 1 << 29;

pub(super) fn open(path: &Path) -> Result<File, StoreError> {
    regular_file::open(path).map_err(StoreError::io("read", path))
}

/// A file that [`read`] would read, with its length.
pub(super) fn open_whole(path: &Path) -> Result<(File, u64), StoreError> {
    regular_file::open_within(path, BYTES_MAX).map_err(StoreError::io("read", path))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    regular_file::read(path, BYTES_MAX).map_err(StoreError::io("read", path))
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
