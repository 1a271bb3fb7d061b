//! A comparison as text, Markdown, HTML, JUnit or JSON. Pure functions of the report.

mod fidelity;
mod history;
mod html;
mod junit;
mod markdown;
mod outliers;
mod sheet;
mod side_by_side;
mod summary;
pub mod table;
#[cfg(test)]
mod tests;
mod text;
mod words;

use schemars::Schema;

pub use fidelity::{FidelityFormat, fidelity, fidelity_schema};
pub use history::{HistoryFormat, history, history_schema};
pub use outliers::{OutliersFormat, outliers, outliers_schema};
pub use sheet::{COLUMNS, Sheet, sheet};
pub use side_by_side::{SideBySideFormat, side_by_side, side_by_side_schema};

use crate::diff::Report;

/// First line of every report about virtual GPUs, as in reports of one record.
pub const VIRTUAL_TITLE: &str =
    "VIRTUAL GPU: predictions of a model, not measurements of NVIDIA hardware";

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal of 80 columns.
    Text,
    /// Tables for a pull request or a job summary.
    Markdown,
    /// One page.
    Html,
    /// One test case for each primary row.
    Junit,
    /// Everything, for programs.
    Json,
}

impl Format {
    /// Every format by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("text", Self::Text),
        ("md", Self::Markdown),
        ("html", Self::Html),
        ("junit", Self::Junit),
        ("json", Self::Json),
    ];
}

/// Which rows a report for people lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Rows that changed or are undecided.
    Changes,
    /// All rows.
    Full,
}

/// A comparison that could not be rendered.
#[derive(Debug, thiserror::Error)]
#[error("the comparison cannot be written as {format}: {reason}")]
pub struct RenderError {
    format: &'static str,
    reason: String,
}

/// The comparison in one of the formats.
///
/// # Errors
/// When JSON or XML cannot represent it.
pub fn diff(report: &Report, format: Format, detail: Detail) -> Result<String, RenderError> {
    match format {
        Format::Text => Ok(text::diff(&words::Document::of(report, detail))),
        Format::Markdown => Ok(markdown::diff(&words::Document::of(report, detail))),
        Format::Html => Ok(html::diff(&words::Document::of(report, Detail::Full))),
        Format::Junit => junit::diff(report),
        Format::Json => json(report),
    }
}

/// Indented JSON with a final line feed.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, RenderError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| RenderError { format: "json", reason: error.to_string() })?;
    Ok(text + "\n")
}

/// The schema of the JSON of a comparison.
#[must_use]
pub fn diff_schema() -> Schema {
    schemars::schema_for!(Report)
}
