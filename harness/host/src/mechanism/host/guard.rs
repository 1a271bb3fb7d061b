//! Makes changes, journal first, and undoes them: on request, and when dropped.
//!
//! On a virtual device the process can be set to kill itself after a number of steps, so that tests
//! cover the death at every step.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::change::{Change, Made, Undone, When, not_undone};
use super::mps_control::die;
use super::run_id::RunId;
use super::{Control, ControlError, Found};
use crate::device::private_folder;

/// A change that could not be made or undone.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// The journal cannot be written, so nothing may be changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The host differs from the state that was found.
    #[error("{0}")]
    NotRestored(String),
}

/// The changes of one host. They are undone when the guard is dropped.
pub struct Guard {
    host: Arc<dyn Control>,
    location: JournalLocation,
    open: Option<Open>,
    steps: Steps,
}

/// Steps until this process kills itself. A step ends after each line of a journal, each change and
/// each undoing.
pub(super) struct Steps(Option<u32>);

/// Number of steps. It is read on virtual devices only.
pub const DIE_AFTER_STEPS: &str = "GPUBENCH_DIE_AFTER_STEPS";

impl Steps {
    pub(super) fn of(virtual_device: Option<&Path>) -> Self {
        let steps_text = virtual_device.and_then(|_| std::env::var(DIE_AFTER_STEPS).ok());
        Self(steps_text.and_then(|steps| steps.parse().ok()))
    }

    pub(super) fn done(&mut self) {
        match &mut self.0 {
            Some(0) => die(),
            Some(left) => *left -= 1,
            None => {}
        }
    }
}

#[derive(Debug, Clone)]
pub struct JournalLocation {
    pub dir: PathBuf,
    pub gpu: String,
    /// State folder of the device, if it is virtual.
    pub virtual_device: Option<PathBuf>,
}

/// From the first change to the last undoing.
struct Open {
    journal: Journal,
    found: Found,
    changes: Vec<(u64, Change)>,
}

impl Guard {
    /// A guard without changes.
    pub fn new(host: Arc<dyn Control>, location: JournalLocation) -> Self {
        let steps = Steps::of(location.virtual_device.as_deref());
        Self { host, location, open: None, steps }
    }

    pub fn host(&self) -> &dyn Control {
        &*self.host
    }

    /// Makes a change. The state that was found and the change are on disk first.
    /// Fails when the journal cannot be written, or the host refuses. A refused change stays in the
    /// journal until it is undone, because a part of it may have been made.
    pub fn make(&mut self, change: Change) -> Result<Made, HostError> {
        if self.open.is_none() {
            let found = Found::read(&*self.host)?;
            let location = &self.location;
            let virtual_device = location.virtual_device.as_deref();
            let journal = Journal::begin(&location.dir, &location.gpu, virtual_device, &found)?;
            self.open = Some(Open { journal, found, changes: Vec::new() });
        }
        let Some(open) = &mut self.open else {
            return Ok(Made::Nothing);
        };
        let number = open.journal.write(&change)?;
        open.changes.push((number, change.clone()));
        self.steps.done();
        let made = change.make(&*self.host)?;
        if let (Made::Instance(instance), Some((_, Change::MigInstance { uuids, .. }))) =
            (&made, open.changes.last_mut())
        {
            *uuids = instance.compute.iter().map(|one| one.uuid.clone()).collect();
            open.journal.made(number, uuids)?;
        }
        self.steps.done();
        Ok(made)
    }

    /// Undoes all changes, last first, and compares the host with the state that was found.
    /// Fails when a change could not be undone or the host differs; the journal then stays.
    pub fn restore(&mut self) -> Result<(), HostError> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let (host, steps) = (&*self.host, &mut self.steps);
        undo_all(host, open.journal, &open.changes, &open.found, steps)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // After a panic no caller reads the error. The journal keeps the changes that could not be
        // undone, and the next run refuses to start until they are.
        let _ = self.restore();
    }
}

fn undo_all(
    host: &dyn Control,
    mut journal: Journal,
    changes: &[(u64, Change)],
    found: &Found,
    steps: &mut Steps,
) -> Result<(), HostError> {
    let mut wrong = Vec::new();
    for (number, change) in changes.iter().rev() {
        match change.undo(host, When::InRun) {
            Ok(Undone::Done) => {
                steps.done();
                journal.mark(*number)?;
                steps.done();
            }
            Ok(Undone::LeftAlone(why)) => wrong.push(why),
            Err(error) => wrong.push(not_undone(change, &error)),
        }
    }
    match Found::read(host) {
        Ok(now) => wrong.extend(found.difference(&now)),
        Err(error) if changes.iter().any(|(_, change)| change.is_of_device()) => {
            wrong.push(format!("whether the device is as it was found is unknown: {error}"));
        }
        // Nothing of the device was changed.
        Err(_) => {}
    }
    if !wrong.is_empty() {
        return Err(HostError::NotRestored(wrong.join("; ")));
    }
    journal.close()?;
    Ok(())
}

impl JournalLocation {
    /// The journal of this GPU in this folder.
    pub fn new(dir: &Path, gpu: &str, virtual_device: Option<PathBuf>) -> Self {
        Self { dir: dir.to_path_buf(), gpu: gpu.to_owned(), virtual_device }
    }
}

