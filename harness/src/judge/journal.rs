//! The journal of host changes for a device, refused while an earlier run is not undone.

use std::path::PathBuf;

use gpubench_virtual_gpu::session::ENV;

use super::DeviceSession;
use super::expected;
use crate::error::ExpectedError;
use crate::mechanism::host::{JournalError, JournalPlace, state_dir, unclean};

/// The journal in which a run on this device writes its host changes.
///
/// # Errors
/// When a run that died left changes that are not undone.
pub fn journal_of(session: &DeviceSession) -> Result<JournalPlace, ExpectedError> {
    let gpu = session.identity().uuid.clone();
    let dir = match state_dir() {
        Ok(dir) => dir,
        // Without a home there is no journal, so nothing is left to undo. A change is refused
        // later.
        Err(JournalError::NoPlace) => PathBuf::new(),
        Err(error) => return Err(expected::from_journal(error)),
    };
    if let Some(left) = unclean(&dir, &gpu).map_err(expected::from_journal)? {
        return Err(ExpectedError::NotRestored {
            what: format!("a run that died left on {gpu}: {left}; run `gpubench cleanup` first"),
        });
    }
    // Set for every virtual GPU; the one of this process sets it when it starts.
    let virtual_device = std::env::var_os(ENV).map(PathBuf::from);
    Ok(JournalPlace::new(&dir, &gpu, virtual_device))
}
