//! `gpubench cleanup`: undoes the host changes that a run left when it died.

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

/// Undoes the host changes of runs that died
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Only after runs on this GPU
    #[arg(long, value_name = "GPU-UUID")]
    device: Option<String>,
}

/// Cleans up and prints what was undone.
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
        match journal::undo(journal, &left) {
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
