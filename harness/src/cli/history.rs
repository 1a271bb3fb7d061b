//! `gpubench history`: how the isolation of a GPU went over many nights.

mod actions;

use std::path::PathBuf;

use gpubench_compare::history::History;
use gpubench_compare::render::{self, HistoryFormat};
use gpubench_record::ExitCode;

use super::common::{OutputFlag, exit_codes_help};
use super::comparing::{LISTING, format_of, formats, internal, of_records, say_problems};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::judge::session::{declared, night_means};

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = LISTING;

/// Lists the sessions of many nights as series, with alarms and change points
///
/// It judges nothing: an alarm is a reason to look, and a verdict comes from gpubench diff.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = exit_codes_help(EXIT_CODES),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<actions::Action>,
    /// Folders of records, records, or quoted patterns
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
        value_parser = formats(HistoryFormat::ALL),
    )]
    format: String,
    #[command(flatten)]
    output: OutputFlag,
}

/// Reads the nights and prints their history, or acts on a folder of nights.
///
/// # Errors
/// When a record cannot be read, or the output cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    if let Some(action) = &args.action {
        return action.run(ui);
    }
    refuse_unknown_action(&args.folders)?;
    let format = format_of(&args.format, HistoryFormat::ALL)?;
    let found = night_means(&args.folders, |key| key.metric.is_primary())?;
    let declared = declared(&args.folders)?;
    let by = args.by.as_deref();
    let history = History::of(&found.sessions, found.left_out, &declared, by).map_err(internal)?;
    let text = render::history(&history, format).map_err(internal)?;
    args.output.write(&text, ui)?;
    Ok(of_records(ExitCode::Done, say_problems(&found.sessions, ui)))
}

/// Refuses a word that is neither an action nor a folder.
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
