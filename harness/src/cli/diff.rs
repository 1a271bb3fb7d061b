//! `gpubench diff`: did what was varied change the isolation?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use gpubench_compare::diff::comparability::{is_known, known};
use gpubench_compare::diff::{FailOn, MarginsWish, Options, Repeatability, diff};
use gpubench_compare::history::Baseline;
use gpubench_compare::render::{self, DIFF_FORMATS, Detail, Format};
use gpubench_compare::{RowKey, Session};
use gpubench_record::{ExitCode, counted};

use super::common::{OutputFlag, exit_codes_help};
use super::comparing::{
    JUDGING, format_of, formats, internal, of_records, percent, read, refused, say_left_out,
    say_problems,
};
use super::names::{Offering, facts};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::published;
use crate::verbs::session::{Sessions, both_sides, declared, known_spread, nights, pinned};

pub const EXIT_CODES: &[ExitCode] = JUDGING;

/// Compares the records of two sides: gpubench diff --vary driver BEFORE AFTER
///
/// A side is a record, a folder of records, or a quoted pattern; sides of several are
/// BEFORE... --to AFTER..., or BEFORE... -- AFTER... A change is attributed to what
/// --vary names from 3 sessions a side on; every other fact that decides figures must be equal.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = exit_codes_help(EXIT_CODES),
    override_usage = "gpubench diff [OPTIONS] BEFORE AFTER\n       \
                      gpubench diff [OPTIONS] BEFORE... --to AFTER...\n       \
                      gpubench diff [OPTIONS] --against-history DIR AFTER",
)]
pub struct Args {
    /// Records of the side before, and one of the side after where --to names none
    #[arg(required_unless_present = "against_history", value_name = "BEFORE")]
    before: Vec<PathBuf>,
    /// Records of the side after
    #[arg(long, num_args = 1.., value_name = "AFTER", conflicts_with = "after")]
    to: Vec<PathBuf>,
    /// Records of the side after, behind --
    #[arg(last = true, value_name = "AFTER")]
    after: Vec<PathBuf>,
    /// Compare with the last segment of at least 10 sessions of these nights; implies --vary driver
    ///
    /// The segment holds sessions of the same GPU, profile, calibration and gpubench that are older
    /// than AFTER. After a declared change or another driver the segment before stays the baseline
    /// until the new one has 10 sessions.
    #[arg(long, value_name = "DIR")]
    against_history: Option<PathBuf>,
    /// Compare with this pinned baseline of these nights (history pin), in place of a segment
    #[arg(long, value_name = "NAME", requires = "against_history")]
    baseline: Option<String>,
    /// Nights of this GPU: how far its sessions differ where each side is one session
    #[arg(long, value_name = "DIR", conflicts_with = "against_history")]
    history: Option<PathBuf>,
    /// The same of another GPU of the model, as doctor --calibrate --format json printed it
    ///
    /// What doctor --calibrate kept of this GPU counts first, then --history, then this file.
    #[arg(long, value_name = "FILE", conflicts_with = "against_history")]
    spread: Option<PathBuf>,
    /// Facts that differ on purpose (repeat, or separate by commas): driver, kernel, gpubench...
    #[arg(
        long,
        value_name = "FACT",
        value_delimiter = ',',
        value_parser = Offering(fact, facts),
        hide_possible_values = true
    )]
    vary: Vec<String>,
    /// Compare although other facts differ; every change is then confounded with them
    #[arg(long)]
    force: bool,
    /// Smallest change of ratios, rates and medians that matters, in percent
    ///
    /// The default is that of the records' profile, where 3 is the default; so for all margins.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    margin: Option<f64>,
    /// Smallest change of the 99th percentile that matters, in percent
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    margin_p99: Option<f64>,
    /// Smallest change of jitter that matters, in percent of a native median and of the jitter
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    margin_jitter: Option<f64>,
    /// Smallest change of proportions of trials that matters, in points
    #[arg(long, value_name = "POINTS", value_parser = percent)]
    margin_survival: Option<f64>,
    /// Verdicts of primary rows that fail (repeat, or separate by commas)
    #[arg(
        long,
        value_name = "VERDICT",
        value_delimiter = ',',
        default_value = "regression,inconclusive",
        value_parser = PossibleValuesParser::new(["regression", "inconclusive", "improved"]),
    )]
    fail_on: Vec<String>,
    /// No verdict fails; sides that cannot be compared still do
    #[arg(long, conflicts_with = "fail_on")]
    advisory: bool,
    /// List all rows, also unchanged ones
    #[arg(long)]
    full: bool,
    /// Output format
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        value_parser = formats(DIFF_FORMATS),
    )]
    format: String,
    #[command(flatten)]
    output: OutputFlag,
}

