//! What `simulate` prints: a table for people, JSON and CSV for programs, SVG and HTML to look at.

mod csv;
mod html;
mod svg;
mod table;

pub use csv::csv;
pub use html::html;
pub use svg::svg;
pub use table::table;

use super::report::Report;
use crate::error::PredictError;

/// The report as JSON; the parts that were not asked for are left out.
pub fn json(report: &Report) -> Result<String, PredictError> {
    let text = serde_json::to_string_pretty(report).map_err(|error| PredictError::Form {
        what: "report",
        place: "json".to_owned(),
        detail: error.to_string(),
    })?;
    Ok(text + "\n")
}

/// A figure with two digits behind the point, or a dash where there is none.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}
