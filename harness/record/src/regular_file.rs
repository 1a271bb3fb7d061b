//! Files that a user names: regular ones alone, up to a length.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::path::Path;

/// Opens a regular file for reading.
/// Fails when it cannot be opened, or is a folder, a pipe or a device.
pub fn open(path: &Path) -> Result<File> {
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

/// Opens a regular file for appending, which is made where it is missing.
/// Fails as [`open`].
pub fn append(path: &Path) -> Result<File> {
    if path.symlink_metadata().is_ok() {
        open(path)?;
    }
    File::options().create(true).append(true).open(path)
}

/// Opens a regular file of at most `bytes_max` bytes, with its length.
/// Fails as [`open`], and when it is longer.
pub fn open_within(path: &Path, bytes_max: u64) -> Result<(File, u64)> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    within(length, bytes_max)?;
    Ok((file, length))
}

/// The bytes of a regular file.
/// Fails as [`open`], and when it has more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let (file, length) = open_within(path, bytes_max)?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    // It may grow meanwhile, and files of /proc have no length.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    within(bytes.len() as u64, bytes_max)?;
    Ok(bytes)
}

fn within(length: u64, bytes_max: u64) -> Result<()> {
    if length <= bytes_max {
        return Ok(());
    }
    Err(Error::other(format!("it has {length} bytes (accepted: at most {bytes_max})")))
}
