//! Puts a file in place as a whole or not at all: written beside it, synced, checked, renamed.

use std::fs::File;
use std::path::Path;

use super::error::StoreError;

/// Writes a file at `path` by way of a temporary one in the same folder. `check` sees the finished
/// temporary file before it takes the place of an older one. On any error nothing changes.
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
        // The first error is the one to tell; a left-over `.part` is overwritten next time.
        let _ = std::fs::remove_file(&part);
    }
    written?;
    sync_folder_of(path)
}

/// Makes a rename in the folder of `path` last.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(StoreError::io("sync", folder))
}
