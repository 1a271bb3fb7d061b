//! `gpubench man`: manual pages.

use std::path::PathBuf;

use gpubench_record::ExitCode;

use super::common::exit_codes_help;
use super::ui::Ui;
use crate::error::ExpectedError;

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Prints the manual page, or writes those of every verb into a folder
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Write gpubench.1 and a page of each verb into this folder
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    match &args.output {
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(super::command())
                .render(&mut text)
                .map_err(|error| ExpectedError::internal(format!("manual page: {error}")))?;
            ui.print_bytes(&text)?;
        }
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(super::command(), dir))
            .map_err(|error| ExpectedError::from_write(dir, error))?,
    }
    Ok(ExitCode::Done)
}
