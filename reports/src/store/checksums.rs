//! `checksums.b3`: BLAKE3 of the Parquet files and the latency log, in the form that
//! `b3sum --check` reads.
//!
//! A decoder trusts the lengths in a file: one flipped bit can make it allocate more memory than
//! the host has, which ends the process without an error. So the checksum of a file is verified
//! before the file is decoded.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::error::StoreError;
use super::json_lines::read_bytes;
use super::replace::replace;

/// The file with the checksums.
pub const CHECKSUMS_FILE: &str = "checksums.b3";

/// Stores the checksum of the file `name` in `dir`.
pub(super) fn store(dir: &Path, name: &str) -> Result<(), StoreError> {
    let path = dir.join(CHECKSUMS_FILE);
    let mut lines: Vec<String> = read_checksums(dir)?
        .lines()
        .filter(|line| name_in(line) != Some(name))
        .map(str::to_owned)
        .collect();
    lines.push(format!("{}  {name}", checksum(&dir.join(name))?));
    lines.sort_by(|a, b| name_in(a).cmp(&name_in(b)));
    let text = lines.join("\n") + "\n";
    replace(
        &path,
        |mut file, part| {
            file.write_all(text.as_bytes())
                .map_err(StoreError::io("write", part))
        },
        |_| Ok(()),
    )
}

/// Compares a file with its checksum. A file without a checksum passes.
pub(super) fn verify(path: &Path) -> Result<(), StoreError> {
    let (Some(dir), Some(name)) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) else {
        return Ok(());
    };
    let checksums = read_checksums(dir)?;
    let Some(line) = checksums.lines().find(|line| name_in(line) == Some(name)) else {
        return Ok(());
    };
    if line.split(' ').next() == Some(&checksum(path)?) {
        return Ok(());
    }
    Err(StoreError::Damaged {
        path: path.to_path_buf(),
    })
}

/// Whether the record has checksums, and none of this file.
pub(super) fn is_cut(dir: &Path, name: &str) -> Result<bool, StoreError> {
    let exists = dir.join(CHECKSUMS_FILE).exists();
    let text = read_checksums(dir)?;
    Ok(exists && !text.lines().any(|line| name_in(line) == Some(name)))
}

fn read_checksums(dir: &Path) -> Result<String, StoreError> {
    let path = dir.join(CHECKSUMS_FILE);
    if !path.exists() {
        return Ok(String::new());
    }
    Ok(String::from_utf8_lossy(&read_bytes(&path)?).into_owned())
}

fn name_in(line: &str) -> Option<&str> {
    line.split_once("  ").map(|(_, name)| name)
}

fn checksum(path: &Path) -> Result<String, StoreError> {
    let file = File::open(path).map_err(StoreError::io("read", path))?;
    let mut hasher = blake3::Hasher::new();
    hasher
        .update_reader(file)
        .map_err(StoreError::io("read", path))?;
    Ok(hasher.finalize().to_hex().to_string())
}
