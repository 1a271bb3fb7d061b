//! The document for a terminal: no line is wider than the look, and none ends in a space.

use tabled::Table as Drawn;
use tabled::builder::Builder;
use tabled::settings::formatting::AlignmentStrategy;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Color, Span, Style};

use crate::clean;
use crate::fit::{fit, fits, width as columns_of, wrap_words};
use crate::model::{Block, Cell, Kind, Line, Look, MISSING_TEXT, Page, Paint, Table};

/// Columns of a cell besides its text: a line and a space on either side.
const BORDER: usize = 3;

/// A text of more lines in a narrower column is squeezed, and reads better behind its name.
const LINES_MAX: usize = 5;
const NARROW: usize = 16;

/// A longer item of a list has a line of its own.
const SHORT: usize = 44;

pub(crate) fn page(page: &Page, look: Look) -> String {
    let mut lines: Vec<String> = Vec::new();
    let bold_lines = |text: &str, rest: &str| -> Vec<String> {
        let wrapped = wrap_words(&clean(text), look.width, ["", rest]);
        wrapped.iter().map(|line| bold(line, look)).collect()
    };
    if !page.title.is_empty() {
        lines.extend(bold_lines(&page.title, "  "));
    }
    let gap = |lines: &mut Vec<String>| {
        if lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(String::new());
        }
    };
    for block in &page.blocks {
        match block {
            Block::Heading(text) => {
                gap(&mut lines);
                lines.extend(bold_lines(text, "  "));
            }
            Block::Notice(text) => lines.extend(bold_lines(text, "  ")),
            Block::Text(line) => lines.extend(sentence(line, look)),
            Block::Table(table) if table.detail => {}
            Block::Table(of) => {
                if !of.heading.is_empty() {
                    gap(&mut lines);
                    lines.extend(bold_lines(&of.heading, ""));
                }
                lines.extend(table(of, look).lines().map(str::to_owned));
            }
            Block::Notes(notes) => {
                for (index, note) in notes.iter().enumerate() {
                    let first = format!("  [{}] ", index + 1);
                    lines.extend(wrap_words(note, look.width, [&first, "      "]));
                }
            }
            Block::Facts(facts) => {
                gap(&mut lines);
                let width = facts.iter().map(|(name, _)| name.len()).fold(NAME_MIN, usize::max);
                for (name, text) in facts {
                    let first = format!("{name:>width$}  ");
                    let margins = [first.as_str(), &" ".repeat(width + 2)];
                    lines.extend(wrap_words(&clean(text), look.width, margins));
                }
            }
            Block::Chart(_) => {}
            Block::Gap => gap(&mut lines),
        }
    }
    lines.iter().map(|line| line.clone() + "\n").collect()
}

/// Columns of the names of facts, unless one is longer.
const NAME_MIN: usize = 12;

