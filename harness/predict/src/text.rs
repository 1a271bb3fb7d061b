//! Text that several commands print: tables, JSON, and counted names.

use crate::error::PredictError;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

/// A table with a header line. The first column is left-aligned, the others right-aligned.
pub fn draw(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut builder = Builder::default();
    builder.push_record(header.iter().copied());
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::blank()).with(Modify::new(Columns::new(1..)).with(Alignment::right()));
    let text = table.to_string();
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A value as indented JSON that ends in a newline.
pub fn json_text(value: &impl serde::Serialize) -> Result<String, PredictError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| PredictError::Form {
        what: "output",
        place: "json".to_owned(),
        detail: error.to_string(),
    })?;
    Ok(text + "\n")
}

/// Names in order, each with its count, such as `3x chat, web`.
pub fn counted(names: &[&str]) -> String {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let parts: Vec<String> = sorted
        .chunk_by(|a, b| a == b)
        .map(|run| match run {
            [only] => (*only).to_owned(),
            several => format!("{}x {}", several.len(), several[0]),
        })
        .collect();
    parts.join(", ")
}
