//! `gpubench compare`: records of different GPUs or drivers side by side, without a verdict.

use std::path::PathBuf;

use gpubench_compare::render::{self, Detail, FORMATS, Format};
use gpubench_compare::side_by_side::SideBySide;
use gpubench_record::ExitCode;

use super::common::{OutputFlag, exit_codes_help};
use super::comparing::{LISTING, format_of, formats, internal, of_records};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::session::records;

pub const EXIT_CODES: &[ExitCode] = LISTING;

/// Shows records of different GPUs side by side: levels and ratios, never a regression
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Records, folders of records, or quoted patterns
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// Print every row with every figure, not only levels
    #[arg(long)]
    full: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(FORMATS))]
    format: String,
    #[command(flatten)]
    output: OutputFlag,
}

/// Reads the records and prints them.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let found = records(&args.records, |run| {
        // A table needs none of them, and they are most of a record.
        (run.cells, run.plan.cells, run.fault_trials) = Default::default();
    })?;
    for line in &found.notes {
        ui.note(&format!("warning: {line}"));
    }
    let format = format_of(&args.format, FORMATS)?;
    let table = SideBySide::of(&found.records);
    let detail = if args.full { Detail::Full } else { Detail::Changes };
    let text =
        render::side_by_side(&table, format, detail, args.output.look(ui)).map_err(internal)?;
    args.output.write_paged(text.as_bytes(), args.full && format == Format::Text, ui)?;
    Ok(of_records(ExitCode::Done, found.is_doubtful))
}
