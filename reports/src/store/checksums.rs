//! `checksums.b3`: BLAKE3 of every file of the record but itself, in the form that `b3sum --check`
//! reads.
//!
//! A decoder trusts the lengths in a file: one flipped bit can make it allocate more memory than
//! the host has, which ends the process without an error. So the checksum of a file is verified
//! before the file is decoded.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Component, Path};

use gpubench_record::Plan;

use super::error::StoreError;
use super::files::{files_below, replace};
use super::json_lines::read_bytes;
use super::sample_file::SampleLog;
use super::{
    CELLS_FOLDER, EVENTS_FILE, LATENCIES_FILE, RECORD_FILE, SAMPLES_FILE, TELEMETRY_FILE,
    TELEMETRY_LOG_FILE, files, log_path, parquet, samples, telemetry,
};
use crate::store::checksums;

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
///
/// # Errors
/// When a file cannot be read, or the checksums cannot be written.
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
///
/// # Errors
/// When they cannot be read.
pub fn files_with_checksum(dir: &Path) -> Result<Option<usize>, StoreError> {
    let count = read_checksums(dir)?.lines().count();
    Ok((count > 0).then_some(count))
}

/// One sentence for each file that is not the one of its checksum, and for each that has none: what
/// a signature of the checksums does not cover.
///
/// # Errors
/// When a file cannot be read.
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
    let mut found = Vec::new();
    for (at, line) in read_checksums(dir)?.lines().enumerate() {
        let name = name_in(line).filter(|name| is_inside(name));
        let Some(name) = name else {
            let line = at + 1;
            let text =
                format!("{CHECKSUMS_FILE} is damaged: its line {line} names no file of the record");
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
    let file = files::open(path)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(StoreError::io("read", path))?;
    Ok(hasher.finalize().to_hex().to_string())
}

// What the files of a record lost: files that were cut short and checksums that are gone. Found
// when a record is opened, so that every reader names it.

/// The page of a finished run, which its checksums list too.
pub(super) const PAGE_FILE: &str = "report.html";

/// One sentence for each loss.
pub(super) fn losses(dir: &Path, plan: &Plan) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for (name, table) in [(SAMPLES_FILE, &samples::TABLE), (TELEMETRY_FILE, &telemetry::TABLE)] {
        let path = dir.join(name);
        if path.is_file() {
            found.extend(parquet::loss(&path, table)?);
        }
    }
    let logs = dir.join(CELLS_FOLDER);
    if logs.exists() {
        found.extend(torn_logs(dir, plan)?);
    } else {
        // While the logs exist they are read, and the files are made again.
        found.extend(without_checksum(dir)?);
    }
    let readings = dir.join(TELEMETRY_LOG_FILE);
    if readings.exists() && !ends_with_line(&readings)? {
        found.push(format!(
            "{TELEMETRY_LOG_FILE} ends within a line: that reading and those behind it are lost"
        ));
    }
    Ok(found)
}

fn torn_logs(dir: &Path, plan: &Plan) -> Result<Vec<String>, StoreError> {
    let cells = plan.all_cells().map(|cell| (&cell.id, &cell.tenants));
    let trials = plan.all_fault_trials().map(|one| (&one.id, &one.tenants));
    let mut found = Vec::new();
    for (id, tenants) in cells.chain(trials) {
        for tenant in tenants {
            let path = log_path(dir, id, &tenant.tenant)?;
            if path.exists() {
                // An unreadable header is an error for the reader of the rows.
                let log = SampleLog::open(&path).ok();
                let name = format!("the log of {} in cell {id}", tenant.tenant);
                found.extend(log.and_then(|log| log.loss(&name)));
            }
        }
    }
    Ok(found)
}

/// The files of a finished record that differ from their checksums, with a sentence each, without
/// those that are known to be torn.
pub(super) fn lost_in(dir: &Path, known: &[String]) -> Result<Vec<(String, String)>, StoreError> {
    if dir.join(CELLS_FOLDER).exists() {
        return Ok(Vec::new());
    }
    let is_known = |name: &str| {
        let torn = format!("{name} is torn");
        known.iter().any(|loss| loss.starts_with(&torn))
    };
    let found = checksums::damages(dir)?.into_iter();
    Ok(found.filter(|(name, _)| !is_known(name)).collect())
}

fn without_checksum(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = vec![SAMPLES_FILE, LATENCIES_FILE, TELEMETRY_FILE];
    // Older checksums list these three alone.
    if !checksums::is_cut(dir, RECORD_FILE)? {
        names.extend([EVENTS_FILE, PAGE_FILE]);
    }
    let mut unlisted = Vec::new();
    for &name in &names {
        if checksums::is_cut(dir, name)? {
            unlisted.push(name);
        }
    }
    // A run has events and then a page; an anonymized copy has neither. The other files can be
    // removed on purpose.
    let has_page = names.contains(&PAGE_FILE) && !unlisted.contains(&PAGE_FILE);
    let of_one = |name: &str| {
        let checksums = checksums::CHECKSUMS_FILE;
        if dir.join(name).exists() {
            Some(format!("{checksums} has no checksum of {name}, which is read without one"))
        } else if has_page && name == EVENTS_FILE {
            Some(format!("{name} is missing, and {checksums} does not list it"))
        } else {
            None
        }
    };
    Ok(unlisted.into_iter().filter_map(of_one).collect())
}

fn ends_with_line(path: &Path) -> Result<bool, StoreError> {
    let last = files::open_regular(path).and_then(|mut file| {
        let mut last = *b"\n";
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(last)
    });
    Ok(last.map_err(StoreError::io("read", path))? == *b"\n")
}
