//! `gpubench export`: the figures of many records as one dataset.

use std::path::PathBuf;

use gpubench_record::{ExitCode, counted};
use gpubench_store::dataset;

use super::common::exit_codes_help;
use super::comparing::say_left_out;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::session::{each_night, figures_of, head_of, id};
use crate::verbs::verdict::from_store;

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Writes every figure of records as a dataset of Parquet files, one folder a month
///
/// One row a figure, with its bounds, sorted by host, GPU and driver. A record that the dataset has
/// is left out, so that the same folders can be exported every night. The page Datasets of the
/// book has queries.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Folder of the dataset
    #[arg(long, value_name = "DIR")]
    dataset: PathBuf,
    /// Make one file of each month that has several
    #[arg(long)]
    compact: bool,
    /// Folders of records, records, or quoted patterns
    #[arg(required_unless_present = "compact", value_name = "DIR")]
    folders: Vec<PathBuf>,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let failed = |error| from_store(&args.dataset, error);
    if !args.folders.is_empty() {
        let (mut records, mut rows, mut known) = (0, 0, 0);
        each_night(&args.folders, |found| {
            say_left_out(&found.left_out, ui);
            let named: Result<Vec<_>, ExpectedError> =
                found.sessions.iter().map(|one| Ok((id(one), head_of(one)?, one))).collect();
            let named = named?;
            let mut figures = Vec::new();
            for (id, head, session) in &named {
                figures.extend(figures_of(id, head, session)?);
            }
            (records, rows) = (records + named.len(), rows + figures.len());
            known += dataset::add(&args.dataset, figures).map_err(failed)?;
            Ok(())
        })?;
        let dataset = args.dataset.display();
        let records = counted(records, "record");
        let rows = counted(rows, "figure");
        ui.note(&format!("{dataset}: {records} with {rows}, {known} were there already"));
    }
    if args.compact {
        dataset::compact(&args.dataset).map_err(failed)?;
    }
    Ok(ExitCode::Done)
}
