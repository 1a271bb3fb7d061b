//! The comparison for a terminal of 80 columns: three lines a row, whatever its names' lengths.

use super::table::wrap;
use super::words::{Document, RowWords};

/// Width of the column of verdicts.
const VERDICT: usize = 14;

pub(super) fn diff(document: &Document) -> String {
    let mut text = wrap(&document.title, 2) + "\n";
    for notice in &document.notices {
        text += &(wrap(notice, 2) + "\n");
    }
    text += "\n";
    for row in &document.rows {
        text += &lines(row);
    }
    if !document.rows.is_empty() {
        text += "\n";
    }
    for line in &document.doubts {
        text += &(wrap(line, 4) + "\n");
    }
    if !document.doubts.is_empty() {
        text += "\n";
    }
    for line in &document.summary {
        text += &(wrap(line, 2) + "\n");
    }
    text
}

fn lines(row: &RowWords) -> String {
    let indent = " ".repeat(VERDICT);
    let head = format!("{:<VERDICT$}{} {}, {}", row.verdict, row.mechanism, row.metric, row.axis);
    let [before, after] = &row.figures;
    let mut text = wrap(&head, VERDICT) + "\n";
    if row.change != "-" {
        let figures = format!(
            "{indent}{before} -> {after}, {}; margin {}, detectable {}, {} sessions",
            row.change, row.margin, row.detectable, row.sessions
        );
        text += &(wrap(&figures, VERDICT) + "\n");
    }
    if !row.note.is_empty() {
        text += &(wrap(&format!("{indent}{}", row.note), VERDICT) + "\n");
    }
    text
}
