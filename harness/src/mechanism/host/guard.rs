//! Makes changes, journal first, and undoes them: on request, when dropped, and after a death.
//!
//! On a virtual device the process can be told to die on the way, so that tests see for every step
//! what a death leaves behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change::{Change, Made};
use super::control::{Control, ControlError};
use super::found::Found;
use super::journal::{Journal, JournalError};
use super::leftovers::Left;
use super::process::die;

/// A change that could not be made or undone.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The host refuses.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// The journal cannot be kept, so nothing may be changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Not everything is as it was found.
    #[error("{0}")]
    NotRestored(String),
}

/// Holds what was changed on one host, and restores it when dropped.
pub struct Guard {
    host: Arc<dyn Control>,
    place: JournalPlace,
    open: Option<Open>,
    steps: Steps,
}

/// Steps until this process kills itself: after each line of a journal, and after each change and
/// each undoing.
struct Steps(Option<u32>);

/// How many steps; read where the device is a virtual one and nowhere else.
const DIE_AFTER_STEPS: &str = "GPUBENCH_DIE_AFTER_STEPS";

impl Steps {
    fn of(virtual_device: Option<&Path>) -> Self {
        let steps_text = virtual_device.and_then(|_| std::env::var(DIE_AFTER_STEPS).ok());
        Self(steps_text.and_then(|steps| steps.parse().ok()))
    }

    fn done(&mut self) {
        match &mut self.0 {
            Some(0) => die(),
            Some(left) => *left -= 1,
            None => {}
        }
    }
}

/// Where the journal of a GPU is kept.
#[derive(Debug, Clone)]
pub struct JournalPlace {
    /// The folder of journals.
    pub dir: PathBuf,
    /// UUID of the GPU.
    pub gpu: String,
    /// Folder of the virtual device, where it is one.
    pub virtual_device: Option<PathBuf>,
}

/// From the first change to the last undoing.
struct Open {
    journal: Journal,
    found: Found,
    changes: Vec<(u64, Change)>,
}

impl Guard {
    /// One that has changed nothing yet.
    pub fn new(host: Arc<dyn Control>, place: JournalPlace) -> Self {
        let steps = Steps::of(place.virtual_device.as_deref());
        Self {
            host,
            place,
            open: None,
            steps,
        }
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &dyn Control {
        &*self.host
    }

    /// Makes a change: found state and change are on disk before it is made.
    ///
    /// # Errors
    /// When it cannot be written down, or the host refuses. A refused change stays written down
    /// until the guard restores, because part of it may have been made.
    pub fn make(&mut self, change: Change) -> Result<Made, HostError> {
        if self.open.is_none() {
            let found = Found::take(&*self.host)?;
            let place = &self.place;
            let virtual_device = place.virtual_device.as_deref();
            let journal = Journal::begin(&place.dir, &place.gpu, virtual_device, &found)?;
            self.open = Some(Open {
                journal,
                found,
                changes: Vec::new(),
            });
        }
        let Some(open) = &mut self.open else {
            return Ok(Made::Nothing);
        };
        let number = open.journal.write(&change)?;
        open.changes.push((number, change.clone()));
        self.steps.done();
        let made = change.make(&*self.host)?;
        self.steps.done();
        Ok(made)
    }

    /// Undoes everything, last first, and holds the host against what was found.
    ///
    /// # Errors
    /// When something could not be undone or is different; the journal then still says so.
    pub fn restore(&mut self) -> Result<(), HostError> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let (host, steps) = (&*self.host, &mut self.steps);
        undo_all(host, open.journal, &open.changes, Some(&open.found), steps)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // After a panic no caller reads the error; the journal keeps what could not be undone, and
        // the next run refuses until it is clean.
        let _ = self.restore();
    }
}

/// How much of a dead run's leavings can still be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// The device is there.
    Whole,
    /// The device was a virtual one and is gone, and its settings with it.
    WithoutDevice,
}

/// Undoes what a dead run left.
///
/// # Errors
/// When something could not be undone or is different from what that run found.
pub fn recover(
    host: &dyn Control,
    journal: Journal,
    left: &Left,
    recovery: Recovery,
) -> Result<(), HostError> {
    let mut steps = Steps::of(left.virtual_device.as_deref());
    if recovery == Recovery::Whole {
        return undo_all(host, journal, &left.changes, Some(&left.found), &mut steps);
    }
    let mut journal = journal;
    let (gone, stay): (Vec<_>, Vec<_>) = left
        .changes
        .iter()
        .cloned()
        .partition(|(_, change)| change.is_of_device());
    for (number, _) in gone {
        journal.mark(number)?;
    }
    undo_all(host, journal, &stay, None, &mut steps)
}

fn undo_all(
    host: &dyn Control,
    mut journal: Journal,
    changes: &[(u64, Change)],
    found: Option<&Found>,
    steps: &mut Steps,
) -> Result<(), HostError> {
    let mut wrong = Vec::new();
    for (number, change) in changes.iter().rev() {
        match change.undo(host) {
            Ok(()) => {
                steps.done();
                journal.mark(*number)?;
                steps.done();
            }
            Err(error) => {
                let way = error
                    .remedy
                    .map_or_else(String::new, |way| format!(" ({way})"));
                wrong.push(format!("{}: {error}{way}", change.describe()));
            }
        }
    }
    if let Some(found) = found {
        let now = Found::take(host)?;
        wrong.extend(found.difference(&now));
    }
    if !wrong.is_empty() {
        return Err(HostError::NotRestored(wrong.join("; ")));
    }
    journal.close()?;
    Ok(())
}

impl JournalPlace {
    /// In this folder, for this GPU.
    #[must_use]
    pub fn new(dir: &Path, gpu: &str, virtual_device: Option<PathBuf>) -> Self {
        Self {
            dir: dir.to_path_buf(),
            gpu: gpu.to_owned(),
            virtual_device,
        }
    }
}
