//! The report as Markdown with tables, for a pull request or a wiki.

use std::io::Write;

use gpubench_record::RunRecord;

use super::document::Document;
use super::figures::{MISSING_TEXT, one_line};
use super::parts::{Cell, Table};
use super::{Format, RenderError, RenderOptions};

/// The Markdown format.
pub(super) struct Markdown;

impl Format for Markdown {
    fn name(&self) -> &'static str {
        "md"
    }

    fn extension(&self) -> &'static str {
        "md"
    }

    fn summary(&self) -> &'static str {
        "Markdown tables, for a pull request or a wiki"
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
        let document = Document::of(record, options);
        writeln!(out, "# {}\n", escape(&document.title))?;
        for notice in &document.notices {
            writeln!(out, "**{}**\n", escape(notice))?;
        }
        writeln!(out, "{}", escape(&document.cells))?;
        for table in &document.tables {
            write_table(out, table)?;
            if table.last_with_notes {
                writeln!(out, "\nNotes:\n")?;
                for (index, note) in document.notes.iter().enumerate() {
                    writeln!(out, "{}. {}", index + 1, escape(note))?;
                }
            }
        }
        writeln!(out, "\n## Record\n")?;
        for (name, text) in &document.footer {
            writeln!(out, "- {name}: {}", escape(text))?;
        }
        Ok(())
    }
}

/// The table under its heading.
pub(super) fn write_table(out: &mut dyn Write, table: &Table) -> Result<(), RenderError> {
    writeln!(out, "\n## {}\n", escape(&table.heading))?;
    let columns: Vec<String> = table.columns.iter().map(|name| escape(name)).collect();
    writeln!(out, "| {} |", columns.join(" | "))?;
    writeln!(out, "|{}", "---|".repeat(columns.len()))?;
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(text).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(lines) | Cell::Level(lines) => {
            lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br>")
        }
        Cell::Figure { estimate: None, .. } => MISSING_TEXT.to_owned(),
        Cell::Figure { estimate: Some(estimate), unit } => {
            escape(&one_line(estimate, unit.as_deref()))
        }
        Cell::Outcome { kind, notes } if notes.is_empty() => kind.as_str().to_owned(),
        Cell::Outcome { kind, notes } => {
            let notes: Vec<String> = notes.iter().map(usize::to_string).collect();
            format!("{} (note {})", kind.as_str(), notes.join(", "))
        }
    }
}

/// The text with Markdown markup escaped.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}
