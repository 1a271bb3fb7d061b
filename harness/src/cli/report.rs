//! `gpubench report`: renders a record, also an incomplete one.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use gpubench_record::ExitCode;
use gpubench_reports::{RenderOptions, format};

use super::common::exit_codes_help;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::judge::{Opened, latency_charts, newest};

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::OutputFailed,
];

/// Renders a record as text, HTML page or data
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Folder of the record (--out of the run); of several, the newest is rendered
    ///
    /// With several records, the fault rows count the trials of all records of the same device and
    /// driver. With 14 contained trials a night, the first night is evidence for L2 and the fifth
    /// for L3. Virtual trials are pooled only with virtual ones of the same machine file and
    /// another seed.
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// Output format
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "terminal",
        value_parser = PossibleValuesParser::new(format_names()),
    )]
    format: String,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Renders and prints.
///
/// # Errors
/// When the record cannot be read, or the output cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let format = format::find(&args.format).ok_or_else(|| ExpectedError::UnknownName {
        kind: "format",
        name: args.format.clone(),
        known: format_names().into_iter().map(str::to_owned).collect(),
    })?;
    let Opened {
        dir,
        record,
        run,
        mut warnings,
    } = newest(&args.records)?;
    let latency = if format.is_for_people() {
        latency_charts(&record, &run, &mut warnings)
    } else {
        Vec::new()
    };
    let to_terminal = args.output.is_none();
    let options = RenderOptions {
        color: to_terminal && ui.color_on_stdout(),
        width: if to_terminal {
            ui.width_of_stdout()
        } else {
            None
        },
        record_dir: Some(dir.display().to_string()),
        warnings,
        latency,
    };
    let mut text = Vec::new();
    format
        .render(&run, &options, &mut text)
        .map_err(|error| ExpectedError::Internal {
            what: error.to_string(),
        })?;
    match &args.output {
        None => ui.print_bytes(&text)?,
        Some(path) => {
            std::fs::write(path, &text).map_err(|e| ExpectedError::from_write(path, e))?;
        }
    }
    Ok(ExitCode::Done)
}

fn format_names() -> Vec<&'static str> {
    format::CATALOGUE
        .iter()
        .map(|format| format.name())
        .collect()
}
