//! `checksums.b3`: BLAKE3 of every file of the record but itself, in the form that `b3sum --check`
//! reads.
//!
//! A decoder trusts the lengths in a file: one flipped bit can make it allocate more memory than
//! the host has, which ends the process without an error. So the checksum of a file is verified
//! before the file is decoded.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Component, Path};

use super::error::StoreError;
use super::files;
use super::files::files_below;
use super::files::replace;
use super::json_lines::read_bytes;

pub const CHECKSUMS_FILE: &str = "checksums.b3";

/// The signature of that file, where the record is signed.
pub const SIGNATURE_FILE: &str = "checksums.b3.minisig";

/// Stores the checksum of the file `name` in `dir`.
pub(super) fn store(dir: &Path, name: &str) -> Result<(), StoreError> {
    let mut lines: Vec<String> = read_checksums(dir)?
        .lines()
        .filter(|line| name_in(line) != Some(name))
        .map(str::to_owned)
        .collect();
    lines.push(format!("{}  {name}", checksum(&dir.join(name))?));
    lines.sort_by(|a, b| name_in(a).cmp(&name_in(b)));
    write(dir, &(lines.join("\n") + "\n"))
}

fn write(dir: &Path, text: &str) -> Result<(), StoreError> {
    replace(
        &dir.join(CHECKSUMS_FILE),
        |mut file, part| file.write_all(text.as_bytes()).map_err(StoreError::io("write", part)),
        |_| Ok(()),
    )
}

/// Stores the checksums of every file of a finished record.
/// Fails when a file cannot be read, or the checksums cannot be written.
pub fn seal(dir: &Path) -> Result<(), StoreError> {
    let mut names = Vec::new();
    for path in files_below(dir)? {
        let name = path.strip_prefix(dir).ok().and_then(Path::to_str);
        names.extend(name.filter(|name| is_listed(name)).map(str::to_owned));
    }
    names.sort();
    let mut text = String::new();
    for name in names {
        text += &format!("{}  {name}\n", checksum(&dir.join(&name))?);
    }
    write(dir, &text)
}

/// How many files have a checksum; `None` for a record without checksums.
pub fn files_with_checksum(dir: &Path) -> Result<Option<usize>, StoreError> {
    let count = read_checksums(dir)?.lines().count();
    Ok((count > 0).then_some(count))
}

/// One sentence for each file that is not the one of its checksum, and for each that has none: what
/// a signature of the checksums does not cover.
/// Fails when a file cannot be read.
pub fn damaged_or_unlisted(dir: &Path) -> Result<Vec<String>, StoreError> {
    let damaged = damages(dir)?.into_iter().map(|(_, text)| text);
    let mut found: Vec<String> = damaged.collect();
    let text = read_checksums(dir)?;
    for path in files_below(dir)? {
        let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy();
        let is_own = name == CHECKSUMS_FILE || name == SIGNATURE_FILE;
        if !is_own && !text.lines().any(|line| name_in(line) == Some(&*name)) {
            let name: String = name.chars().take(NAME_MAX).collect();
            found.push(format!(
                "{name} is not in {CHECKSUMS_FILE}, so the signature does not cover it"
            ));
        }
    }
    Ok(found)
}

/// Whether a file belongs to the record: not the checksums and their signature, and nothing hidden,
/// as a lock is.
fn is_listed(name: &str) -> bool {
    name != CHECKSUMS_FILE
        && name != SIGNATURE_FILE
        && !name.split('/').any(|part| part.starts_with('.'))
}

/// One sentence for each file that is not the one of its checksum, with the name of the file.
pub(super) fn damages(dir: &Path) -> Result<Vec<(String, String)>, StoreError> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    let text = read_checksums(dir)?;
    for (at, line) in text.lines().enumerate() {
        let name = name_in(line).filter(|name| is_inside(name));
        // A file is read once, however often it is listed.
        let Some(name) = name.filter(|name| known.insert(*name)) else {
            if found.iter().any(|(name, _)| name == CHECKSUMS_FILE) {
                continue;
            }
            let line = at + 1;
            let text = format!(
                "{CHECKSUMS_FILE} is damaged: its line {line} names no file of the record, or one \
                 that it has named"
            );
            found.push((CHECKSUMS_FILE.to_owned(), text));
            continue;
        };
        let path = dir.join(name);
        let problem = if !path.is_file() {
            format!("is missing, and {CHECKSUMS_FILE} lists it")
        } else if is_whole(line, &path)? {
            continue;
        } else {
            format!("is damaged: it does not match its checksum in {CHECKSUMS_FILE}")
        };
        let name: String = name.chars().take(NAME_MAX).collect();
        found.push((name.clone(), format!("{name} {problem}")));
    }
    Ok(found)
}

/// Longest name that a sentence repeats.
const NAME_MAX: usize = 100;

/// Whether a name leads to a file within the folder.
fn is_inside(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn is_whole(line: &str, path: &Path) -> Result<bool, StoreError> {
    Ok(line.split(' ').next() == Some(&checksum(path)?))
}

/// Compares a file with its checksum. A file without a checksum passes.
pub(super) fn verify(path: &Path) -> Result<(), StoreError> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return Ok(());
    };
    let checksums = read_checksums(dir)?;
    let Some(line) = checksums.lines().find(|line| name_in(line) == Some(name)) else {
        return Ok(());
    };
    if is_whole(line, path)? {
        return Ok(());
    }
    Err(StoreError::Damaged { path: path.to_path_buf() })
}

/// Whether the record has checksums, and none of this file.
pub(super) fn is_cut(dir: &Path, name: &str) -> Result<bool, StoreError> {
    Ok(dir.join(CHECKSUMS_FILE).exists() && !lists(dir, name)?)
}

/// Whether the record has a checksum of this file.
pub(super) fn lists(dir: &Path, name: &str) -> Result<bool, StoreError> {
    Ok(read_checksums(dir)?.lines().any(|line| name_in(line) == Some(name)))
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
    let file = files::open(path)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(StoreError::io("read", path))?;
    Ok(hasher.finalize().to_hex().to_string())
}
