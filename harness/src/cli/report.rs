//! `gpubench report`: renders a record, also an incomplete one.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser};
use gpubench_catalogue::axis;
use gpubench_record::{Axis, ExitCode, RunRecord, on_one_line};
use gpubench_reports::format::{TEXT, TEXT_ALIAS};
use gpubench_reports::{RenderError, RenderOptions, Selection, View, format};
use gpubench_show::Labels;
use gpubench_store::{SIGNATURE_FILE, write_anonymized};

use super::common::{OutputFlag, exit_codes_help};
use super::comparing::{LISTING, of_records, say_warnings};
use super::names::{Names, Offering, axes_of_reports, places};
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
    #[arg(required_unless_present = "why", value_name = "RECORD")]
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
    /// `--why jitter` those of an axis under every mechanism, `--why mps/oom` one fault,
    /// `--why mps/overall` the weakest axis: which bound each figure misses, which gate cells fail,
    /// how often, by how much, and what would cure it. What did not run has its reason. The id of a
    /// cell shows its gates.
    #[arg(
        long,
        value_name = "MECHANISM/AXIS",
        num_args = 0..=1,
        conflicts_with = "full",
        value_parser = Offering(StringValueParser::new(), places),
        hide_possible_values = true
    )]
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
    args.check_records()?;
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
        let line = |text: &str| on_one_line(&format!("{}: {text}", dir.display())) + "\n";
        for problem in &verified.problems {
            ui.print(&line(problem))?;
        }
        if verified.problems.is_empty() {
            ui.print(&line(&verified.summary))?;
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

    /// Refuses a line whose only name is the place of `--why`.
    fn check_records(&self) -> Result<(), ExpectedError> {
        match &self.why {
            Some(place) if self.records.is_empty() => {
                let place = place.as_deref().unwrap_or("NAME");
                Err(ExpectedError::usage(
                    format!("no record: --why took {place} as what it explains"),
                    Some(&format!("gpubench report {place} --why")),
                ))
            }
            _ => Ok(()),
        }
    }

    /// The mechanisms and axes to show. `--why` names one of each, or one of them.
    fn selection(&self, run: &RunRecord) -> Result<Selection, ExpectedError> {
        let is_cell = |id: &&String| run.plan.cells.iter().any(|cell| cell.id == **id);
        let place = self.why.iter().flatten().next();
        if let Some(id) = place.filter(is_cell) {
            return Ok(Selection { cell: Some(id.clone()), ..Selection::default() });
        }
        let (mut mechanisms, mut axes) = (Names::all(&self.mechanism), self.axis.clone());
        let mut faults = Vec::new();
        if let Some(place) = place {
            let (mechanism, axis) = parts(run, place);
            mechanisms.extend(mechanism.map(str::to_owned));
            match axis.and_then(|axis| fault_of(run, axis)) {
                Some(fault) => {
                    faults.push(fault);
                    axes.push(Axis::Fault.as_str().to_owned());
                }
                None => axes.extend(axis.map(str::to_owned)),
            }
        }
        let mechanisms = mechanisms.iter().map(|name| match known_mechanism(run, name) {
            Some(known) => Ok(known),
            None => Err(unknown(run, name, place.is_some_and(|place| place == name))),
        });
        let mechanisms: Vec<String> = mechanisms.collect::<Result<_, _>>()?;
        let axes = axes.iter().map(|name| {
            axis::named_on_screen(name).ok_or_else(|| ExpectedError::UnknownName {
                kind: "axis",
                name: name.clone(),
                known: known_axes(name),
            })
        });
        let axes: Vec<String> = axes.collect::<Result<_, _>>()?;
        // The overall level of a mechanism rests on all axes.
        let is_overall = axes.iter().any(|name| name == axis::OVERALL) && !mechanisms.is_empty();
        let axes = if is_overall { Vec::new() } else { axes };
        Ok(Selection { axes, mechanisms, faults, cell: None })
    }
}

/// What a place names: `mps/dram`, `dram of mps` as the headings have it, a mechanism, or an axis.
fn parts<'a>(run: &RunRecord, place: &'a str) -> (Option<&'a str>, Option<&'a str>) {
    if known_mechanism(run, place).is_some() {
        return (Some(place), None);
    }
    if let Some((axis, mechanism)) = place.split_once(" of ") {
        return (Some(mechanism), Some(axis));
    }
    if axis::named_on_screen(place).is_some() || fault_of(run, place).is_some() {
        return (None, Some(place));
    }
    match place.split_once('/') {
        Some((mechanism, axis)) => (Some(mechanism), Some(axis)),
        None => (Some(place), None),
    }
}

/// The fault of this record with this name: `oom`, or `fault/oom` as the headings have it.
fn fault_of(run: &RunRecord, name: &str) -> Option<String> {
    let name =
        ["fault/", "faults/"].iter().find_map(|axis| name.strip_prefix(axis)).unwrap_or(name);
    let mut rows = run.matrix.iter().filter(|row| row.axis == Axis::Fault.as_str());
    rows.find_map(|row| row.aggressor.clone().filter(|one| one == name))
}

/// A mechanism of the record by its name, its variant, or its label on the screen.
fn known_mechanism(run: &RunRecord, name: &str) -> Option<String> {
    // The screen has labels, as `mps-quota 50%`.
    if let Some(variant) = Labels::of_records(&[run]).variant_of(name) {
        return Some(variant.to_owned());
    }
    let mut names = run.mechanisms.iter().flat_map(|one| [&one.name, &one.variant]);
    names.find(|one| one.eq_ignore_ascii_case(name)).cloned()
}

/// The error of a name that is no mechanism; where it stands alone it can be an axis as well.
fn unknown(run: &RunRecord, name: &str, is_alone: bool) -> ExpectedError {
    let mut known: Vec<String> = run.mechanisms.iter().map(|one| one.name.clone()).collect();
    known.dedup();
    let kind =
        if is_alone { "mechanism or axis of this record" } else { "mechanism of this record" };
    if is_alone {
        known.extend(known_axes(name));
    }
    ExpectedError::UnknownName { kind, name: name.to_owned(), known }
}

/// The axes as a reader who wrote this name writes them, so that a similar one is found: without
/// the axis of a resource, unless the name has one.
fn known_axes(name: &str) -> Vec<String> {
    let shown = |one: &&'static str| if name.contains('/') { *one } else { last_part(one) };
    axis::known_names().iter().map(|one| shown(one).to_owned()).collect()
}

fn last_part(name: &str) -> &str {
    // The classes of faults have names of resources.
    let own = name.rsplit_once('/').filter(|(axis, _)| *axis != Axis::Fault.as_str());
    own.map_or(name, |(_, last)| last)
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
    if let Some(why) = opened.warnings.first().filter(|_| opened.is_doubtful) {
        let text = format!("it is damaged, and a copy would have checksums of its own: {why}");
        return Err(ExpectedError::unreadable_record(&opened.dir, text));
    }
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
