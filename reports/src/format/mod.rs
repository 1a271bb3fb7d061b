//! The formats in which a record can be rendered. Each is one file and one line of [`CATALOGUE`].
//!
//! A format is a pure function of the record and the options: no clock, no device, no files but
//! the one it writes to.

mod csv;
mod document;
mod faults;
mod figures;
mod html;
mod html_charts;
mod json;
mod junit;
mod layout;
mod markdown;
mod markup;
mod nothing;
mod parts;
mod service;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use gpubench_record::RunRecord;

use crate::latency::LatencyChart;

/// Stands in the title of everything that people read, when no GPU was there.
pub const VIRTUAL_TITLE: &str =
    "VIRTUAL GPU: predictions of a model, not measurements of NVIDIA hardware";

/// A way to render a record.
pub trait Format: Sync {
    /// What `--format` takes.
    fn name(&self) -> &'static str;

    /// How the name of a file in this format ends, without the dot.
    fn extension(&self) -> &'static str;

    /// What it is for, in one line.
    fn summary(&self) -> &'static str;

    /// Renders the record.
    ///
    /// # Errors
    /// When `out` cannot be written, or the record holds what the format cannot.
    fn render(
        &self,
        record: &RunRecord,
        options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError>;
}

/// Every format, in the order in which they are listed.
pub static CATALOGUE: &[&dyn Format] = &[
    &terminal::Terminal,
    &html::Html,
    &markdown::Markdown,
    &json::Json,
    &csv::Csv,
    &junit::Junit,
];

/// The format of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Format> {
    CATALOGUE
        .iter()
        .copied()
        .find(|format| format.name() == name)
}

/// What a format needs to know beside the record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderOptions {
    /// Whether to colour; the terminal format alone does.
    pub color: bool,
    /// Columns of the terminal; without it tables are as wide as they need.
    pub width: Option<usize>,
    /// The folder of the record, for the footer.
    pub record_dir: Option<String>,
    /// What opening the record warned of.
    pub warnings: Vec<String>,
    /// Latency curves for the HTML report, by victim.
    pub latency: Vec<LatencyChart>,
}

/// A record that could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The output could not be written.
    #[error("cannot write the report: {0}")]
    Write(#[from] io::Error),
    /// The record holds what JSON cannot.
    #[error("the record cannot be written as json: {reason}")]
    NotJson {
        /// Why.
        reason: String,
    },
}
