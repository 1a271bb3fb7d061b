//! Comparisons as documents, and in the format that a verb asks for. Pure functions of the report.

mod diff;
mod fidelity;
mod figures;
mod history;
mod intervals;
mod junit;
mod outliers;
mod side_by_side;
mod summary;
#[cfg(test)]
mod tests;

use gpubench_show::{Labels, Look, Page};
use schemars::Schema;

pub use diff::{diff, page as diff_page};
pub use fidelity::fidelity;
pub use gpubench_show::VIRTUAL_TITLE;
pub use history::{alert_words, history, undecided};
pub use outliers::outliers;
pub use side_by_side::side_by_side;

use crate::diff::Report;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
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

/// The formats of a comparison of two sides by name.
pub const DIFF_FORMATS: [(&str, Format); 5] = [
    ("text", Format::Text),
    ("md", Format::Markdown),
    ("html", Format::Html),
    ("junit", Format::Junit),
    ("json", Format::Json),
];

/// The formats of a history by name.
pub const HISTORY_FORMATS: [(&str, Format); 3] =
    [("text", Format::Text), ("html", Format::Html), ("json", Format::Json)];

/// The formats of the other comparisons by name.
pub const FORMATS: [(&str, Format); 3] =
    [("text", Format::Text), ("md", Format::Markdown), ("json", Format::Json)];

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

/// The document in a format for people, or the value as JSON.
fn written<'a>(
    page: impl FnOnce(Format) -> Page,
    variants: impl IntoIterator<Item = &'a str>,
    value: &impl serde::Serialize,
    format: Format,
    look: Look,
) -> Result<String, RenderError> {
    let page = |format| Labels::of(variants).on(page(format));
    match format {
        Format::Text => Ok(page(format).text(look)),
        Format::Markdown => Ok(page(format).markdown()),
        Format::Html => Ok(page(format).html()),
        Format::Json => gpubench_show::json(value)
            .map_err(|error| RenderError { format: "json", reason: error.to_string() }),
        Format::Junit => {
            let reason = "it is for comparisons of two sides".to_owned();
            Err(RenderError { format: "junit", reason })
        }
    }
}

pub fn diff_schema() -> Schema {
    schemars::schema_for!(Report)
}

pub fn history_schema() -> Schema {
    schemars::schema_for!(crate::history::History)
}

pub fn outliers_schema() -> Schema {
    schemars::schema_for!(crate::outliers::Report)
}

/// The schema of the JSON of records side by side.
pub fn side_by_side_schema() -> Schema {
    schemars::schema_for!(crate::side_by_side::SideBySide)
}

/// The schema of the JSON of a model beside hardware.
pub fn fidelity_schema() -> Schema {
    schemars::schema_for!(crate::fidelity::Fidelity)
}
