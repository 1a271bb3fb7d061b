//! `gpubench export`: the figures of many records as one dataset.

use std::path::PathBuf;

use gpubench_compare::{Row, Session};
use gpubench_record::{ExitCode, counted};
use gpubench_stats::{Confidence, Effect};
use gpubench_store::dataset::{self, Figure};

use super::common::exit_codes_help;
use super::comparing::{internal, say_left_out};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::session::each_night;
use crate::verbs::verdict::from_store;

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Writes every figure of records as a dataset of Parquet files, one folder a month
///
/// One row a figure, with its bounds, sorted by host, GPU and driver. A record that the dataset has
/// is left out, so that the same folders can be exported every night. reports/README.md has
/// queries.
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
            let named: Vec<(String, &Session)> =
                found.sessions.iter().map(|one| (id(one), one)).collect();
            let mut figures = Vec::new();
            for (id, session) in &named {
                figures.extend(figures_of(id, session)?);
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

fn fact<'a>(session: &'a Session, name: &str) -> &'a str {
    session.facts.get(name).map_or("", String::as_str)
}

/// One for each record, wherever its folder is.
fn id(session: &Session) -> String {
    let of = |name| fact(session, name);
    let text = [of("uuid"), &session.started_at, of("profile"), of("calibration")].join("\n");
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

fn figures_of<'a>(id: &'a str, session: &'a Session) -> Result<Vec<Figure<'a>>, ExpectedError> {
    let host = fact(session, "hostname");
    let node = session.labels.get("node").map_or("", String::as_str);
    let of_run = ["product", "device", "profile", "calibration", "scoring", "gpubench", "clock"];
    let of_run = of_run.map(|name| fact(session, name));
    let head = [host, fact(session, "uuid"), fact(session, "driver"), &session.started_at, id];
    let measured = session.rows.iter().filter_map(|(key, row)| match row {
        Row::Measured(series) => Some((key, series)),
        _ => None,
    });
    let figures = measured.map(|(key, series)| {
        let beside = key.aggressor.as_deref().unwrap_or_default();
        let row = [key.variant.as_str(), &key.axis, &key.victim, beside, key.metric.as_str()];
        let texts = head.iter().chain(&of_run).chain([&node]).chain(&row).copied();
        let texts: Vec<&str> = texts.collect();
        let own = Effect::of_mean(&series.blocks).and_then(|one| one.interval(Confidence::P95));
        let own = own.map_err(internal)?;
        let (bounds, shown) = (series.bounds, |value| key.metric.shown(value));
        Ok(Figure {
            texts: texts.try_into().map_err(|_| internal("a row of a dataset"))?,
            dose: key.dose.map_or(1.0, |dose| dose.0),
            value: shown(own.value),
            ends: [shown(own.lo - bounds.down), shown(own.hi + bounds.up)],
            blocks: u32::try_from(series.blocks.len()).unwrap_or(u32::MAX),
            is_bound: series.is_bound,
        })
    });
    figures.collect()
}
