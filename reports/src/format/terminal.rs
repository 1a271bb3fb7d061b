//! The report for a terminal: tables in box-drawing characters, colour on request.

use std::io::Write;

use gpubench_record::{OutcomeKind, RunRecord};
use tabled::Table as Drawn;
use tabled::builder::Builder;
use tabled::settings::object::Rows;
use tabled::settings::{Alignment, Color, Span, Style};

use super::document::Document;
use super::figures::{MISSING_TEXT, parts};
use super::layout::fit;
use super::parts::{Cell, Table};
use super::{Format, RenderError, RenderOptions};

/// Characters of a column besides its text: a line and a space on either side.
const BORDER_CHARS: usize = 3;

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
        "tables for a terminal; for people, not for programs"
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
        let bold = |text: &str| match options.color {
            true => format!("\u{1b}[1m{text}\u{1b}[0m"),
            false => text.to_owned(),
        };
        writeln!(out, "{}", bold(&document.title))?;
        for notice in &document.notices {
            writeln!(out, "{}", bold(notice))?;
        }
        writeln!(out, "{}", document.cells)?;
        for table in document.tables.iter().filter(|table| !table.detail) {
            writeln!(out, "\n{}", bold(&table.heading))?;
            writeln!(out, "{}", draw(table, options))?;
            if table.last_with_notes {
                for (index, note) in document.notes.iter().enumerate() {
                    writeln!(out, "  [{}] {note}", index + 1)?;
                }
            }
        }
        writeln!(out)?;
        for (name, text) in &document.footer {
            writeln!(out, "{name:>12}  {text}")?;
        }
        Ok(())
    }
}

fn draw(table: &Table, options: &RenderOptions) -> Drawn {
    // The first column is long and repeats in many rows: it becomes a line above them.
    let grouped = usize::from(matches!(table.id, "matrix" | "faults" | "latency"));
    let mut rows = vec![table.columns[grouped..].to_vec()];
    rows.extend(
        table
            .rows
            .iter()
            .map(|row| row[grouped..].iter().map(text).collect()),
    );
    if let Some(width) = options.width {
        fit(&mut rows, width, BORDER_CHARS);
    }
    let mut builder = Builder::default();
    let mut colors = Vec::new();
    let mut headings = Vec::new();
    let mut above = None;
    let mut rows = rows.into_iter();
    builder.push_record(rows.next().unwrap_or_default());
    for (cells, row) in table.rows.iter().zip(rows) {
        if grouped == 1 && above != cells.first() {
            headings.push(builder.count_records());
            builder.push_record(cells.first().map(text));
            above = cells.first();
        }
        let colored = cells[grouped..].iter().enumerate();
        let at = builder.count_records();
        colors.extend(colored.filter_map(|(column, cell)| Some(((at, column), color(cell)?))));
        builder.push_record(row);
    }
    let columns = isize::try_from(builder.count_columns()).unwrap_or(1);
    let mut drawn = builder.build();
    drawn.with(Style::modern_rounded()).with(Alignment::left());
    for row in headings {
        drawn.modify((row, 0), Span::column(columns));
        if options.color {
            drawn.modify((row, 0), Color::BOLD);
        }
    }
    if options.color {
        drawn.modify(Rows::first(), Color::BOLD);
        for (at, color) in colors {
            drawn.modify(at, color);
        }
    }
    drawn
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(lines) | Cell::Level(lines) => lines.join("\n"),
        Cell::Figure { estimate: None, .. } => MISSING_TEXT.to_owned(),
        Cell::Figure {
            estimate: Some(estimate),
            unit,
        } => parts(estimate, unit.as_deref()).join("\n"),
        Cell::Outcome { kind, notes } => {
            let notes: String = notes.iter().map(|note| format!("[{note}]")).collect();
            if notes.is_empty() {
                kind.as_str().to_owned()
            } else {
                format!("{}\n{notes}", kind.as_str())
            }
        }
    }
}

fn color(cell: &Cell) -> Option<Color> {
    match cell {
        Cell::Level(lines) => match lines.first().map(String::as_str) {
            Some("L3") => Some(Color::FG_GREEN),
            Some("L2") => Some(Color::FG_CYAN),
            Some("L1") => Some(Color::FG_YELLOW),
            Some("L0") => Some(Color::FG_RED),
            _ => None,
        },
        Cell::Outcome { kind, .. } => match kind {
            OutcomeKind::Measured => None,
            OutcomeKind::Waived => Some(Color::FG_BRIGHT_BLACK),
            OutcomeKind::Failed => Some(Color::FG_RED),
            OutcomeKind::Inconclusive => Some(Color::FG_YELLOW),
        },
        Cell::Text(_) | Cell::Figure { .. } => None,
    }
}
