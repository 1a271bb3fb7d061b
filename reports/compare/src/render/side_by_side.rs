//! Records side by side as text, Markdown or JSON.

use gpubench_record::{DeviceKind, Estimate};

use super::markdown::escape;
use super::table::wrap;
use super::{RenderError, VIRTUAL_TITLE, json};
use crate::side_by_side::{Column, Entry, Line, SideBySide};

/// Form of a table of records side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideBySideFormat {
    /// For a terminal of 80 columns.
    Text,
    /// One table.
    Markdown,
    /// Everything, for programs.
    Json,
}

impl SideBySideFormat {
    /// Every format by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("text", Self::Text), ("md", Self::Markdown), ("json", Self::Json)];
}

/// The records in one of the formats.
///
/// # Errors
/// When JSON cannot represent them.
pub fn side_by_side(table: &SideBySide, format: SideBySideFormat) -> Result<String, RenderError> {
    match format {
        SideBySideFormat::Text => Ok(text(table)),
        SideBySideFormat::Markdown => Ok(markdown(table)),
        SideBySideFormat::Json => json(table),
    }
}

/// The schema of their JSON.
#[must_use]
pub fn side_by_side_schema() -> schemars::Schema {
    schemars::schema_for!(SideBySide)
}

fn text(table: &SideBySide) -> String {
    let mut text = String::new();
    for notice in notices(table) {
        text += &(wrap(&notice, 2) + "\n");
    }
    for (at, column) in table.records.iter().enumerate() {
        text += &(wrap(&format!("{}  {}", at + 1, record(column)), 3) + "\n");
    }
    for line in &table.rows {
        text += &format!("\n{}\n", wrap(&head(line), 2));
        for (at, one) in line.entries.iter().enumerate() {
            text += &(wrap(&format!("  {}  {}", at + 1, entry(one.as_ref())), 5) + "\n");
        }
    }
    text
}

fn markdown(table: &SideBySide) -> String {
    let mut text = String::new();
    for notice in notices(table) {
        text += &format!("- {}\n", escape(&notice));
    }
    let columns: Vec<String> = table.records.iter().map(|one| escape(&record(one))).collect();
    text += &format!("\n| row | {} |\n|---|", columns.join(" | "));
    text += &("---|".repeat(columns.len()) + "\n");
    for line in &table.rows {
        let cells: Vec<String> =
            line.entries.iter().map(|one| escape(&entry(one.as_ref()))).collect();
        text += &format!("| {} | {} |\n", escape(&head(line)), cells.join(" | "));
    }
    text
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

fn entry(entry: Option<&Entry>) -> String {
    let Some(entry) = entry else {
        return "-".to_owned();
    };
    let mut parts = vec![entry.level.clone().unwrap_or_else(|| entry.outcome.as_str().to_owned())];
    parts.extend(entry.word.clone());
    let figures = entry.figures.iter();
    parts
        .extend(figures.map(|(name, figure)| format!("{} {}", name.replace('_', " "), of(figure))));
    parts.join(", ")
}

fn of(figure: &Estimate) -> String {
    format!("{:.3} [{:.3}, {:.3}]", figure.value, figure.lo, figure.hi)
}
