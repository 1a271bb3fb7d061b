//! The reasons for doubt: which gate, how often, by how much, and what would cure it.

use std::io::Write;

use gpubench_record::RunRecord;

use super::figures::value;
use super::layout::wrap_words;
use super::screen::{ROWS_MAX, WIDTH, places};
use super::terminal::bold;
use super::{RenderError, RenderOptions, document};
use crate::matrix::{Glance, ReasonGroup, Subject};
use crate::text::counted;

/// Parts of the output, with the noun of what they count.
const PARTS: [(Subject, &str, &str); 4] = [
    (Subject::Row, "Rows without a level", "row"),
    (Subject::Block, "Blocks that rows leave out", "block"),
    (Subject::Cell, "Cells that fail a gate", "cell"),
    (Subject::Warning, "Warnings about rows", "row"),
];

/// Writes the reasons of the selected mechanisms and axes.
pub(super) fn write(
    record: &RunRecord,
    options: &RenderOptions,
    out: &mut dyn Write,
) -> Result<(), RenderError> {
    let width = options.width.unwrap_or(WIDTH);
    let glance = Glance::of(record, &options.selection, ROWS_MAX);
    for line in wrap_words(&document::title(record), width, ["", ""]) {
        writeln!(out, "{}", bold(&line, options))?;
    }
    if glance.reasons.is_empty() {
        writeln!(out, "No doubt: every row has a level, and no cell fails a gate.")?;
    }
    for (subject, heading, noun) in PARTS {
        let mut groups = glance.reasons.iter().filter(|one| one.subject == subject).peekable();
        if groups.peek().is_some() {
            writeln!(out, "\n{}", bold(heading, options))?;
        }
        for group in groups {
            for line in lines(group, noun, width) {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

fn lines(group: &ReasonGroup, noun: &str, width: usize) -> Vec<String> {
    let such_as = if group.differs { "for example " } else { "" };
    let first = format!("{}: {such_as}{}", counted(group.count, noun), group.reason);
    let mut lines = wrap_words(&first, width, ["  ", "    "]);
    let margins = ["      "; 2];
    lines.extend(wrap_words(&places(group), width, margins));
    if let Some(worst) = &group.worst {
        let (figure, limit, unit) = (value(worst.value), value(worst.limit), &worst.unit);
        let text = format!("worst: {figure} {unit}; limit: {limit} {unit}");
        lines.extend(wrap_words(&text, width, margins));
    }
    if let (None, Some(example)) = (&group.worst, &group.example) {
        lines.extend(wrap_words(&format!("for example: {example}"), width, margins));
    }
    if let Some(cure) = group.cure {
        lines.extend(wrap_words(&format!("cure: {cure}"), width, margins));
    }
    lines
}
