//! `gpubench cleanup`: undoes what an interrupted run left behind on the host.

use std::sync::Arc;

use gpubench_record::ExitCode;
use gpubench_virtual_gpu::session::ENV;

use super::common::exit_codes_help;
use super::ui::Ui;
use crate::device::lock::{GpuLock, LockError};
use crate::device::nvml::Which;
use crate::device::{Nvml, VirtualGpu};
use crate::error::ExpectedError;
use crate::judge::expected;
use crate::mechanism::host::{Journal, Left, RealHost, Recovery, leftovers, recover, state_dir};

/// Undoes what an interrupted run left behind on the host
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(&[
    ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::NothingRan,
    ExitCode::OutputFailed, ExitCode::NotRestored,
]))]
pub struct Args {
    /// Clean up after runs on this GPU alone
    #[arg(long, value_name = "GPU-UUID")]
    device: Option<String>,
}

/// Cleans up and tells what was done.
///
/// # Errors
/// When something could not be undone, or the GPU is in use.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let dir = state_dir().map_err(expected::from_journal)?;
    let left = leftovers(&dir, args.device.as_deref()).map_err(expected::from_journal)?;
    if left.is_empty() {
        ui.print("nothing to clean up\n")?;
        return Ok(ExitCode::Done);
    }
    let mut wrong = Vec::new();
    for (journal, left) in left {
        let gpu = left.gpu.clone();
        match undo(journal, &left) {
            Ok(()) => {
                for (_, change) in left.changes.iter().rev() {
                    ui.print(&format!("{gpu}: undone: {}\n", change.describe()))?;
                }
            }
            Err(error) => wrong.push(format!("{gpu}: {error}")),
        }
    }
    if wrong.is_empty() {
        return Ok(ExitCode::Done);
    }
    Err(ExpectedError::NotRestored {
        what: wrong.join("; "),
    })
}

fn undo(journal: Journal, left: &Left) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if let Some(folder) = &left.virtual_device
        && VirtualGpu::is_gone(folder)
    {
        let host = RealHost::without_device();
        let done = recover(&host, journal, left, Recovery::WithoutDevice);
        return done.map_err(|error| text(&error));
    }
    let _lock = lock(left)?;
    let nvml = Nvml::open(None, &Which::Uuid(left.gpu.clone())).map_err(|error| {
        let where_it_is = left
            .virtual_device
            .as_ref()
            .map_or_else(String::new, |folder| {
                format!(" (its {ENV} is {})", folder.display())
            });
        format!("{error}{where_it_is}")
    })?;
    let host = RealHost::new(Arc::new(nvml));
    recover(&host, journal, left, Recovery::Whole).map_err(|error| text(&error))
}

/// Keeps runs away meanwhile.
fn lock(left: &Left) -> Result<GpuLock, String> {
    let taken = match &left.virtual_device {
        Some(folder) => GpuLock::take_in(folder, &left.gpu),
        None => GpuLock::take(&left.gpu),
    };
    taken.map_err(|error: LockError| error.to_string())
}
