//! `gpubench export`: the figures of many records as one dataset.

use std::path::PathBuf;

use gpubench_record::{ExitCode, counted};
use gpubench_store::dataset;
use schemars::JsonSchema;
use serde::Serialize;

use super::common::{TextFormat, exit_codes_help, versioned_json};
use super::comparing::say_left_out;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::run_folder;
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
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: TextFormat,
}

/// What an export read, and what of it the dataset had.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(title = "gpubench export")]
pub struct Exported {
    dataset: PathBuf,
    /// Records that were read.
    records: usize,
    /// Their figures.
    figures: usize,
    /// Records that the dataset had already.
    known: usize,
    /// Records that could not be read, one line each.
    left_out: Vec<String>,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let failed = |error| from_store(&args.dataset, error);
    run_folder::check_of_many("--dataset", &args.dataset)?;
    let mut all = Exported { dataset: args.dataset.clone(), ..Exported::default() };
    if !args.folders.is_empty() {
        each_night(&args.folders, |found| {
            say_left_out(&found.left_out, ui);
            let named: Result<Vec<_>, ExpectedError> =
                found.sessions.iter().map(|one| Ok((id(one), head_of(one)?, one))).collect();
            let named = named?;
            let mut figures = Vec::new();
            for (id, head, session) in &named {
                figures.extend(figures_of(id, head, session)?);
            }
            all.records += named.len();
            all.figures += figures.len();
            all.left_out.extend(found.left_out);
            all.known += dataset::add(&args.dataset, figures).map_err(failed)?;
            Ok(())
        })?;
        let (dataset, known) = (args.dataset.display(), all.known);
        let records = counted(all.records, "record");
        let rows = counted(all.figures, "figure");
        ui.note(&format!("{dataset}: {records} with {rows}, {known} were there already"));
    }
    if args.compact {
        dataset::compact(&args.dataset).map_err(failed)?;
    }
    if args.format == TextFormat::Json {
        ui.print(&versioned_json("export", &all)?)?;
    }
    Ok(ExitCode::Done)
}