/// Compares and prints.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let mut options = args.options();
    let (before, after) = match &args.against_history {
        None => {
            let (before, after) = args.sides()?;
            let (before, after) = both(both_sides(before, after), ui)?;
            options.history = args.known([&before, &after], ui)?;
            (before, after)
        }
        Some(folder) => {
            let (name, after) = (args.baseline.as_deref(), read(args.tonight()?, ui)?.sessions);
            let history = nights(std::slice::from_ref(folder))?;
            say_left_out(&history.left_out, ui);
            (baseline(&history.sessions, folder, name, &after, &mut options)?, after)
        }
    };
    let report = diff(&before, &after, &options).map_err(internal)?;
    let format = format_of(&args.format, DIFF_FORMATS)?;
    let detail = if args.full { Detail::Full } else { Detail::Changes };
    let text = render::diff(&report, format, detail, args.output.look(ui)).map_err(internal)?;
    args.output.write_paged(text.as_bytes(), args.full && format == Format::Text, ui)?;
    let doubtful = [&before, &after].map(|side| say_problems(side, ui));
    Ok(of_records(report.exit_code(), doubtful.contains(&true)))
}

/// The sessions of two sides, or one error that names every side which cannot be read.
fn both(
    sides: [Result<Sessions, ExpectedError>; 2],
    ui: &Ui,
) -> Result<(Vec<Session>, Vec<Session>), ExpectedError> {
    for found in sides.iter().flatten() {
        say_left_out(&found.left_out, ui);
    }
    match sides {
        [Err(before), Err(after)] => {
            Err(ExpectedError::Usage { problem: format!("{before}; {after}"), remedy: None })
        }
        [before, after] => Ok((before?.sessions, after?.sessions)),
    }
}

impl Args {
    /// What --to or -- names as the side after; empty where neither is there.
    fn named_after(&self) -> &[PathBuf] {
        if self.to.is_empty() { &self.after } else { &self.to }
    }

    /// Both sides: two records without --to or -- are one each.
    fn sides(&self) -> Result<(&[PathBuf], &[PathBuf]), ExpectedError> {
        match (self.before.as_slice(), self.named_after()) {
            ([before, after], []) => {
                Ok((std::slice::from_ref(before), std::slice::from_ref(after)))
            }
            (_, []) => Err(ExpectedError::Usage {
                problem: format!(
                    "the side after is missing: {} given, and neither --to nor --",
                    counted(self.before.len(), "record")
                ),
                remedy: Some("gpubench diff BEFORE AFTER, or BEFORE... --to AFTER...".to_owned()),
            }),
            sides => Ok(sides),
        }
    }

    /// The side that is compared with a history: named in one of the three ways.
    fn tonight(&self) -> Result<&[PathBuf], ExpectedError> {
        match (self.before.as_slice(), self.named_after()) {
            ([], []) => Err(ExpectedError::Usage {
                problem: "the record to compare with the history is missing".to_owned(),
                remedy: Some("gpubench diff --against-history DIR AFTER".to_owned()),
            }),
            (after, []) | ([], after) => Ok(after),
            _ => Err(ExpectedError::Usage {
                problem: "--against-history is the side before, and records are given for it too"
                    .to_owned(),
                remedy: Some("gpubench diff --against-history DIR AFTER".to_owned()),
            }),
        }
    }

