//! The changes that dead runs left, from their journals.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::change::Change;
use super::journal::{Entry, Journal, JournalError, hold, io};
use super::run_id::{Life, RunId};

/// Longest wait for another process that undoes the changes of a dead run, and the time between two
/// looks.
const WAIT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

/// The changes that one run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The journal.
    pub path: PathBuf,
    /// The run; `None` in a journal of version 0.1.
    pub run: Option<RunId>,
    pub gpu: String,
    /// State folder of the device, if it is virtual.
    pub virtual_device: Option<PathBuf>,
    /// Changes that are not undone, in the order in which they were made.
    pub changes: Vec<(u64, Change)>,
}

/// The wanted changes that dead runs left, with their locked journals. Where another process
/// undoes the changes of a dead run, its end is waited for. If a GPU is named, unreadable journals
/// of other GPUs are left out.
///
/// # Errors
/// When a journal cannot be read.
pub fn leftovers(
    dir: &Path,
    gpu: Option<&str>,
    is_wanted: &dyn Fn(&Leftover) -> bool,
) -> Result<Vec<(Journal, Leftover)>, JournalError> {
    let own = RunId::own().map_err(|source| io(Path::new("/proc"), source))?;
    let mut found = Vec::new();
    for path in journals(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_named = gpu.is_none_or(|gpu| name.starts_with(&format!("{gpu}.")));
        let seen = match peek(&path) {
            Err(_) if !is_named => continue,
            seen => seen?,
        };
        if seen.as_ref().is_some_and(|left| !is_wanted(left)) {
            continue;
        }
        let is_dead = |run: &RunId| run.life(&own) == Life::Ended;
        let is_undone = seen.and_then(|left| left.run).as_ref().is_some_and(is_dead);
        let Some(file) = hold_within(&path, if is_undone { WAIT } else { Duration::ZERO })? else {
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
        } else if is_wanted(&left) {
            found.push((journal, left));
        }
    }
    Ok(found)
}

/// Reads a journal that another process may hold; `None` if it is empty or gone.
fn peek(path: &Path) -> Result<Option<Leftover>, JournalError> {
    match File::open(path) {
        Ok(file) => Ok(read(&file, path)?.map(|(left, _)| left)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io(path, source)),
    }
}

/// Locks a journal, also if another process releases it within `limit`.
fn hold_within(path: &Path, limit: Duration) -> Result<Option<File>, JournalError> {
    for _ in 0..limit.as_millis() / STEP.as_millis() {
        if let Some(file) = hold(path)? {
            return Ok(Some(file));
        }
        std::thread::sleep(STEP);
    }
    hold(path)
}

fn journals(dir: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
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
    file.seek(SeekFrom::Start(0)).map_err(|source| io(path, source))?;
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
            (Entry::Began { gpu, run, virtual_device, .. }, _) => {
                left = Some(Leftover {
                    path: path.to_path_buf(),
                    run,
                    gpu,
                    virtual_device,
                    changes: Vec::new(),
                });
            }
            (Entry::Change { number, what }, Some(left)) => {
                left.changes.push((number, what));
                next = number + 1;
            }
            (Entry::Made { number, uuids: made }, Some(left)) => {
                for (known, change) in &mut left.changes {
                    if let Change::MigInstance { uuids, .. } = change
                        && *known == number
                    {
                        uuids.clone_from(&made);
                    }
                }
            }
            (Entry::Undone { number }, Some(left)) => {
                left.changes.retain(|(known, _)| *known != number);
            }
            (Entry::Change { .. } | Entry::Made { .. } | Entry::Undone { .. }, None) => {
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
