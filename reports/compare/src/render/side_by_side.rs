//! Records side by side as text, Markdown or JSON.

use gpubench_record::{DeviceKind, Estimate};

use gpubench_show::{Block, Cell, Look, Page, Paint, Table};

use super::{Format, RenderError, VIRTUAL_TITLE, written};
use crate::side_by_side::{Column, Entry, Line, SideBySide};

/// The records in one of the formats.
/// Fails when JSON cannot represent them.
pub fn side_by_side(table: &SideBySide, format: Format, look: Look) -> Result<String, RenderError> {
    written(|_| page(table), table, format, look)
}

/// The records by number, and a column for each.
fn page(table: &SideBySide) -> Page {
    let mut page = Page::default();
    notices(table).into_iter().for_each(|notice| page.notice(notice));
    for (one, number) in table.records.iter().zip(1..) {
        page.push(
            gpubench_show::Line::new(record(one))
                .indented(0, 3)
                .marked(number.to_string(), Paint::Plain),
        );
    }
    let numbers = (1..=table.records.len()).map(|number| number.to_string());
    let columns: Vec<String> = std::iter::once("row".to_owned()).chain(numbers).collect();
    let rows = table.rows.iter().map(|line| {
        let entries = line.entries.iter().map(|one| entry(one.as_ref()));
        std::iter::once(Cell::text(head(line))).chain(entries).collect()
    });
    page.push(Block::Gap);
    page.push(Table::new("", "", columns, rows));
    page
}

fn notices(table: &SideBySide) -> Vec<String> {
    let is_virtual = |column: &Column| column.kind == DeviceKind::Virtual;
    let mut notices = Vec::new();
    if table.records.iter().any(is_virtual) {
        notices.push(VIRTUAL_TITLE.to_owned());
    }
    notices.push(
        "levels and figures side by side; no verdict: gpubench diff compares one GPU with itself"
            .to_owned(),
    );
    notices.extend(table.cautions.iter().cloned());
    notices
}

fn record(column: &Column) -> String {
    let incomplete = if column.complete { "" } else { ", incomplete" };
    format!(
        "{} ({}), driver {}, profile {}{incomplete}: {}",
        column.product,
        column.kind.as_str(),
        column.driver,
        column.profile,
        column.name
    )
}

fn head(line: &Line) -> String {
    let mut text = format!("{} {}", line.variant, line.axis);
    if let Some(victim) = &line.victim {
        text += &format!(", {victim}");
    }
    if let Some(aggressor) = &line.aggressor {
        text += &format!(" beside {aggressor}");
    }
    text
}

/// The level and its word, then a line for each figure.
fn entry(entry: Option<&Entry>) -> Cell {
    let Some(entry) = entry else {
        return Cell::text("");
    };
    let level = entry.level.clone().unwrap_or_else(|| entry.outcome.as_str().to_owned());
    let level = std::iter::once(level).chain(entry.word.clone()).collect::<Vec<_>>().join(", ");
    let figures = entry.figures.iter();
    let figures =
        figures.map(|(name, figure)| format!("{} {}", name.replace('_', " "), of(figure)));
    Cell::lines(std::iter::once(level).chain(figures))
}

fn of(figure: &Estimate) -> String {
    format!("{:.3} [{:.3}, {:.3}]", figure.value, figure.lo, figure.hi)
}
