//! `gpubench outliers`: which device of many differs from its peers.

use std::path::PathBuf;

use gpubench_compare::outliers::{Options, is_compared, outliers};
use gpubench_compare::render::{self, FORMATS};
use gpubench_record::ExitCode;

use super::common::{OutputFlag, exit_codes_help};
use super::comparing::{format_of, formats, internal, of_records, percent, say_problems};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::session::night_means;

pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::TrialFailed,
    ExitCode::OutputFailed,
    ExitCode::Inconclusive,
    ExitCode::Regression,
];

/// Names the devices of a fleet that differ from their peers in native work rates or retention
///
/// Each device is compared with the median of devices of the same product, driver, profile and
/// calibration. It ends with 30 if one differs, and with 10 if no 5 devices have a row in common.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Folders of records, records, or quoted patterns
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// What is one device: uuid, hostname, or a label of the runs (matrix --label)
    #[arg(long, value_name = "NAME", default_value = "uuid")]
    by: String,
    /// Smallest deviation from the median that counts, in percent
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    margin: f64,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(FORMATS))]
    format: String,
    #[command(flatten)]
    output: OutputFlag,
}

/// Reads the records and prints the devices that differ.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let format = format_of(&args.format, FORMATS)?;
    let found = night_means(&args.folders, is_compared)?;
    let options = Options { by: args.by.clone(), margin: args.margin };
    let report = outliers(&found.sessions, found.left_out, &options).map_err(internal)?;
    let text = render::outliers(&report, format, args.output.look(ui)).map_err(internal)?;
    args.output.write(&text, ui)?;
    let code = ExitCode::BY_PRECEDENCE
        .into_iter()
        .find(|code| code.code() == report.exit)
        .unwrap_or(ExitCode::Internal);
    Ok(of_records(code, say_problems(&found.sessions, ui)))
}
