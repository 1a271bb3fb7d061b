//! The journal of what was changed on the host: one file for each GPU, one JSON object a line,
//! on disk before the change is made.
//!
//! Its owner holds a lock on it, so a journal without a lock in which changes are not undone is
//! that of a run that died (see `leftovers`). A journal with every change undone is removed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
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
pub(super) enum Entry {
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

/// An open journal, held by this process.
#[derive(Debug)]
pub struct Journal {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) next: u64,
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
pub(super) fn hold(path: &Path) -> Result<Option<File>, JournalError> {
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

pub(super) fn io(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io {
        path: path.display().to_string(),
        source,
    }
}
