//! `gpubench history`: how the isolation of a GPU went over many nights.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpubench_compare::Metric;
use gpubench_compare::history::{Acknowledged, Declared, History, Unmeasured};
use gpubench_compare::render;
use gpubench_compare::render::{Detail, Format, HISTORY_FORMATS};
use gpubench_record::{ExitCode, counted};
use gpubench_run::{rfc3339, rfc3339_now};
use schemars::JsonSchema;
use serde::Serialize;

use super::common::{OutputFlag, TextFormat, exit_codes_help, versioned_json, whole};
use super::comparing::{format_of, formats, internal, of_records, say_problems};
use super::nightly::end::LIST;
use super::ui::Ui;
use crate::error::{ExpectedError, read_text};
use crate::verbs::session::{
    Keep, Old, Pin, Pins, Pruning, Sessions, acknowledge, acknowledged, declare, declared,
    night_means, pin, pins, pruning, remove, unpin,
};

/// A line for each of a million nights.
const LIST_MAX: u64 = 256 << 20;

pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::TrialFailed,
    ExitCode::OutputFailed,
    ExitCode::Regression,
];

/// Follows rows over many nights: what got worse across an event or drifts, which GPU is missing
///
/// The nights before and after an event are compared by the rules of gpubench diff, on each GPU and
/// over all of them. It ends with 30 while an unacknowledged regression stands, and with 3
/// where a GPU stopped reporting. Change points and deviations are reasons to look.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = exit_codes_help(EXIT_CODES),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Folders of records, records, quoted patterns, or datasets (gpubench export)
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Series of their own for each value of a label of the runs (matrix --label)
    #[arg(long, value_name = "LABEL")]
    by: Option<String>,
    /// Output format
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        value_parser = formats(HISTORY_FORMATS),
    )]
    format: String,
    /// Nights and changes of each series, also of many; on a terminal through $PAGER
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    output: OutputFlag,
}

/// Reads the nights and prints their history, or acts on a folder of nights.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    if let Some(action) = &args.action {
        return action.run(ui);
    }
    refuse_unknown_action(&args.folders)?;
    let format = format_of(&args.format, HISTORY_FORMATS)?;
    let found = night_means(&args.folders, Metric::is_primary)?;
    let is_doubtful = say_problems(&found.sessions, ui);
    if let Some(label) = &args.by
        && !found.sessions.iter().any(|one| one.labels.contains_key(label))
    {
        let known: BTreeSet<&String> =
            found.sessions.iter().flat_map(|one| one.labels.keys()).collect();
        return Err(ExpectedError::UnknownName {
            kind: "label of these runs",
            name: label.clone(),
            known: known.into_iter().cloned().collect(),
        });
    }
    let history = history_of(found, &args.folders, args.by.as_deref())?;
    let detail = if args.full { Detail::Full } else { Detail::Changes };
    let look = args.output.look(ui);
    let text = render::history(&history, format, detail, look).map_err(internal)?;
    args.output.write_paged(text.as_bytes(), args.full && format == Format::Text, ui)?;
    Ok(of_records(history.exit_code(), is_doubtful))
}

/// The nights of a folder since its last record, by its list; `None` where the last one has a
/// record, or declares that there is no GPU.
fn unmeasured(folder: &Path) -> Result<Option<Unmeasured>, ExpectedError> {
    let path = folder.join(LIST);
    if !path.exists() {
        return Ok(None);
    }
    let text = read_text("list of nights", &path, LIST_MAX)?;
    let verdicts = text.lines().rev().filter_map(|line| line.split('\t').nth(1));
    let is_failed = |verdict: &&str| {
        verdict.starts_with("not measured (") && !verdict.starts_with("not measured (0)")
    };
    let failed: Vec<&str> = verdicts.take_while(is_failed).collect();
    Ok(failed.first().map(|verdict| Unmeasured {
        folder: folder.display().to_string(),
        nights: u32::try_from(failed.len()).unwrap_or(u32::MAX),
        verdict: (*verdict).to_owned(),
    }))
}

