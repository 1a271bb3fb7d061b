//! Undoes the changes that a dead run left.
//!
//! An operator may have changed the host since, so it is not compared with the state that the run
//! found: each change that is undone is checked by itself.

use super::change::Change;
use super::control::{Control, ControlError};
use super::guard::Steps;
use super::journal::{Journal, JournalError};
use super::leftovers::Leftover;
use super::undo::{Undone, When, not_undone};

/// Whether the device of a dead run still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// The device exists.
    Whole(When),
    /// The device was virtual and is gone with its settings.
    WithoutDevice,
}

/// How the recovery of one run ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The changes that are undone, last first.
    pub undone: Vec<Change>,
    /// What another process has changed since, one line each.
    pub left_alone: Vec<String>,
    /// The changes that could not be undone, with the reason in one line each. The journal keeps
    /// them.
    pub failed: Vec<(Change, String)>,
}

/// Undoes the changes that a dead run left, and deletes its journal if all of them are undone.
///
/// # Errors
/// When the journal cannot be written.
pub fn recover(
    host: &dyn Control,
    mut journal: Journal,
    left: &Leftover,
    recovery: Recovery,
) -> Result<Recovered, JournalError> {
    let mut steps = Steps::of(left.virtual_device.as_deref());
    let mut recovered = Recovered::default();
    for (number, change) in left.changes.iter().rev() {
        match undo(host, change, recovery) {
            Ok(undone) => {
                steps.done();
                journal.mark(*number)?;
                steps.done();
                match undone {
                    Undone::Done => recovered.undone.push(change.clone()),
                    Undone::LeftAlone(why) => recovered.left_alone.push(why),
                }
            }
            Err(error) => {
                let why = not_undone(change, &error);
                recovered.failed.push((change.clone(), why));
            }
        }
    }
    if recovered.failed.is_empty() {
        journal.close()?;
    }
    Ok(recovered)
}

fn undo(host: &dyn Control, change: &Change, recovery: Recovery) -> Result<Undone, ControlError> {
    let when = match recovery {
        Recovery::WithoutDevice if change.is_of_device() => return Ok(Undone::Done),
        Recovery::WithoutDevice => When::Later,
        Recovery::Whole(when) => when,
    };
    let undone = change.undo(host, when)?;
    if undone == Undone::Done && when != When::AfterReboot && change.remains(host)? {
        let doing = "checking it afterwards";
        return Err(ControlError::new(doing, "the host still has the value of the run"));
    }
    Ok(undone)
}
