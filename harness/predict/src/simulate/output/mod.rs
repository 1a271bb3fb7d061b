//! Output of `simulate`: table, JSON, CSV, SVG and HTML.

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

/// The report as JSON, without the parts that were not requested.
pub fn json(report: &Report) -> Result<String, PredictError> {
    json_text(report)
}

/// A figure with two decimals, or a dash for `None`.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}
