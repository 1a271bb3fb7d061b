//! Tables for a terminal: boxed where the columns fit its width, else as a list.

use gpubench_record::OutcomeKind;
use tabled::Table as Drawn;
use tabled::builder::Builder;
use tabled::settings::object::Rows;
use tabled::settings::{Alignment, Color, Span, Style};

use super::RenderOptions;
use super::figures::{MISSING_TEXT, parts};
use super::layout::{fit, fits, width as columns_of, wrap_words};
use super::parts::{Cell, Table};

/// Characters of a column besides its text: a line and a space on either side.
const BORDER_CHARS: usize = 3;

/// The table, as wide as the terminal allows.
pub(super) fn draw(table: &Table, options: &RenderOptions) -> String {
    // The first column is long and repeats in many rows: it becomes a line above them.
    let grouped = usize::from(matches!(table.id, "matrix" | "operator" | "faults" | "latency"));
    let mut rows = vec![table.columns[grouped..].to_vec()];
    rows.extend(table.rows.iter().map(|row| row[grouped..].iter().map(text).collect()));
    if let Some(width) = options.width {
        if !fits(&rows, width, BORDER_CHARS) {
            return listed(table, grouped, &rows, width);
        }
        fit(&mut rows, width, BORDER_CHARS);
    }
    boxed(table, grouped, rows, options).to_string()
}

/// A longer item of a list has a line of its own.
const SHORT: usize = 44;

/// Each row as a line of its first column, and below it the other columns with their headings.
/// Empty cells are left out.
fn listed(table: &Table, grouped: usize, rows: &[Vec<String>], width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut above = None;
    for (cells, row) in table.rows.iter().zip(&rows[1..]) {
        if grouped == 1 && above != cells.first() {
            lines.extend(cells.first().map(|cell| on_one_line(&text(cell))));
            above = cells.first();
        }
        let (first, rest) = row.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
        let margin = " ".repeat(2 * grouped);
        let first = on_one_line(first);
        lines.extend(wrap_words(&first, width, [&margin, &format!("{margin}  ")]));
        let named = rows[0][1..].iter().zip(rest);
        let named = named.filter(|(_, text)| !text.is_empty() && *text != MISSING_TEXT);
        let margin = format!("{margin}    ");
        let mut short: Vec<String> = Vec::new();
        for (name, text) in named {
            let item = format!("{name}: {}", on_one_line(text));
            if columns_of(&item) <= SHORT {
                short.push(item);
                continue;
            }
            lines.extend(wrap_words(&short.join("; "), width, [&margin, &margin]));
            short.clear();
            lines.extend(wrap_words(&item, width, [&margin, &format!("{margin}  ")]));
        }
        lines.extend(wrap_words(&short.join("; "), width, [&margin, &margin]));
    }
    lines.join("\n")
}

fn on_one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

/// The table in box-drawing characters.
fn boxed(table: &Table, grouped: usize, rows: Vec<Vec<String>>, options: &RenderOptions) -> Drawn {
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
        Cell::Figure { estimate: Some(estimate), unit } => {
            parts(estimate, unit.as_deref()).join("\n")
        }
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