/// Bold, where the output has colours.
pub fn bold(text: &str, look: Look) -> String {
    if look.color && !text.is_empty() {
        format!("\u{1b}[1m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// The text in a colour, where the output has colours.
pub fn painted(text: &str, paint: Paint, look: Look) -> String {
    let code = match paint {
        Paint::Plain => return text.to_owned(),
        Paint::Good => "32",
        Paint::Fair => "36",
        Paint::Weak => "33",
        Paint::Bad => "31",
        Paint::Faint => "90",
    };
    if look.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

fn sentence(line: &Line, look: Look) -> Vec<String> {
    let [first, rest] = line.margins.map(|columns| " ".repeat(columns));
    let Some((mark, paint)) = &line.mark else {
        return wrap_words(&clean(&line.text), look.width, [&first, &rest]);
    };
    let mark = clean(mark);
    let padding = rest.len().saturating_sub(first.len() + columns_of(&mark)).max(1);
    let begin = format!("{first}{mark}{}", " ".repeat(padding));
    let mut lines = wrap_words(&clean(&line.text), look.width, [&begin, &rest]);
    if lines.is_empty() {
        lines.push(begin.trim_end().to_owned());
    }
    let tail = lines[0][first.len() + mark.len()..].to_owned();
    lines[0] = format!("{first}{}{tail}", painted(&mark, *paint, look));
    lines
}

/// The table, as wide as the look allows, without its heading and a final line feed.
pub fn table(table: &Table, look: Look) -> String {
    let grouped = usize::from(table.grouped);
    let columns = &table.columns[grouped..];
    let of_cell = |cell: &Cell| if table.boxed { text(cell) } else { with_notes(cell) };
    let mut rows: Vec<Vec<String>> = vec![columns.iter().map(|one| one.name.clone()).collect()];
    rows.extend(table.rows.iter().map(|row| row[grouped..].iter().map(of_cell).collect()));
    let solid: Vec<bool> = columns.iter().map(|one| one.kind == Kind::Number).collect();
    let mut fitted = rows.clone();
    fit(&mut fitted, look.width, BORDER, &solid);
    let is_squeezed = |cell: &String| {
        cell.lines().count() > LINES_MAX && cell.lines().all(|line| columns_of(line) < NARROW)
    };
    if fitted.iter().skip(1).flatten().any(is_squeezed) || !fits(&rows, look.width, BORDER, &solid)
    {
        return listed(table, grouped, &rows, look.width);
    }
    let drawn = drawn(table, grouped, fitted, look).to_string();
    drawn.lines().map(trimmed).collect::<Vec<_>>().join("\n")
}

/// The line without spaces at its end, also before the codes that end a colour there.
pub fn trimmed(line: &str) -> String {
    let (mut text, mut codes) = (line.trim_end(), String::new());
    while let Some(at) = text.rfind('\u{1b}').filter(|&at| text[at..].ends_with('m')) {
        if text[at..].find('m') != Some(text.len() - at - 1) {
            break;
        }
        codes.insert_str(0, &text[at..]);
        text = text[..at].trim_end();
    }
    format!("{text}{codes}")
}

/// Each row as a line of its first column, and below it the other columns with their headings.
/// Empty cells are left out.
fn listed(table: &Table, grouped: usize, rows: &[Vec<String>], width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut above = None;
    for (cells, row) in table.rows.iter().zip(&rows[1..]) {
        if grouped == 1 && above != cells.first() {
            let group = cells.first().map(|cell| on_one_line(&text(cell)));
            lines.extend(wrap_words(&group.unwrap_or_default(), width, ["", "  "]));
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
            let separator = if name.is_empty() { "" } else { ": " };
            let item = format!("{name}{separator}{}", on_one_line(text));
            if columns_of(&item) <= SHORT && !item.contains(ITEMS) {
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

/// Between lines of a cell that are items of their own and have commas.
const ITEMS: &str = "; ";

/// The lines of a cell on one line. An interval or a unit belongs to the figure above it; any other
/// line is an item of its own.
fn on_one_line(text: &str) -> String {
    let has_commas = text.lines().any(|line| line.contains(", "));
    let between = if has_commas { ITEMS } else { ", " };
    let mut joined = String::new();
    for line in text.lines() {
        let last = joined.rsplit(' ').next().unwrap_or_default();
        let ends_figure = last.ends_with(']')
            || last.starts_with(|c: char| c.is_ascii_digit() || ['-', '<', '>'].contains(&c));
        let is_unit = ends_figure && line.starts_with(char::is_alphabetic);
        let belongs = is_unit || line.starts_with(['[', '(']);
        if !joined.is_empty() {
            joined += if belongs { " " } else { between };
        }
        joined += line;
    }
    joined
}

fn drawn(table: &Table, grouped: usize, rows: Vec<Vec<String>>, look: Look) -> Drawn {
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
    if table.boxed {
        drawn.with(Style::modern_rounded());
    } else {
        drawn.with(Style::blank());
    }
    drawn.with(Alignment::left());
    for (at, column) in table.columns[grouped..].iter().enumerate() {
        if column.kind == Kind::Number {
            drawn.modify(Columns::one(at), Alignment::right());
            drawn.modify(Columns::one(at), AlignmentStrategy::PerLine);
        }
    }
    for row in headings {
        drawn.modify((row, 0), Span::column(columns));
        drawn.modify((row, 0), Alignment::left());
        if look.color {
            drawn.modify((row, 0), Color::BOLD);
        }
    }
    if look.color {
        drawn.modify(Rows::first(), Color::BOLD);
        for (at, color) in colors {
            drawn.modify(at, color);
        }
    }
    drawn
}

fn notes(cell: &Cell) -> Option<String> {
    let notes: String = cell.notes.iter().map(|note| format!("[{note}]")).collect();
    (!notes.is_empty()).then_some(notes)
}

/// The text with its notes on the last line, for tables whose rows have one line each.
fn with_notes(cell: &Cell) -> String {
    let text = cell.lines.join("\n");
    notes(cell).map_or_else(|| text.clone(), |notes| format!("{text} {notes}"))
}

/// The text with its notes on a line of their own.
fn text(cell: &Cell) -> String {
    let notes = notes(cell);
    let lines: Vec<&str> = cell.lines.iter().chain(&notes).map(String::as_str).collect();
    lines.join("\n")
}

fn color(cell: &Cell) -> Option<Color> {
    match cell.paint {
        Paint::Plain => None,
        Paint::Good => Some(Color::FG_GREEN),
        Paint::Fair => Some(Color::FG_CYAN),
        Paint::Weak => Some(Color::FG_YELLOW),
        Paint::Bad => Some(Color::FG_RED),
        Paint::Faint => Some(Color::FG_BRIGHT_BLACK),
    }
}
