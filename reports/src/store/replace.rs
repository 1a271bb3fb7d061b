//! Writes a file as a whole or not at all: a temporary file beside it, synced, checked, renamed.

use std::fs::File;
use std::path::Path;

use super::error::StoreError;

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
