//! Input and output of `simulate`, `pack` and `advise`: values of flags, records and files.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use gpubench_predict::error::{CONFIDENCE, NOT_NEGATIVE, PERCENT, POSITIVE, SHARE};
use gpubench_predict::{PredictError, mig};
use gpubench_record::{RunRecord, parser_message};
use gpubench_store::Record;

use super::ui::Ui;
use crate::error;
use crate::error::ExpectedError;
use crate::error::{RECORD_BYTES_MAX, WRITTEN_BYTES_MAX};

impl From<PredictError> for ExpectedError {
    fn from(error: PredictError) -> Self {
        Self::Usage { problem: error.to_string(), remedy: None }
    }
}

/// A number above 0.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    POSITIVE.parse(text)
}

/// A number of at least 0.
pub(super) fn not_negative(text: &str) -> Result<f64, String> {
    NOT_NEGATIVE.parse(text)
}

/// A number above 0 and at most 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    SHARE.parse(text)
}

/// A number above 0 and at most 100.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    PERCENT.parse(text)
}

/// A number above 0 and below 1.
pub(super) fn confidence(text: &str) -> Result<f64, String> {
    CONFIDENCE.parse(text)
}

pub(super) fn mig_gpu(name: &str) -> Result<String, PredictError> {
    mig::table(name).map(|_| name.to_owned())
}

/// One of several names, each of which stands for a value.
pub(super) fn one_of<T: Copy + Send + Sync>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = values.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(names).try_map(|name| {
        let found = values.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).ok_or("unknown name")
    })
}

/// The answer to a question on a terminal; `None` at the end of the input.
pub(super) fn answer(input: &mut impl BufRead) -> Result<Option<String>, ExpectedError> {
    let mut line = String::new();
    let read = input.read_line(&mut line).map_err(|source| ExpectedError::Unreadable {
        what: "answer",
        path: PathBuf::from("(standard input)"),
        source,
    })?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

/// Reads a file that the user named.
pub(super) fn read_text(what: &'static str, path: &Path) -> Result<String, ExpectedError> {
    error::read_text(what, path, WRITTEN_BYTES_MAX)
}

/// Reads the folder of a record, or the output of `report --format json`.
/// Damage of its files is named.
pub(super) fn read_record(path: &Path, ui: &Ui) -> Result<RunRecord, ExpectedError> {
    let unreadable = |problem: String| ExpectedError::unreadable_record(path, problem);
    if path.is_file() {
        let text = error::read_text("record", path, RECORD_BYTES_MAX)?;
        return serde_json::from_str(&text)
            .map_err(|error| unreadable(parser_message(&error.to_string())));
    }
    let record = Record::open(path).map_err(|error| unreadable(error.to_string()))?;
    say_damage(&record, ui);
    Ok(record.run().clone())
}

/// Names what is wrong with the files of a record.
pub(super) fn say_damage(record: &Record, ui: &Ui) {
    for warning in record.warnings() {
        ui.note(&format!("warning: {}: {warning}", record.dir().display()));
    }
}
