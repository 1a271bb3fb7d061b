//! The journal in which a run writes its host changes.

use std::path::PathBuf;

use gpubench_virtual_gpu::session::ENV;

use super::DeviceSession;
use super::expected;
use super::recovery::before_run;
use crate::error::ExpectedError;
use crate::mechanism::host::{JournalError, JournalLocation, state_dir};

/// The journal of a run on this device, and what was undone for it, one line each: what dead runs
/// left is undone first.
///
/// # Errors
/// When a device setting that a dead run changed cannot be restored.
pub fn journal_of(
    session: &DeviceSession,
) -> Result<(JournalLocation, Vec<String>), ExpectedError> {
    let gpu = session.identity().uuid.clone();
    // Set for every virtual GPU; the one of this process sets it when it starts.
    let virtual_device = std::env::var_os(ENV).map(PathBuf::from);
    let (dir, notes) = match state_dir() {
        Ok(dir) => {
            let notes = before_run(&dir, &gpu, virtual_device.as_deref())?;
            (dir, notes)
        }
        // Without a home there is no journal, so nothing is left to undo. A change is refused
        // later.
        Err(JournalError::NoFolder) => (PathBuf::new(), Vec::new()),
        Err(error) => return Err(expected::from_journal(error)),
    };
    Ok((JournalLocation::new(&dir, &gpu, virtual_device), notes))
}
