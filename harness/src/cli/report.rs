//! `gpubench report`: renders a record, whole or left behind by a crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use gpubench_record::{CellResult, Condition, ExitCode, RunRecord, SampleRow};
use gpubench_reports::store::{finish, write_record_json};
use gpubench_reports::{LatencyChart, LatencyCurve, Record, RenderOptions, StoreError, format};

use super::common::exit_codes_help;
use super::judge::{judge, score_again};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::score;

/// Renders a record: as a table, a page, or data
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(&[
    ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed,
]))]
pub struct Args {
    /// Folder of the record, as `--out` named it; of several, the newest is rendered
    ///
    /// The fault rows of the newest then count the trials of all that have the same device and
    /// driver: 14 a night that are all contained show L2, and L3 takes five nights. Virtual trials
    /// count with those of the same machine file and another seed, and never with real ones.
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// How to render it
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "terminal",
        value_parser = PossibleValuesParser::new(format_names()),
    )]
    format: String,
    /// File to write, in place of standard output
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
    // Curves read every sample of the record, so only the format that draws them asks for them.
    let latency = if format.extension() == "html" {
        charts(&record, &run, &mut warnings)
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

/// A record with what is to be rendered of it.
struct Opened {
    dir: PathBuf,
    record: Record,
    run: RunRecord,
    warnings: Vec<String>,
}

/// Opens a record. A run that left no scores is judged now, by the same rules, from what it left.
fn open_judged(dir: &Path) -> Result<Opened, ExpectedError> {
    let record = open(dir)?;
    let (run, warnings) = if record.is_rebuilt() {
        conclude(dir)?
    } else {
        (record.run().clone(), record.warnings().to_vec())
    };
    Ok(Opened {
        dir: dir.to_owned(),
        record,
        run,
        warnings,
    })
}

/// The newest of these records, with the fault trials of the others counted too.
fn newest(dirs: &[PathBuf]) -> Result<Opened, ExpectedError> {
    let mut all = Vec::new();
    for dir in dirs {
        all.push(open_judged(dir)?);
    }
    // Times of day are in UTC and of one form, so that their order as text is that in time.
    all.sort_by(|a, b| {
        a.run
            .provenance
            .started_at
            .cmp(&b.run.provenance.started_at)
    });
    let Some(mut newest) = all.pop() else {
        return Err(ExpectedError::Usage {
            problem: "no record was named".to_owned(),
            remedy: None,
        });
    };
    if all.is_empty() {
        return Ok(newest);
    }
    let name = |dir: &Path| dir.display().to_string();
    let others: Vec<_> = all.iter().map(|one| (name(&one.dir), &one.run)).collect();
    let pooled = score::pool(&newest.run, &others);
    let again = score_again(&mut newest.run, &pooled.earlier);
    again.map_err(|error| ExpectedError::RecordUnreadable {
        path: newest.dir.clone(),
        problem: error.to_string(),
    })?;
    newest.run.records_left_out = pooled.left_out;
    Ok(newest)
}

/// Does for a crashed run what it could not do itself: stores its samples, judges its cells, writes
/// its record, marked incomplete. A run that is still going is judged as far as it got, and a
/// folder that cannot be written is read all the same.
fn conclude(dir: &Path) -> Result<(RunRecord, Vec<String>), ExpectedError> {
    let finished = finish(dir);
    let (run, mut warnings) = judge(dir).map_err(|error| ExpectedError::RecordUnreadable {
        path: dir.to_owned(),
        problem: error.to_string(),
    })?;
    let written = finished.and_then(|done| {
        warnings.extend(done.warnings);
        write_record_json(dir, &run)
    });
    match written {
        Ok(()) | Err(StoreError::InUse { .. }) => {}
        Err(error) => warnings.push(format!("the record stays as the crash left it: {error}")),
    }
    Ok((run, warnings))
}

/// Opens a record and says in our words what is wrong with it.
///
/// # Errors
/// When there is none, or it cannot be read by this version.
pub fn open(dir: &Path) -> Result<Record, ExpectedError> {
    Record::open(dir).map_err(|error| expected(dir, error))
}

/// What a trouble with a record's folder means to the user.
#[must_use]
pub fn expected(dir: &Path, error: StoreError) -> ExpectedError {
    let (path, problem) = (dir.to_owned(), error.to_string());
    match error {
        StoreError::Version { source, .. } => ExpectedError::IncompatibleVersion {
            path,
            problem: source.to_string(),
        },
        StoreError::Io { path, source, .. } => ExpectedError::from_write(path, source),
        StoreError::Occupied { .. } | StoreError::InUse { .. } => ExpectedError::Usage {
            problem,
            remedy: None,
        },
        _ => ExpectedError::RecordUnreadable { path, problem },
    }
}

/// For each victim, the latencies alone on the GPU and beside a full aggressor.
fn charts(record: &Record, run: &RunRecord, warnings: &mut Vec<String>) -> Vec<LatencyChart> {
    let mut charts = Vec::new();
    let mut by_victim: BTreeMap<&str, BTreeMap<String, Vec<&CellResult>>> = BTreeMap::new();
    for cell in run.cells.iter().filter(|cell| is_drawn(cell)) {
        let curves = by_victim.entry(&cell.victim).or_default();
        curves.entry(label(cell)).or_default().push(cell);
    }
    for (victim, curves) in by_victim {
        let curves = curves
            .into_iter()
            .filter_map(|(label, cells)| curve(record, label, &cells, warnings))
            .collect();
        charts.push(LatencyChart {
            victim: victim.to_owned(),
            curves,
        });
    }
    charts
}

fn is_drawn(cell: &CellResult) -> bool {
    let contended = cell.condition == Condition::C && cell.dose >= 1.0;
    cell.outcome.is_measured() && (cell.condition == Condition::N || contended)
}

fn label(cell: &CellResult) -> String {
    match &cell.aggressor {
        Some(aggressor) => format!("{} beside {aggressor}", cell.variant),
        None => "alone on the GPU".to_owned(),
    }
}

fn curve(
    record: &Record,
    label: String,
    cells: &[&CellResult],
    warnings: &mut Vec<String>,
) -> Option<LatencyCurve> {
    let mut rows: Vec<SampleRow> = Vec::new();
    for cell in cells {
        let Some(victim) = cell.tenants.first() else {
            continue;
        };
        match record.samples(&cell.id, &victim.tenant) {
            Ok(of_cell) => rows.extend(of_cell),
            Err(error) => {
                // A curve over some of its cells would look like the whole.
                warnings.push(format!("no latency curve \"{label}\": {error}"));
                return None;
            }
        }
    }
    LatencyCurve::from_rows(label, &rows)
}

#[cfg(test)]
mod tests {
    use super::open;
    use crate::error::ExpectedError;

    #[test]
    fn a_folder_without_a_record_is_told() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let Err(error) = open(folder.path()) else {
            return Err("an empty folder was taken for a record".into());
        };
        assert!(matches!(error, ExpectedError::RecordUnreadable { .. }));
        assert_eq!(error.exit_code().code(), 2);
        Ok(())
    }

    #[test]
    fn another_format_version_is_told_from_damage() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let json = folder.path().join("record.json");
        std::fs::write(&json, r#"{"format_version": {"major": 99, "minor": 0}}"#)?;
        assert!(matches!(
            open(folder.path()),
            Err(ExpectedError::IncompatibleVersion { .. })
        ));
        std::fs::write(&json, "{\"format_version\": ")?;
        assert!(matches!(
            open(folder.path()),
            Err(ExpectedError::RecordUnreadable { .. })
        ));
        Ok(())
    }
}
