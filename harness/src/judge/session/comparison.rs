//! The comparison of one record with earlier ones, as a page for its report.

use std::path::{Path, PathBuf};

use gpubench_compare::diff::{Options, diff};
use gpubench_compare::render::{COLUMNS, Sheet, sheet};
use gpubench_reports::format::{Page, PageTable};

use super::session;
use crate::error::ExpectedError;

/// Compares the record in `after` with those in `before`, by the margins of `gpubench diff`. A
/// driver may differ.
///
/// # Errors
/// When a record cannot be read, or a figure is not finite.
pub fn comparison(before: &[PathBuf], after: &Path) -> Result<Page, ExpectedError> {
    let sessions: Result<Vec<_>, _> = before.iter().map(|dir| session(dir)).collect();
    let options = Options { vary: vec!["driver".to_owned()], ..Options::default() };
    let report = diff(&sessions?, &[session(after)?], &options);
    let report = report.map_err(|error| ExpectedError::Internal { what: error.to_string() })?;
    let Sheet { title, sentences, rows } = sheet(&report);
    let table = PageTable {
        heading: "Rows that changed or are undecided".to_owned(),
        columns: COLUMNS.map(str::to_owned).into(),
        rows,
    };
    Ok(Page {
        title,
        notices: sentences,
        tables: if table.rows.is_empty() { Vec::new() } else { vec![table] },
    })
}