fn history_of(
    found: Sessions,
    folders: &[PathBuf],
    by: Option<&str>,
) -> Result<History, ExpectedError> {
    let declared = declared(folders)?;
    let mut history =
        History::of(&found.sessions, found.left_out, &declared, by).map_err(internal)?;
    for folder in folders {
        history.unmeasured.extend(unmeasured(folder)?);
    }
    Ok(history.acknowledged(&acknowledged(folders)?))
}

fn refuse_unknown_action(folders: &[PathBuf]) -> Result<(), ExpectedError> {
    let Some(name) =
        folders.first().filter(|first| !first.exists()).and_then(|first| first.to_str())
    else {
        return Ok(());
    };
    let is_word = name.chars().all(|letter| letter.is_ascii_alphabetic());
    if !is_word {
        return Ok(());
    }
    let command = super::command();
    let history = command.find_subcommand("history");
    let actions = history.into_iter().flat_map(|history| history.get_subcommands());
    let known = actions.map(|action| action.get_name().to_owned());
    Err(ExpectedError::UnknownName {
        kind: "folder or action of history",
        name: name.to_owned(),
        known: known.chain(["or a folder of records".to_owned()]).collect(),
    })
}

// What `gpubench history` does to a folder of nights: declares changes, pins baselines, and
// removes old nights.

/// An action on a folder of nights.
#[derive(Debug, clap::Subcommand)]
pub enum Action {
    /// Declares an expected change: nights from its time on begin a new segment
    #[command(after_long_help = exit_codes_help(EXIT_CODES))]
    Declare {
        /// Folder of records
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// What changes
        #[arg(value_name = "WHAT")]
        what: String,
        /// When, as 2026-01-31T00:00:00Z [default: now]
        #[arg(long, value_name = "TIME", value_parser = rfc3339)]
        at: Option<String>,
    },
    /// Acknowledges the regressions that stand: they are listed, and no longer end with 30
    ///
    /// The rows are kept with the time; a regression of another row, or one that begins later, is
    /// not acknowledged. A night that compares with nothing is acknowledged too.
    #[command(after_long_help = exit_codes_help(EXIT_CODES))]
    Acknowledge {
        /// Folder of records
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Why they are accepted
        #[arg(value_name = "WHY")]
        what: String,
    },
    /// Pins records of the folder as a baseline: gpubench diff --baseline NAME compares with them
    #[command(after_long_help = exit_codes_help(EXIT_CODES))]
    Pin {
        /// Folder of records
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Name of the baseline; what it had is replaced
        #[arg(value_name = "NAME")]
        name: String,
        /// Its records, or quoted patterns
        #[arg(required = true, value_name = "RECORD")]
        records: Vec<PathBuf>,
    },
    /// Removes a baseline; its records stay
    #[command(after_long_help = exit_codes_help(EXIT_CODES))]
    Unpin {
        /// Folder of records
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Name of the baseline
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Lists the pinned baselines
    #[command(after_long_help = exit_codes_help(EXIT_CODES))]
    Pins {
        /// Folder of records
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Output format
        #[arg(long, value_enum, default_value = "text")]
        format: TextFormat,
    },
    /// Removes old nights; without --yes it only lists them
    ///
    /// Records of a pinned baseline, unfinished and unreadable ones stay.
    #[command(
        after_long_help = exit_codes_help(EXIT_CODES),
        group = clap::ArgGroup::new("nights").args(["keep", "before"]).required(true),
    )]
    Prune {
        /// Folder of records
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Keep the last N nights of each GPU
        #[arg(long, value_name = "N", value_parser = whole::<usize>(1, 1_000_000))]
        keep: Option<usize>,
        /// Remove nights that began before this time, as 2026-01-31T00:00:00Z
        #[arg(long, value_name = "TIME", value_parser = rfc3339)]
        before: Option<String>,
        /// Remove them
        #[arg(long)]
        yes: bool,
        /// Output format
        #[arg(long, value_enum, default_value = "text")]
        format: TextFormat,
    },
}

