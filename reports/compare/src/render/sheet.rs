//! A comparison as one table of text, for programs that draw it themselves.

use super::Detail;
pub use super::words::COLUMNS;
use super::words::Document;
use crate::diff::Report;

/// A comparison as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    /// What was compared.
    pub title: String,
    /// What a reader needs before any figure, and the counts after them, one sentence each.
    pub sentences: Vec<String>,
    /// Rows that changed or are undecided, each with a text for every one of [`COLUMNS`].
    pub rows: Vec<Vec<String>>,
}

/// The comparison as text.
#[must_use]
pub fn sheet(report: &Report) -> Sheet {
    let document = Document::of(report, Detail::Changes);
    let rows = document.rows.iter();
    Sheet {
        title: document.title,
        sentences: [document.notices, document.doubts, document.summary].concat(),
        rows: rows.map(|row| row.columns().map(|(_, cell)| cell.to_owned()).into()).collect(),
    }
}
