//! `gpubench report`: renders a record, also an incomplete one.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use gpubench_record::{ExitCode, RunRecord};
use gpubench_reports::{RenderOptions, Selection, View, format};

use super::anonymize::anonymize;
use super::common::{OutputFlag, exit_codes_help};
use super::comparing::{of_records, say_warnings};
use super::ui::Ui;
use crate::axis;
use crate::error::ExpectedError;
use crate::judge::{Repair, newest, report_options, signing, verified};

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::TrialFailed,
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
    /// Only check the records: each file against its checksum, the scores against the cells
    ///
    /// Prints what is wrong, and ends with 4 if anything is. Every other use names the same on
    /// stderr and in its output.
    #[arg(
        long,
        conflicts_with_all = ["full", "why", "mechanism", "axis", "output", "format", "repair"]
    )]
    verify: bool,
    /// With --verify: check the signature of each record by this public key of minisign
    ///
    /// A record without a signature, with a bad one, or with a file that the signature does not
    /// cover ends with 4.
    #[arg(long, value_name = "FILE", requires = "verify")]
    public_key: Option<PathBuf>,
    /// Store the scores of a run that crashed in its record
    ///
    /// Without this flag a report changes no record: the scores of a crashed run are computed anew
    /// for each report.
    #[arg(long)]
    repair: bool,
    /// Output format
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "terminal",
        value_parser = PossibleValuesParser::new(format_names()),
    )]
    format: String,
    /// Print every table with intervals and counts, not only the matrix on one screen
    #[arg(long)]
    full: bool,
    /// Only these mechanisms, by name or variant (repeat, or separate by commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    mechanism: Vec<String>,
    /// Only these axes or sub-axes; an axis then has a column for each sub-axis
    #[arg(
        long,
        value_name = "AXIS",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(axis::known_names()),
    )]
    axis: Vec<String>,
    /// Explain each doubt: which gate, how often, by how much, and what would cure it
    ///
    /// `--why mps` explains those of a mechanism, `--why mps/jitter` those of one of its axes.
    #[arg(long, value_name = "MECHANISM/AXIS", num_args = 0..=1, conflicts_with = "full")]
    why: Option<Option<String>>,
    #[command(flatten)]
    output: OutputFlag,
    /// Write a copy of the record without host names, UUIDs, users and commands to this new folder
    ///
    /// The copy has figures, telemetry and samples, and can be read like any record. Each UUID has
    /// a substitute, the same in every copy. Labels, commands, events.jsonl and the signature are
    /// left out. The name of the profile stays.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["repair", "format", "full", "mechanism", "axis", "why", "output"],
    )]
    anonymize: Option<PathBuf>,
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
    args.check_format()?;
    if args.verify {
        return verify(args, ui);
    }
    if let Some(target) = &args.anonymize {
        return anonymize(&args.records, target, ui);
    }
    let repair = if args.repair { Repair::Yes } else { Repair::No };
    let opened = newest(&args.records, repair)?;
    let selection = args.selection(&opened.run)?;
    let view = match (&args.why, args.full) {
        (Some(_), _) => View::Why,
        (None, true) => View::Full,
        (None, false) => View::Screen,
    };
    let earlier: Vec<PathBuf> =
        args.records.iter().filter(|dir| **dir != opened.dir).cloned().collect();
    let to_terminal = !args.output.is_file();
    let options = RenderOptions {
        color: to_terminal && ui.color_on_stdout(),
        width: ui.width_of_stdout().filter(|_| to_terminal),
        selection,
        ..report_options(&opened, format, view, &earlier)
    };
    let mut text = Vec::new();
    format
        .render(&opened.run, &options, &mut text)
        .map_err(|error| ExpectedError::Internal { what: error.to_string() })?;
    args.output.write(&text, ui)?;
    Ok(of_records(ExitCode::Done, say_warnings(&opened, ui)))
}

/// Prints what is wrong with each record.
fn verify(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let key = args.public_key.as_deref().map(signing::public_key);
    let key = key.transpose()?;
    let mut code = ExitCode::Done;
    for dir in &args.records {
        let verified = verified(dir, key.as_ref())?;
        for problem in &verified.problems {
            ui.print(&format!("{}: {problem}\n", dir.display()))?;
        }
        if verified.problems.is_empty() {
            ui.print(&format!("{}: {}\n", dir.display(), verified.summary))?;
        } else {
            code = ExitCode::TrialFailed;
        }
    }
    Ok(code)
}

impl Args {
    /// Refuses flags of the terminal format with another one.
    fn check_format(&self) -> Result<(), ExpectedError> {
        let narrows = !self.mechanism.is_empty() || !self.axis.is_empty();
        let is_used = self.full || self.why.is_some() || narrows;
        if is_used && self.format != "terminal" {
            return Err(ExpectedError::Usage {
                problem: format!(
                    "--full, --why, --mechanism and --axis need --format terminal, and the format \
                     is {}",
                    self.format
                ),
                remedy: Some("leave them out: the other formats hold the whole record".to_owned()),
            });
        }
        Ok(())
    }

    /// The mechanisms and axes to show. `--why MECHANISM/AXIS` names one of each.
    fn selection(&self, run: &RunRecord) -> Result<Selection, ExpectedError> {
        let (mut mechanisms, mut axes) = (self.mechanism.clone(), self.axis.clone());
        if let Some(Some(place)) = &self.why {
            let (mechanism, axis) = match place.split_once('/') {
                Some((mechanism, axis)) => (mechanism, Some(axis)),
                None => (place.as_str(), None),
            };
            mechanisms.push(mechanism.to_owned());
            axes.extend(axis.map(str::to_owned));
        }
        let known = |name: &String| {
            let mut all = run.mechanisms.iter();
            all.any(|one| one.name == *name || one.variant == *name)
        };
        let mut names: Vec<String> = run.mechanisms.iter().map(|one| one.name.clone()).collect();
        names.dedup();
        let unknown = |kind, name: &String, known| ExpectedError::UnknownName {
            kind,
            name: name.clone(),
            known,
        };
        if let Some(name) = mechanisms.iter().find(|name| !known(name)) {
            return Err(unknown("mechanism of this record", name, names));
        }
        let axis_names = axis::known_names();
        if let Some(name) = axes.iter().find(|name| !axis_names.contains(&name.as_str())) {
            let known = axis_names.iter().map(ToString::to_string).collect();
            return Err(unknown("axis", name, known));
        }
        Ok(Selection { mechanisms, axes })
    }
}

fn format_names() -> Vec<&'static str> {
    format::CATALOGUE.iter().map(|format| format.name()).collect()
}