impl Action {
    /// Does it, and says what it did.
    /// Fails when a file cannot be read, written or removed.
    pub fn run(&self, ui: &Ui) -> Result<ExitCode, ExpectedError> {
        match self {
            Self::Declare { folder, what, at } => {
                let change =
                    Declared { at: at.clone().unwrap_or_else(rfc3339_now), what: what.clone() };
                let path = declare(folder, &change)?;
                let (at, path) = (change.at, path.display());
                ui.note(&format!("declared from {at} on in {path}"));
            }
            Self::Acknowledge { folder, what } => {
                let folders = std::slice::from_ref(folder);
                let found = night_means(folders, Metric::is_primary)?;
                let history = history_of(found, folders, None)?;
                let rows = history.unacknowledged().flat_map(|one| &one.rows);
                let rows: BTreeSet<String> = rows.map(|row| row.row.clone()).collect();
                let listed = rows.iter().cloned().collect::<Vec<_>>().join(", ");
                let one = Acknowledged { at: rfc3339_now(), what: what.clone(), rows };
                let path = acknowledge(folder, &one)?;
                let listed = if listed.is_empty() { "no row stands" } else { &listed };
                ui.note(&format!("acknowledged in {}: {listed}", path.display()));
            }
            Self::Pin { folder, name, records } => {
                let count = pin(folder, name, records, rfc3339_now())?;
                ui.note(&format!("{name}: {} pinned", counted(count, "record")));
            }
            Self::Unpin { folder, name } => {
                unpin(folder, name)?;
                ui.note(&format!("{name}: no longer pinned"));
            }
            Self::Pins { folder, format } => {
                let pins = pins(folder)?;
                let line = |(name, pin): (&String, &Pin)| {
                    format!("{name}  {}  {}\n", pin.at, pin.records.join(" "))
                };
                let text = match format {
                    TextFormat::Json => versioned_json("pins", &PinsJson { pins })?,
                    TextFormat::Text => pins.iter().map(line).collect(),
                };
                ui.print(&text)?;
            }
            Self::Prune { folder, keep, before, yes, format } => {
                let keep = match (keep, before) {
                    (Some(count), _) => Keep::Last(*count),
                    (None, before) => Keep::Since(before.clone().unwrap_or_default()),
                };
                prune(folder, &keep, *yes, *format, ui)?;
            }
        }
        Ok(ExitCode::Done)
    }
}

/// The pinned baselines by name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "gpubench history pins")]
pub struct PinsJson {
    pins: Pins,
}

/// Nights that go.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "gpubench history prune")]
pub struct PruneJson {
    /// Whether they were removed, rather than listed.
    removed: bool,
    #[serde(flatten)]
    nights: Pruning,
}

fn prune(
    folder: &Path,
    keep: &Keep,
    yes: bool,
    format: TextFormat,
    ui: &Ui,
) -> Result<(), ExpectedError> {
    let found = pruning(folder, keep)?;
    for line in &found.stay {
        ui.note(&format!("stays: {line}"));
    }
    let mut removed = 0;
    for Old { record, began } in &found.remove {
        let name = record.display();
        let line = if !yes {
            format!("would remove {name}, which began at {began}\n")
        } else if remove(record)? {
            removed += 1;
            format!("removed {name}, which began at {began}\n")
        } else {
            removed += 1;
            format!("removed the record in {name}; other files are left there\n")
        };
        if format == TextFormat::Text {
            ui.print(&line)?;
        }
    }
    ui.note(&if found.remove.is_empty() {
        "no night is old enough to go".to_owned()
    } else if yes {
        format!("{} removed", counted(removed, "night"))
    } else {
        let count = counted(found.remove.len(), "night");
        format!("{count} would be removed; nothing was: --yes removes them")
    });
    if format == TextFormat::Json {
        ui.print(&versioned_json("prune", &PruneJson { removed: yes, nights: found })?)?;
    }
    Ok(())
}
