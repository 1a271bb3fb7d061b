//! The rows for a terminal of 80 columns, one line each, and the answer last.

use super::{kind, law, percent, prediction, summary, title};
use crate::fidelity::{Fidelity, Row, Verdict};
use crate::render::VIRTUAL_TITLE;
use crate::render::table::{COLUMNS, wrap};

pub(super) fn text(table: &Fidelity) -> String {
    let mut text = wrap(VIRTUAL_TITLE, 2) + "\n";
    for record in &table.records {
        text += &format!("\n{}\n", wrap(&title(record), 2));
        text += &(line(" ", "", ["figure", "real", "virtual", "error"]) + "\n");
        for row in &record.rows {
            text += &row_lines(row);
        }
        for check in &record.cross_checks {
            text += &(wrap(&law(check), 2) + "\n");
            for row in &check.rows {
                let (kind, figures) = (kind(row), prediction(row));
                text += &(wrap(&format!("  {} {kind}: {figures}", row.mechanism), 4) + "\n");
            }
        }
    }
    text += "\n! more optimistic than hardware   x outside its bounds   ? open in the record\n";
    for sentence in summary(table) {
        text += &(wrap(&sentence, 2) + "\n");
    }
    text
}

/// The line of a row, and its reason below it. A name that is too long has a line of its own.
fn row_lines(row: &Row) -> String {
    const NAME_MAX: usize = 36;
    let Some(check) = row.worst() else {
        return String::new();
    };
    let error = check.error.map_or_else(String::new, percent);
    let figures = [&check.figure, &check.real, &check.model, &error].map(String::as_str);
    let sign = sign(check.verdict);
    let key = row.key();
    let mut text = if key.chars().count() <= NAME_MAX {
        line(sign, &key, figures) + "\n"
    } else {
        format!("{}\n{}\n", wrap(&format!("{sign} {key}"), 2), line(" ", "", figures))
    };
    if let Some(reason) = &row.reason {
        text += &(wrap(&format!("    known: {reason}"), 4) + "\n");
    }
    text
}

/// One line of the table. A text that is too long for its column moves those after it.
fn line(sign: &str, name: &str, [figure, real, model, error]: [&str; 4]) -> String {
    let line = format!("{sign} {name:<36} {figure:<14} {real:>7} {model:>8} {error:>7}");
    let line = line.trim_end();
    if line.chars().count() <= COLUMNS {
        line.to_owned()
    } else {
        let head = if name.is_empty() { String::new() } else { format!("{sign} {name}\n") };
        head + &wrap(&format!("    {figure}: {real} against {model} {error}"), 4)
    }
}

const fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Open => "?",
        Verdict::Within => " ",
        Verdict::Outside => "x",
        Verdict::Optimistic => "!",
    }
}