    /// What is known of the spread between sessions of each row.
    fn known(
        &self,
        sides: [&[Session]; 2],
        ui: &Ui,
    ) -> Result<BTreeMap<RowKey, Repeatability>, ExpectedError> {
        let nights = match &self.history {
            Some(folder) => {
                let history = nights(std::slice::from_ref(folder))?;
                say_left_out(&history.left_out, ui);
                segment(&history.sessions, folder, None, sides[1])?.repeatability
            }
            None => BTreeMap::new(),
        };
        let published = self.spread.as_deref().map(published).transpose()?;
        // It decides comparisons of one record with one.
        let is_needed = sides.iter().all(|side| side.len() == 1);
        let say = |text: &str| {
            if is_needed {
                ui.note(&format!("note: {text}"));
            }
        };
        known_spread(sides, nights, published.as_ref(), say)
    }

    fn options(&self) -> Options {
        let fails = |name: &str| self.fail_on.iter().any(|one| one == name);
        let fail_on = if self.advisory {
            FailOn::NOTHING
        } else {
            FailOn {
                regression: fails("regression"),
                inconclusive: fails("inconclusive"),
                improved: fails("improved"),
            }
        };
        Options {
            vary: self.vary.clone(),
            force: self.force,
            margins: MarginsWish {
                ratio: self.margin,
                p99: self.margin_p99,
                jitter: self.margin_jitter,
                survival: self.margin_survival,
            },
            fail_on,
            ..Options::default()
        }
    }
}

/// The sessions of a history to compare with; what it knows of their spread goes to the options.
pub(super) fn baseline(
    history: &[Session],
    folder: &Path,
    name: Option<&str>,
    after: &[Session],
    options: &mut Options,
) -> Result<Vec<Session>, ExpectedError> {
    let baseline = segment(history, folder, name, after)?;
    options.history = baseline.repeatability;
    options.nights = baseline.nights;
    let driver = "driver".to_owned();
    if !options.vary.contains(&driver) {
        options.vary.push(driver);
    }
    Ok(baseline.sessions)
}

/// The last segment of a history, or a pinned one.
fn segment(
    history: &[Session],
    folder: &Path,
    name: Option<&str>,
    after: &[Session],
) -> Result<Baseline, ExpectedError> {
    // The first session of the side: later ones must not be their own baseline.
    let Some(tonight) = after.first() else {
        return Err(internal("a side without sessions"));
    };
    let found = match name {
        Some(name) => {
            let sessions = pinned_sessions(folder, name, history)?;
            Baseline::pinned(sessions, history, tonight)
        }
        None => Baseline::of(history, &declared(&[folder.to_owned()])?, tonight),
    };
    found.map_err(|error| ExpectedError::NoBaseline {
        path: folder.to_owned(),
        problem: error.to_string(),
    })
}

/// The sessions of a pinned baseline, all of which must be readable.
fn pinned_sessions(
    folder: &Path,
    name: &str,
    history: &[Session],
) -> Result<Vec<Session>, ExpectedError> {
    let pin = pinned(folder, name)?;
    let is = |session: &Session, record: &str| {
        Path::new(&session.name).file_name() == Some(record.as_ref())
    };
    let find = |record: &String| {
        let found = history.iter().find(|session| is(session, record));
        found.cloned().ok_or_else(|| {
            let problem = format!("baseline {name} has {record}, which is no readable record");
            refused(folder, problem, "pin the baseline again")
        })
    };
    pin.records.iter().map(find).collect()
}

fn fact(text: &str) -> Result<String, String> {
    if is_known(text) {
        return Ok(text.to_owned());
    }
    let known: Vec<&str> = known().collect();
    Err(format!("accepted: {}", known.join(", ")))
}
