//! Makes changes, journal first, and undoes them: on request, and when dropped.
//!
//! On a virtual device the process can be set to kill itself after a number of steps, so that tests
//! cover the death at every step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change::{Change, Made};
use super::control::{Control, ControlError};
use super::found::Found;
use super::journal::{Journal, JournalError};
use super::process::die;
use super::undo::{Undone, When, not_undone};

/// A change that could not be made or undone.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The host refused.
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

/// The location of the journal of a GPU.
#[derive(Debug, Clone)]
pub struct JournalLocation {
    /// The folder of journals.
    pub dir: PathBuf,
    /// UUID of the GPU.
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

    #[must_use]
    pub fn host(&self) -> &dyn Control {
        &*self.host
    }

    /// Makes a change. The state that was found and the change are on disk first.
    ///
    /// # Errors
    /// When the journal cannot be written, or the host refuses. A refused change stays in the
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
    ///
    /// # Errors
    /// When a change could not be undone or the host differs; the journal then stays.
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
    wrong.extend(found.difference(&Found::read(host)?));
    if !wrong.is_empty() {
        return Err(HostError::NotRestored(wrong.join("; ")));
    }
    journal.close()?;
    Ok(())
}

impl JournalLocation {
    /// The journal of this GPU in this folder.
    #[must_use]
    pub fn new(dir: &Path, gpu: &str, virtual_device: Option<PathBuf>) -> Self {
        Self { dir: dir.to_path_buf(), gpu: gpu.to_owned(), virtual_device }
    }
}
