//! What the verbs that compare records share: how they read records and where they write.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use gpubench_compare::Session;
use gpubench_record::ExitCode;

use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::Opened;
use crate::verbs::session::{Sessions, sessions};

/// The exit codes of a verb that only lists.
pub const LISTING: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::TrialFailed,
    ExitCode::OutputFailed,
];

pub const JUDGING: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::TrialFailed,
    ExitCode::OutputFailed,
    ExitCode::Inconclusive,
    ExitCode::NotComparable,
    ExitCode::Regression,
];

/// The parser of `--format` for a list of formats by name.
pub fn formats<T, const N: usize>(all: [(&'static str, T); N]) -> PossibleValuesParser {
    PossibleValuesParser::new(all.map(|(name, _)| name))
}

/// The format of a name, which the parser has checked.
pub fn format_of<T, const N: usize>(
    name: &str,
    all: [(&'static str, T); N],
) -> Result<T, ExpectedError> {
    let known = || all.iter().map(|(name, _)| (*name).to_owned()).collect();
    let unknown =
        ExpectedError::UnknownName { kind: "format", name: name.to_owned(), known: known() };
    let found = all.into_iter().find(|(one, _)| *one == name);
    found.map(|(_, format)| format).ok_or(unknown)
}

/// Reads records, and says which ones of a folder were left out.
pub fn read(records: &[PathBuf], ui: &Ui) -> Result<Sessions, ExpectedError> {
    let found = sessions(records)?;
    say_left_out(&found.left_out, ui);
    Ok(found)
}

/// The exit code of a verb that read records: at least 4 where one contradicts itself.
pub fn of_records(code: ExitCode, is_doubtful: bool) -> ExitCode {
    if is_doubtful { code.worst(ExitCode::TrialFailed) } else { code }
}

/// Names what is wrong with a record, and says whether it contradicts itself.
pub fn say_warnings(opened: &Opened, ui: &Ui) -> bool {
    let dir = opened.dir.display();
    for warning in &opened.warnings {
        ui.note(&format!("warning: {dir}: {warning}"));
    }
    if let Some(note) = &opened.note {
        ui.note(&format!("{dir}: {note}"));
    }
    opened.is_doubtful
}

/// Names what is wrong with the records of a comparison, and says whether one contradicts itself.
pub fn say_problems(sessions: &[Session], ui: &Ui) -> bool {
    for session in sessions {
        for loss in &session.losses {
            ui.note(&format!("warning: {}: {loss}", session.name));
        }
    }
    sessions.iter().any(|session| session.is_doubtful)
}

pub fn say_left_out(lines: &[String], ui: &Ui) {
    for line in lines {
        ui.note(&format!("warning: left out: {line}"));
    }
}

/// An error that is a bug.
pub fn internal(error: impl std::fmt::Display) -> ExpectedError {
    ExpectedError::internal(error.to_string())
}

pub fn refused(folder: &Path, error: impl std::fmt::Display, remedy: &str) -> ExpectedError {
    ExpectedError::usage(format!("{}: {error}", folder.display()), Some(remedy))
}

/// A percentage as a share.
pub fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().trim_end_matches('%').trim().parse().ok();
    number
        .filter(|percent| (0.01..=1000.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "accepted: a number from 0.01 to 1000".to_owned())
}
