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
use crate::text::json_text;

/// The report as JSON; the parts that were not asked for are left out.
pub fn json(report: &Report) -> Result<String, PredictError> {
    json_text(report)
}

/// A figure with two digits behind the point, or a dash where there is none.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}
