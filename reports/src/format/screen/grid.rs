//! The grid of the screen: a line for each mechanism, a figure and a sign for each axis.

use gpubench_record::Ends;

use crate::format::figures::two_decimals;
use crate::matrix::{Figure, Glance, MatrixCell, Row, Standing};
use gpubench_show::fit::width;
use gpubench_show::{Look, Paint, Table, painted};

/// Most spaces between two columns; fewer where the terminal is narrow.
const GAP_MAX: usize = 3;

/// A longer label of a row that stands for several variants gives way to the mechanism.
const LABEL_MAX: usize = 15;

const OVERALL: &str = "overall";

/// Header and rows; in a narrow terminal the columns are in several grids, one below the other.
pub(super) fn lines(glance: &Glance, limit: usize, look: Look) -> Vec<String> {
    if glance.rows.is_empty() {
        return Vec::new();
    }
    let labels: Vec<String> = glance.rows.iter().map(label).collect();
    let margin = labels.iter().map(|label| width(label)).max().unwrap_or(0);
    let mut lines = Vec::new();
    let room = limit.saturating_sub(margin);
    let widths: Vec<usize> = (0..=glance.columns.len()).map(|at| width_of(glance, at)).collect();
    let needed: usize = widths.iter().sum();
    let gap = (room.saturating_sub(needed) / widths.len()).clamp(1, GAP_MAX);
    for part in parts(&widths, room, gap) {
        let mut header = " ".repeat(margin);
        for &at in &part {
            header += &padded(&heading(glance, at), gap + widths[at]);
        }
        lines.push(header.trim_end().to_owned());
        for (row, label) in glance.rows.iter().zip(&labels) {
            let mut line = padded_to(label, margin);
            for &at in &part {
                let text = text_of(glance, row, at);
                let padding = padded(&text, gap + widths[at]);
                line += &colored(&padding, &text, row, at, look);
            }
            lines.push(line.trim_end().to_owned());
        }
    }
    lines
}

/// The columns of each grid, by index; the one after the last axis is the overall level.
fn parts(widths: &[usize], room: usize, gap: usize) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    let mut used = 0;
    for (at, width) in widths.iter().enumerate() {
        let needed = gap + width;
        if used > 0 && used + needed > room {
            parts.push(Vec::new());
            used = 0;
        }
        used += needed;
        if let Some(last) = parts.last_mut() {
            last.push(at);
        }
    }
    parts
}

/// The grid as a table, each figure with its interval.
pub(super) fn table(glance: &Glance) -> Table {
    let all = 0..=glance.columns.len();
    let heads = all.clone().map(|at| heading(glance, at));
    let rows = glance.rows.iter().map(|row| {
        let cells = all.clone().map(|at| {
            let cell = row.cells.get(at).and_then(Option::as_ref);
            let interval = match cell.and_then(|cell| cell.figure.as_ref()) {
                Some(Figure::Estimate(of)) if of.ends != Ends::AtMost => {
                    format!(" [{}, {}]", two_decimals(of.lo), two_decimals(of.hi))
                }
                _ => String::new(),
            };
            text_of(glance, row, at).trim_end().to_owned() + &interval
        });
        std::iter::once(label(row)).chain(cells).collect::<Vec<_>>()
    });
    Table::plain(std::iter::once("mechanism".to_owned()).chain(heads), rows)
}

fn label(row: &Row) -> String {
    match row.more {
        0 => row.label.clone(),
        more if width(&row.label) <= LABEL_MAX => format!("{} +{more}", row.label),
        more => format!("{} +{more}", row.mechanism),
    }
}

fn heading(glance: &Glance, at: usize) -> String {
    let column = glance.columns.get(at);
    column.map_or(OVERALL, |column| &column.heading).to_owned()
}

fn width_of(glance: &Glance, at: usize) -> usize {
    let texts = glance.rows.iter().map(|row| width(&text_of(glance, row, at)));
    texts.max().unwrap_or(0).max(width(&heading(glance, at)))
}

/// `0.30 !`, with a star where publications claim otherwise. In a column with a star the others
/// have a space, so that signs stand below each other.
fn text_of(glance: &Glance, row: &Row, at: usize) -> String {
    let Some(cell) = row.cells.get(at) else {
        return row.overall_text();
    };
    let Some(cell) = cell else {
        return Standing::Waived.sign().to_string();
    };
    let differs = |row: &Row| {
        let cell = row.cells.get(at).and_then(Option::as_ref);
        cell.is_some_and(MatrixCell::differs_from_claims)
    };
    let star = match (differs(row), glance.rows.iter().any(differs)) {
        (true, _) => "*",
        (false, true) => " ",
        (false, false) => "",
    };
    let sign = cell.standing.sign();
    match figure(cell) {
        Some(figure) => format!("{figure} {sign}{star}"),
        None => format!("{sign}{star}"),
    }
}

fn figure(cell: &MatrixCell) -> Option<String> {
    Some(match cell.figure.as_ref()? {
        // Memory beyond a limit: none is good.
        Figure::Estimate(estimate) if estimate.unit == "of the limit" => {
            format!("+{:.0}%", 100.0 * estimate.value)
        }
        // A bound, rounded up.
        Figure::Estimate(of) if of.ends == Ends::AtMost => {
            format!("<{}", two_decimals((of.hi * 100.0).ceil() / 100.0))
        }
        Figure::Estimate(estimate) => two_decimals(estimate.value),
        Figure::HeldOf([held, of]) => format!("{held}/{of}"),
    })
}

fn padded(text: &str, columns: usize) -> String {
    let spaces = columns.saturating_sub(width(text));
    format!("{}{text}", " ".repeat(spaces))
}

fn padded_to(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// The padded text with its figure and sign in the colour of the level.
fn colored(padded: &str, text: &str, row: &Row, at: usize, look: Look) -> String {
    let standing = match row.cells.get(at) {
        Some(cell) => cell.as_ref().map(|cell| cell.standing),
        None => Some(Standing::of_level(row.overall.as_deref())),
    };
    let paint = match standing {
        Some(Standing::Strong) => Paint::Good,
        Some(Standing::Bounded) => Paint::Fair,
        Some(Standing::Partial | Standing::Open) => Paint::Weak,
        Some(Standing::None | Standing::Failed) => Paint::Bad,
        Some(Standing::Waived) | None => Paint::Plain,
    };
    match padded.strip_suffix(text) {
        Some(spaces) if !text.is_empty() => format!("{spaces}{}", painted(text, paint, look)),
        _ => padded.to_owned(),
    }
}