// The journal of changes to the host: one file for each GPU, one JSON object a line. A line is on
// disk before its change is made.
//
// The run that writes it holds a lock on it. A journal without a lock that has changes to undo is
// of a run that died (see `leftovers`). A journal is removed when every change is undone.

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("journal {path}: {source}")]
    Io { path: String, source: std::io::Error },
    /// A complete line in it is no entry.
    #[error("journal {path} line {line} is no entry: {what}")]
    Line {
        path: String,
        /// Number of the line, from 1.
        line: usize,
        what: String,
    },
    /// There is no folder for it.
    #[error("neither XDG_STATE_HOME nor HOME is set: there is no folder for the journal")]
    NoFolder,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub(super) enum Entry {
    Began {
        gpu: String,
        /// The run. A journal of version 0.1 names it by its process id alone, which is ignored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// State folder of the device, if it is virtual.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        virtual_device: Option<PathBuf>,
        found: Found,
    },
    Change {
        number: u64,
        what: Change,
    },
    Made {
        number: u64,
        uuids: Vec<String>,
    },
    Undone {
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
pub fn state_dir() -> Result<PathBuf, JournalError> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    Ok(state.ok_or(JournalError::NoFolder)?.join("gpubench"))
}

impl Journal {
    /// Begins a journal for a GPU and holds its lock.
    ///
    /// Virtual devices of one machine share a UUID. The second of two live runs with one UUID has a
    /// file of its own.
    pub fn begin(
        dir: &Path,
        gpu: &str,
        virtual_device: Option<&Path>,
        found: &Found,
    ) -> Result<Self, JournalError> {
        // A location without a folder would be the current one, where no later run looks.
        if dir.as_os_str().is_empty() {
            return Err(JournalError::NoFolder);
        }
        private_folder::make_own(dir).map_err(|source| io(dir, source))?;
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
        // Old content is of undone changes: a run whose GPU has changes to undo is refused before.
        file.set_len(0).map_err(|source| io(&path, source))?;
        let mut journal = Self { file, path, next: 1 };
        journal.append(&Entry::Began {
            gpu: gpu.to_owned(),
            run: Some(RunId::own().map_err(|source| io(Path::new("/proc"), source))?),
            virtual_device: virtual_device.map(Path::to_path_buf),
            found: found.clone(),
        })?;
        // The folder holds the name of a new file, so it is synced too.
        let folder = File::open(dir).and_then(|folder| folder.sync_all());
        folder.map_err(|source| io(dir, source))?;
        Ok(journal)
    }

    /// Writes a change before it is made. The line is on disk when this returns.
    /// Fails when it cannot be written; then the change must not be made.
    pub fn write(&mut self, change: &Change) -> Result<u64, JournalError> {
        let number = self.next;
        self.append(&Entry::Change { number, what: change.clone() })?;
        self.next += 1;
        Ok(number)
    }

    /// Writes the UUIDs of an instance that a change made, by which it is known from then on.
    /// Fails when they cannot be written; the instance must then be destroyed at once.
    pub fn made(&mut self, number: u64, uuids: &[String]) -> Result<(), JournalError> {
        self.append(&Entry::Made { number, uuids: uuids.to_vec() })
    }

    /// Marks a change as undone.
    /// Fails when it cannot be written; undoing twice does no harm.
    pub fn mark(&mut self, number: u64) -> Result<(), JournalError> {
        self.append(&Entry::Undone { number })
    }

    /// Removes a journal without changes to undo.
    pub fn close(self) -> Result<(), JournalError> {
        std::fs::remove_file(&self.path).map_err(|source| io(&self.path, source))
    }

    fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        let error = |source| io(&self.path, source);
        let mut line =
            serde_json::to_string(entry).map_err(std::io::Error::other).map_err(error)?;
        line.push('\n');
        self.file.seek(SeekFrom::End(0)).map_err(error)?;
        self.file.write_all(line.as_bytes()).map_err(error)?;
        self.file.sync_data().map_err(error)
    }
}

/// Opens a file and locks it, and creates it if it is missing; `None` while another process holds
/// the lock.
pub(super) fn hold(path: &Path) -> Result<Option<File>, JournalError> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .map_err(|source| io(path, source))?;
        own(&file).map_err(|source| io(path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(io(path, source)),
        }
        // Another process may have removed the file before it was locked here.
        let meta = file.metadata().map_err(|source| io(path, source))?;
        if meta.nlink() > 0 {
            return Ok(Some(file));
        }
    }
}

/// Refuses a journal that another user may have written: its commands are run.
pub(super) fn own(file: &File) -> std::io::Result<()> {
    let (facts, user) = (file.metadata()?, rustix::process::geteuid().as_raw());
    let problem = match facts.uid() {
        owner if owner != user => format!("it is of user id {owner}"),
        _ if facts.nlink() > 1 => "it has several names".to_owned(),
        _ => return Ok(()),
    };
    let accepted = format!("a file of user id {user} with one name");
    Err(std::io::Error::other(format!("{problem} (accepted: {accepted})")))
}

pub(super) fn io(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io { path: path.display().to_string(), source }
}
