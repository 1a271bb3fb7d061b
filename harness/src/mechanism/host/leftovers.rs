//! The changes that dead runs left, from their journals.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::change::Change;
use super::found::Found;
use super::journal::{Entry, Journal, JournalError, hold, io};

/// The changes that one run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The journal.
    pub path: PathBuf,
    /// The GPU.
    pub gpu: String,
    /// State folder of the device, if it is virtual.
    pub virtual_device: Option<PathBuf>,
    /// The state that was found.
    pub found: Found,
    /// Changes that are not undone, in the order in which they were made.
    pub changes: Vec<(u64, Change)>,
}

/// The changes that dead runs left, with their locked journals; those of one GPU if it is named.
///
/// # Errors
/// When a journal cannot be read.
pub fn leftovers(dir: &Path, gpu: Option<&str>) -> Result<Vec<(Journal, Leftover)>, JournalError> {
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
            // No run began in it, or its run removed it since.
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

/// The changes that dead runs left on a GPU, in one line; `None` if there are none.
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

/// Reads a journal: its changes to undo, and the number of the next change. `None` if it is empty.
fn read(file: &File, path: &Path) -> Result<Option<(Leftover, u64)>, JournalError> {
    let mut file = file;
    file.seek(SeekFrom::Start(0))
        .map_err(|source| io(path, source))?;
    let mut left: Option<Leftover> = None;
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
            // An incomplete line of a run that died. Its change was not made.
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
                left = Some(Leftover {
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
                    what: "it comes before the first line of a run".to_owned(),
                });
            }
        }
    }
    Ok(left.map(|left| (left, next)))
}
