//! `gpubench cleanup`: undoes host changes of runs that ended without undoing them.

use gpubench_record::ExitCode;

use super::common::exit_codes_help;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::judge::{expected, journal};
use crate::mechanism::host::{leftovers, state_dir};

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::OutputFailed,
    ExitCode::NotRestored,
];

/// Undoes host changes that a killed run left behind
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Only changes of runs on this GPU [default: all GPUs]
    #[arg(long, value_name = "GPU-UUID")]
    device: Option<String>,
}

/// Undoes the changes and prints them.
///
/// # Errors
/// When a change could not be undone, or the GPU is in use.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let dir = state_dir().map_err(expected::from_journal)?;
    let left = leftovers(&dir, args.device.as_deref()).map_err(expected::from_journal)?;
    if left.is_empty() {
        ui.print("nothing to clean up\n")?;
        return Ok(ExitCode::Done);
    }
    let mut failures = Vec::new();
    for (journal, left) in left {
        let gpu = left.gpu.clone();
        match journal::undo(journal, &left) {
            Ok(()) => {
                for (_, change) in left.changes.iter().rev() {
                    ui.print(&format!("{gpu}: undone: {}\n", change.describe()))?;
                }
            }
            Err(error) => failures.push(format!("{gpu}: {error}")),
        }
    }
    if failures.is_empty() {
        return Ok(ExitCode::Done);
    }
    Err(ExpectedError::NotRestored {
        what: failures.join("; "),
    })
}
