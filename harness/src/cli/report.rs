//! `gpubench report`: renders a record, also an incomplete one.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use gpubench_catalogue::axis;
use gpubench_record::{ExitCode, RunRecord};
use gpubench_reports::format::{TEXT, TEXT_ALIAS};
use gpubench_reports::{RenderError, RenderOptions, Selection, View, format};
use gpubench_show::Labels;
use gpubench_store::{SIGNATURE_FILE, write_anonymized};

use super::common::{OutputFlag, exit_codes_help};
use super::comparing::{LISTING, of_records, say_warnings};
use super::names::{Names, axes_of_reports};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::{
    Repair, newest, open_scored, report_options, signing, verdict, verified, without_verdicts,
};

pub const EXIT_CODES: &[ExitCode] = LISTING;

/// Renders a record as text, HTML page or data
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Folder of the record (--out of the run); of several, the newest is rendered
    ///
    /// With several records, the fault rows count the trials of all records of the same device and
    /// driver. With 17 contained trials a night, the first night is evidence for L2 and the fifth
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
        default_value = "text",
        value_parser = formats(),
    )]
    format: String,
    /// Print every table with intervals and counts, not only the matrix on one screen
    ///
    /// With --format md likewise. On a terminal the text goes through PAGER [default: less -FRX].
    #[arg(long)]
    full: bool,
    /// Only these mechanisms, by name or variant (repeat, or separate by commas)
    #[arg(long, value_name = "NAME", value_parser = Names::of_record)]
    mechanism: Vec<Names>,
    /// Only these axes or sub-axes; an axis then has a column for each sub-axis
    #[arg(
        long,
        value_name = "AXIS",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = axes_of_reports(),
    )]
    axis: Vec<String>,
    /// List what is open or doubtful; of a place: its figures with their bounds, and each doubt
    ///
    /// `--why mps` explains the levels of a mechanism, `--why mps/jitter` those of one of its axes,
    /// `--why mps/overall` the weakest: which bound each figure misses, which gate cells fail, how
    /// often, by how much, and what would cure it. What did not run has its reason.
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
    let mut opened = newest(&args.records, repair)?;
    let selection = args.selection(&opened.run)?;
    let view = match (&args.why, args.full) {
        (Some(_), _) => View::Why,
        (None, true) => View::Full,
        (None, false) => View::Screen,
    };
    let earlier: Vec<PathBuf> =
        args.records.iter().filter(|dir| **dir != opened.dir).cloned().collect();
    let options = RenderOptions {
        look: args.output.look(ui),
        lines_max: ui.lines().filter(|_| !args.output.is_file()),
        selection,
        ..report_options(&opened, format, view, &earlier)
    };
    without_verdicts(&mut opened.run);
    let render = |out: &mut dyn Write| (format.render)(&opened.run, &options, out);
    if args.full && [TEXT, TEXT_ALIAS].contains(&args.format.as_str()) {
        let mut text = Vec::new();
        render(&mut text).map_err(ExpectedError::internal)?;
        args.output.write_paged(&text, true, ui)?;
    } else {
        write_rendered(&args.output, render, ui)?;
    }
    Ok(of_records(ExitCode::Done, say_warnings(&opened, ui)))
}

/// Writes a report while it is rendered.
fn write_rendered(
    output: &OutputFlag,
    render: impl FnOnce(&mut dyn Write) -> Result<(), RenderError>,
    ui: &Ui,
) -> Result<(), ExpectedError> {
    let mut failed = None;
    let written = output.write_with(
        |out| match render(out) {
            Ok(()) => Ok(()),
            Err(RenderError::Write(error)) => Err(error),
            Err(error) => Err(std::io::Error::other(failed.insert(error).to_string())),
        },
        ui,
    );
    failed.map_or(written, |error| Err(ExpectedError::internal(error)))
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
    /// Refuses flags of the text format with another one.
    fn check_format(&self) -> Result<(), ExpectedError> {
        let narrows = !self.mechanism.is_empty() || !self.axis.is_empty();
        let is_used = self.full || self.why.is_some() || narrows;
        if is_used && ![TEXT, TEXT_ALIAS, "md"].contains(&self.format.as_str()) {
            return Err(ExpectedError::usage(
                format!(
                    "--full, --why, --mechanism and --axis need --format text or md, and the \
                     format is {}",
                    self.format
                ),
                Some("leave them out: the other formats hold the whole record"),
            ));
        }
        Ok(())
    }

    /// The mechanisms and axes to show. `--why MECHANISM/AXIS` names one of each.
    fn selection(&self, run: &RunRecord) -> Result<Selection, ExpectedError> {
        let (mut mechanisms, mut axes) = (Names::all(&self.mechanism), self.axis.clone());
        if let Some(Some(place)) = &self.why {
            let (mechanism, axis) = match place.split_once('/') {
                Some((mechanism, axis)) => (mechanism, Some(axis)),
                None => (place.as_str(), None),
            };
            mechanisms.push(mechanism.to_owned());
            axes.extend(axis.map(str::to_owned));
        }
        // The screen has labels, as `mps-quota 50%`.
        let labels = Labels::of_records(&[run]);
        for name in &mut mechanisms {
            let rows = run.mechanisms.iter().flat_map(|one| [&one.name, &one.variant]);
            let mut equal = rows.filter(|one| one.eq_ignore_ascii_case(name));
            if let Some(variant) = labels.variant_of(name) {
                *name = variant.to_owned();
            } else if let Some(known) = equal.next() {
                name.clone_from(known);
            }
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
        let known = || axis::known_names().iter().map(ToString::to_string).collect();
        let axes = axes
            .iter()
            .map(|name| axis::named_on_screen(name).ok_or_else(|| unknown("axis", name, known())));
        let axes: Vec<String> = axes.collect::<Result<_, _>>()?;
        // The overall level rests on all axes.
        let is_overall = axes.iter().any(|name| name == axis::OVERALL);
        Ok(Selection { axes: if is_overall { Vec::new() } else { axes }, mechanisms })
    }
}

/// The formats, the first of them also by its former name.
pub(super) fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(format_names().into_iter().map(|name| {
        let value = PossibleValue::new(name);
        if name == TEXT { value.alias(TEXT_ALIAS) } else { value }
    }))
}

fn format_names() -> Vec<&'static str> {
    format::CATALOGUE.iter().map(|format| format.name).collect()
}

// `gpubench report --anonymize`: a copy of a record to be passed on.

/// Writes an anonymized copy of one record to a new folder.
pub fn anonymize(records: &[PathBuf], target: &Path, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let [record] = records else {
        return Err(ExpectedError::usage(
            format!("--anonymize copies one record, and {} are named", records.len()),
            Some("copy each to a folder of its own"),
        ));
    };
    let opened = open_scored(record, Repair::No)?;
    // A folder that exists may have files with the names that the copy lacks.
    if target.exists() {
        return Err(ExpectedError::usage(
            format!("--anonymize: {} exists", target.display()),
            Some("name a folder that does not exist"),
        ));
    }
    std::fs::create_dir_all(target).map_err(|error| ExpectedError::from_write(target, error))?;
    let copied = write_anonymized(&opened.record, &opened.run, target);
    copied.map_err(|error| verdict::from_store(target, error))?;
    ui.note(&format!("anonymized copy: {}", target.display()));
    if record.join(SIGNATURE_FILE).exists() {
        ui.note("the copy is not signed: a signature covers the files of the original alone");
    }
    Ok(ExitCode::Done)
}
