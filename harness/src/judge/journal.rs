//! The journal of host changes: opening one for a run, and undoing what a dead run left.

use std::path::PathBuf;
use std::sync::Arc;

use gpubench_virtual_gpu::session::ENV;

use super::DeviceSession;
use super::expected;
use crate::device::lock::{GpuLock, LockError};
use crate::device::nvml::DeviceKey;
use crate::device::{Nvml, VirtualGpu};
use crate::error::ExpectedError;
use crate::mechanism::host::{
    Journal, JournalError, JournalLocation, Leftover, RealHost, Recovery, recover, state_dir,
    unclean,
};

/// The journal in which a run on this device writes its host changes.
///
/// # Errors
/// When a run that died left changes that are not undone.
pub fn journal_of(session: &DeviceSession) -> Result<JournalLocation, ExpectedError> {
    let gpu = session.identity().uuid.clone();
    let dir = match state_dir() {
        Ok(dir) => dir,
        // Without a home there is no journal, so nothing is left to undo. A change is refused
        // later.
        Err(JournalError::NoFolder) => PathBuf::new(),
        Err(error) => return Err(expected::from_journal(error)),
    };
    if let Some(left) = unclean(&dir, &gpu).map_err(expected::from_journal)? {
        return Err(ExpectedError::NotRestored {
            what: format!("a run that died left on {gpu}: {left}; run `gpubench cleanup` first"),
        });
    }
    // Set for every virtual GPU; the one of this process sets it when it starts.
    let virtual_device = std::env::var_os(ENV).map(PathBuf::from);
    Ok(JournalLocation::new(&dir, &gpu, virtual_device))
}

/// Undoes the changes that a dead run left, and deletes its journal.
///
/// # Errors
/// When the GPU is in use, or a change cannot be undone.
pub fn undo(journal: Journal, left: &Leftover) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if let Some(folder) = &left.virtual_device
        && VirtualGpu::is_gone(folder)
    {
        let host = RealHost::without_device();
        let done = recover(&host, journal, left, Recovery::WithoutDevice);
        return done.map_err(|error| text(&error));
    }
    let _lock = lock(left)?;
    let nvml = Nvml::open(None, &DeviceKey::Uuid(left.gpu.clone())).map_err(|error| {
        let its_folder = left
            .virtual_device
            .as_ref()
            .map_or_else(String::new, |folder| {
                format!(" (its {ENV} is {})", folder.display())
            });
        format!("{error}{its_folder}")
    })?;
    let host = RealHost::new(Arc::new(nvml));
    recover(&host, journal, left, Recovery::Whole).map_err(|error| text(&error))
}

/// Takes the lock of the GPU, so that no run starts meanwhile.
fn lock(left: &Leftover) -> Result<GpuLock, String> {
    let taken = match &left.virtual_device {
        Some(folder) => GpuLock::take_in(folder, &left.gpu),
        None => GpuLock::take(&left.gpu),
    };
    taken.map_err(|error: LockError| error.to_string())
}
