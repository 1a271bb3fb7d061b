//! What `gpubench history` does to a folder of nights: declares changes, pins baselines, and
//! removes old nights.

use std::path::{Path, PathBuf};

use gpubench_compare::history::Declared;
use gpubench_record::{ExitCode, counted};

use super::super::common::{exit_codes_help, whole};
use super::super::ui::Ui;
use super::EXIT_CODES;
use crate::error::ExpectedError;
use crate::judge::session::{Keep, declare, pin, pins, pruning, remove, unpin};
use crate::run::{rfc3339, rfc3339_now};

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
        #[arg(
            long,
            value_name = "N",
            value_parser = whole::<usize>(1, 1_000_000)
        )]
        keep: Option<usize>,
        /// Remove nights that began before this time, as 2026-01-31T00:00:00Z
        #[arg(long, value_name = "TIME", value_parser = rfc3339)]
        before: Option<String>,
        /// Remove them
        #[arg(long)]
        yes: bool,
    },
}

impl Action {
    /// Does it, and says what it did.
    ///
    /// # Errors
    /// When a file cannot be read, written or removed.
    pub fn run(&self, ui: &Ui) -> Result<ExitCode, ExpectedError> {
        match self {
            Self::Declare { folder, what, at } => {
                let change =
                    Declared { at: at.clone().unwrap_or_else(rfc3339_now), what: what.clone() };
                let path = declare(folder, &change)?;
                let (at, path) = (change.at, path.display());
                ui.note(&format!("declared from {at} on in {path}"));
            }
            Self::Pin { folder, name, records } => {
                let count = pin(folder, name, records, rfc3339_now())?;
                ui.note(&format!("{name}: {} pinned", counted(count, "record")));
            }
            Self::Unpin { folder, name } => {
                unpin(folder, name)?;
                ui.note(&format!("{name}: no longer pinned"));
            }
            Self::Pins { folder } => {
                let lines = pins(folder)?
                    .into_iter()
                    .map(|(name, pin)| format!("{name}  {}  {}\n", pin.at, pin.records.join(" ")));
                ui.print(&lines.collect::<String>())?;
            }
            Self::Prune { folder, keep, before, yes } => {
                let keep = match (keep, before) {
                    (Some(count), _) => Keep::Last(*count),
                    (None, before) => Keep::Since(before.clone().unwrap_or_default()),
                };
                prune(folder, &keep, *yes, ui)?;
            }
        }
        Ok(ExitCode::Done)
    }
}

fn prune(folder: &Path, keep: &Keep, yes: bool, ui: &Ui) -> Result<(), ExpectedError> {
    let found = pruning(folder, keep)?;
    for line in &found.stay {
        ui.note(&format!("stays: {line}"));
    }
    let mut removed = 0;
    for (record, began) in &found.remove {
        let name = record.display();
        if !yes {
            ui.print(&format!("would remove {name}, which began at {began}\n"))?;
        } else if remove(record)? {
            removed += 1;
            ui.print(&format!("removed {name}, which began at {began}\n"))?;
        } else {
            removed += 1;
            ui.print(&format!("removed the record in {name}; other files are left there\n"))?;
        }
    }
    ui.note(&if yes {
        format!("{} removed", counted(removed, "night"))
    } else {
        let count = counted(found.remove.len(), "night");
        format!("{count} would be removed; nothing was: --yes removes them")
    });
    Ok(())
}
