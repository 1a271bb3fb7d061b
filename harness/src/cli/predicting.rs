//! Input of `simulate`, `pack` and `advise`: values of flags, records and files.
//!
//! Numbers and names are parsed here and not by the argument parser, so that an error is one line,
//! the same for a flag and for a file.

use std::path::Path;
use std::str::FromStr;

use gpubench_predict::PredictError;
use gpubench_record::RunRecord;
use gpubench_reports::Record;

use super::ui::Ui;
use crate::error::ExpectedError;

/// The accepted values of a flag that takes any number.
pub(super) const NUMBER: &str = "a number";

impl From<PredictError> for ExpectedError {
    fn from(error: PredictError) -> Self {
        Self::Usage {
            problem: error.to_string(),
            remedy: None,
        }
    }
}

/// An unknown name.
pub(super) fn unknown(what: &'static str, given: &str, known: impl Into<String>) -> PredictError {
    PredictError::Unknown {
        what,
        given: given.to_owned(),
        known: known.into(),
    }
}

/// Parses the value of a flag, if it was given.
pub(super) fn parse<T: FromStr>(
    name: &str,
    given: &Option<String>,
    accepted: &str,
) -> Result<Option<T>, PredictError> {
    let read = |text: &String| {
        text.trim()
            .parse()
            .map_err(|_| PredictError::value(name, format!("\"{text}\""), accepted))
    };
    given.as_ref().map(read).transpose()
}

/// Sets a value from a flag, if it was given.
pub(super) fn set<T: FromStr>(
    into: &mut T,
    name: &str,
    given: &Option<String>,
    accepted: &str,
) -> Result<(), PredictError> {
    if let Some(value) = parse(name, given, accepted)? {
        *into = value;
    }
    Ok(())
}

/// Sets a value from a flag that takes any number, if it was given.
pub(super) fn number(
    into: &mut f64,
    name: &str,
    given: &Option<String>,
) -> Result<(), PredictError> {
    set(into, name, given, NUMBER)
}

/// Reads a file that the user named.
pub(super) fn read_text(what: &'static str, path: &Path) -> Result<String, ExpectedError> {
    std::fs::read_to_string(path).map_err(|source| ExpectedError::Unreadable {
        what,
        path: path.to_owned(),
        source,
    })
}

/// Opens a record's folder, or reads the JSON that `report --format json` printed of one.
pub(super) fn read_record(path: &Path) -> Result<RunRecord, ExpectedError> {
    let unreadable = |problem: String| ExpectedError::RecordUnreadable {
        path: path.to_owned(),
        problem,
    };
    if path.is_file() {
        let text = read_text("record", path)?;
        return serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()));
    }
    let record = Record::open(path).map_err(|error| unreadable(error.to_string()))?;
    Ok(record.run().clone())
}

/// Prints, or writes the file that the user named.
pub(super) fn write(output: Option<&Path>, text: &str, ui: &Ui) -> Result<(), ExpectedError> {
    match output {
        None => ui.print(text),
        Some(path) => {
            std::fs::write(path, text).map_err(|error| ExpectedError::from_write(path, error))
        }
    }
}
