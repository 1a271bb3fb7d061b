//! The journal of what was changed on the host: one file for each GPU, one JSON object a line,
//! on disk before the change is made.
//!
//! Its owner holds a lock on it, so a journal that nobody holds and that has something left is
//! that of a run that died. One that has nothing left is removed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::found::Found;

/// The journal cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("journal {path}: {source}")]
    Io {
        /// Which file or folder.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A whole line in it is none of ours.
    #[error("journal {path} line {line} is no entry: {what}")]
    Line {
        /// Which file.
        path: String,
        /// Which line, from 1.
        line: usize,
        /// What the parser said.
        what: String,
    },
    /// There is no folder to keep it in.
    #[error("neither XDG_STATE_HOME nor HOME is set: there is no place for a journal")]
    NoPlace,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
enum Entry {
    /// The first one.
    Began {
        /// The GPU.
        gpu: String,
        /// The process.
        pid: u32,
        /// Folder of the virtual device, where it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        virtual_device: Option<PathBuf>,
        /// How the host was found.
        found: Found,
    },
    /// About to be made.
    Change {
        /// Its number.
        number: u64,
        /// What.
        what: Change,
    },
    /// Undone.
    Undone {
        /// Number of the change.
        number: u64,
    },
}

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
    /// What is not undone, in the order in which it was made.
    pub changes: Vec<(u64, Change)>,
}

/// An open journal, held by this process.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    next: u64,
}

/// `$XDG_STATE_HOME/gpubench`, else `~/.local/state/gpubench`.
///
/// # Errors
/// When neither variable is set.
pub fn state_dir() -> Result<PathBuf, JournalError> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    Ok(state.ok_or(JournalError::NoPlace)?.join("gpubench"))
}

impl Journal {
    /// Opens a new journal for a GPU and holds it.
    ///
    /// Two live runs can be on devices of one UUID, which virtual ones of one machine share; the
    /// second then has a file of its own.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(
        dir: &Path,
        gpu: &str,
        virtual_device: Option<&Path>,
        found: &Found,
    ) -> Result<Self, JournalError> {
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(dir);
        made.map_err(|source| io(dir, source))?;
        let own = format!("{gpu}.{}.jsonl", std::process::id());
        let path = dir.join(format!("{gpu}.jsonl"));
        let (file, path) = match hold(&path)? {
            Some(file) => (file, path),
            None => {
                let path = dir.join(own);
                let taken = || std::io::Error::other("held by another run");
                let file = hold(&path)?.ok_or_else(|| io(&path, taken()))?;
                (file, path)
            }
        };
        // Whatever else is in it is undone: a run with anything left in its GPU's journal is
        // refused before it comes here.
        file.set_len(0).map_err(|source| io(&path, source))?;
        let mut journal = Self {
            file,
            path,
            next: 1,
        };
        journal.append(&Entry::Began {
            gpu: gpu.to_owned(),
            pid: std::process::id(),
            virtual_device: virtual_device.map(Path::to_path_buf),
            found: found.clone(),
        })?;
        // The name of a new file is its folder's to keep.
        let folder = File::open(dir).and_then(|folder| folder.sync_all());
        folder.map_err(|source| io(dir, source))?;
        Ok(journal)
    }

    /// Writes down that a change is about to be made. It is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written; then the change must not be made.
    pub fn write(&mut self, change: &Change) -> Result<u64, JournalError> {
        let number = self.next;
        self.append(&Entry::Change {
            number,
            what: change.clone(),
        })?;
        self.next += 1;
        Ok(number)
    }

    /// Marks a change as undone.
    ///
    /// # Errors
    /// When it cannot be written; undoing twice does no harm.
    pub fn mark(&mut self, number: u64) -> Result<(), JournalError> {
        self.append(&Entry::Undone { number })
    }

    /// Removes a journal in which nothing is left.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn close(self) -> Result<(), JournalError> {
        std::fs::remove_file(&self.path).map_err(|source| io(&self.path, source))
    }

    fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        let error = |source| io(&self.path, source);
        let mut line = serde_json::to_string(entry)
            .map_err(std::io::Error::other)
            .map_err(error)?;
        line.push('\n');
        self.file.seek(SeekFrom::End(0)).map_err(error)?;
        self.file.write_all(line.as_bytes()).map_err(error)?;
        self.file.sync_data().map_err(error)
    }
}

/// Takes hold of a file, making it if it is not there; `None` while another process holds it.
fn hold(path: &Path) -> Result<Option<File>, JournalError> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|source| io(path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(io(path, source)),
        }
        // Its holder may have removed it between our opening and our locking.
        let meta = file.metadata().map_err(|source| io(path, source))?;
        if meta.nlink() > 0 {
            return Ok(Some(file));
        }
    }
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

fn io(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io {
        path: path.display().to_string(),
        source,
    }
}
