//! The report for a terminal: the matrix on one screen, all tables, or the reasons for doubt.

use std::io::Write;

use gpubench_record::RunRecord;

use super::document::Document;
use super::layout::wrap_words;
use super::{Format, RenderError, RenderOptions, View, draw, screen, selected, why};

/// The terminal format.
pub(super) struct Terminal;

impl Format for Terminal {
    fn name(&self) -> &'static str {
        "terminal"
    }

    fn extension(&self) -> &'static str {
        "txt"
    }

    fn summary(&self) -> &'static str {
        "the matrix on one screen; for people, not for programs (--full: all tables)"
    }

    fn is_for_people(&self) -> bool {
        true
    }

    fn render(
        &self,
        record: &RunRecord,
        options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError> {
        match options.view {
            View::Screen => screen::write(record, options, out),
            View::Full => full(record, options, out),
            View::Why => why::write(record, options, out),
        }
    }
}

/// Bold, where the output has colours.
pub(super) fn bold(text: &str, options: &RenderOptions) -> String {
    match options.color {
        true => format!("\u{1b}[1m{text}\u{1b}[0m"),
        false => text.to_owned(),
    }
}

/// Every table, its notes and the footer.
fn full(
    record: &RunRecord,
    options: &RenderOptions,
    out: &mut dyn Write,
) -> Result<(), RenderError> {
    let part = selected::options(record, options);
    let whole = Document::of(record, options);
    // Notices, counts and origin are those of the whole record.
    let document = Document {
        notices: whole.notices,
        cells: whole.cells,
        footer: whole.footer,
        ..Document::of(&selected::record(record, &options.selection), &part)
    };
    let width = options.width.unwrap_or(usize::MAX);
    for line in std::iter::once(&document.title).chain(&document.notices) {
        for line in wrap_words(line, width, ["", "  "]) {
            writeln!(out, "{}", bold(&line, options))?;
        }
    }
    write_wrapped(out, &document.cells, width, ["", "  "])?;
    for table in document.tables.iter().filter(|table| !table.detail) {
        writeln!(out)?;
        for line in wrap_words(&table.heading, width, ["", ""]) {
            writeln!(out, "{}", bold(&line, options))?;
        }
        writeln!(out, "{}", draw::draw(table, options))?;
        if table.last_with_notes {
            for (index, note) in document.notes.iter().enumerate() {
                let first = format!("  [{}] ", index + 1);
                write_wrapped(out, note, width, [&first, "      "])?;
            }
        }
    }
    writeln!(out)?;
    for (name, text) in &document.footer {
        let first = format!("{name:>12}  ");
        write_wrapped(out, text, width, [&first, &" ".repeat(14)])?;
    }
    Ok(())
}

fn write_wrapped(
    out: &mut dyn Write,
    text: &str,
    width: usize,
    margins: [&str; 2],
) -> Result<(), RenderError> {
    for line in wrap_words(text, width, margins) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
