//! What dead runs left undone, as their journals tell it.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::change::Change;
use super::found::Found;
use super::journal::{Entry, Journal, JournalError, hold, io};

/// What a run left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The journal.
    pub path: PathBuf,
    /// The GPU.
    pub gpu: String,
    /// Folder of the virtual device, where it is one.
    pub virtual_device: Option<PathBuf>,
    /// How the host was found.
    pub found: Found,
    /// Changes that are not undone, in the order in which they were made.
    pub changes: Vec<(u64, Change)>,
}

/// What dead runs have left undone in this folder, with their journals held; of one GPU if named.
///
/// # Errors
/// When a journal cannot be read.
pub fn leftovers(dir: &Path, gpu: Option<&str>) -> Result<Vec<(Journal, Left)>, JournalError> {
    let mut found = Vec::new();
    for path in journals(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if gpu.is_some_and(|gpu| !name.starts_with(&format!("{gpu}."))) {
            continue;
        }
        let Some(file) = hold(&path)? else {
            continue;
        };
        let Some((left, next)) = read(&file, &path)? else {
            // Nothing was ever begun in it, or it went while we looked.
            std::fs::remove_file(&path).map_err(|source| io(&path, source))?;
            continue;
        };
        let journal = Journal { file, path, next };
        if left.changes.is_empty() {
            journal.close()?;
        } else {
            found.push((journal, left));
        }
    }
    Ok(found)
}

/// Tells in one line what dead runs have left undone on a GPU; nothing if it is clean.
///
/// # Errors
/// When a journal cannot be read.
pub fn unclean(dir: &Path, gpu: &str) -> Result<Option<String>, JournalError> {
    let left = leftovers(dir, Some(gpu))?;
    let changes: Vec<String> = left
        .iter()
        .flat_map(|(_, left)| left.changes.iter().map(|(_, change)| change.describe()))
        .collect();
    Ok((!changes.is_empty()).then(|| changes.join("; ")))
}

fn journals(dir: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(io(dir, source)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| io(dir, source))?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads a journal: what is left, and the number of the next change. `None` if nothing begins it.
fn read(file: &File, path: &Path) -> Result<Option<(Left, u64)>, JournalError> {
    let mut file = file;
    file.seek(SeekFrom::Start(0))
        .map_err(|source| io(path, source))?;
    let mut left: Option<Left> = None;
    let mut next = 1;
    let mut reader = BufReader::new(file);
    let mut number_of_line = 0;
    loop {
        let mut bytes = Vec::new();
        let read = reader.read_until(b'\n', &mut bytes);
        if read.map_err(|source| io(path, source))? == 0 {
            break;
        }
        number_of_line += 1;
        let Some(line) = bytes.strip_suffix(b"\n") else {
            // Torn by the death of its writer: what it announces had not begun.
            break;
        };
        let entry = serde_json::from_slice(line).map_err(|error| JournalError::Line {
            path: path.display().to_string(),
            line: number_of_line,
            what: error.to_string(),
        })?;
        match (entry, &mut left) {
            (
                Entry::Began {
                    gpu,
                    virtual_device,
                    found,
                    ..
                },
                _,
            ) => {
                left = Some(Left {
                    path: path.to_path_buf(),
                    gpu,
                    virtual_device,
                    found,
                    changes: Vec::new(),
                });
            }
            (Entry::Change { number, what }, Some(left)) => {
                left.changes.push((number, what));
                next = number + 1;
            }
            (Entry::Undone { number }, Some(left)) => {
                left.changes.retain(|(known, _)| *known != number);
            }
            (Entry::Change { .. } | Entry::Undone { .. }, None) => {
                return Err(JournalError::Line {
                    path: path.display().to_string(),
                    line: number_of_line,
                    what: "it comes before the beginning".to_owned(),
                });
            }
        }
    }
    Ok(left.map(|left| (left, next)))
}
