//! The report formats. Each is one file and one line of [`CATALOGUE`].
//!
//! A format is a pure function of the record and the options. It reads no clock, device or file.

mod csv;
mod document;
mod faults;
mod figures;
mod glossary;
mod html;
mod html_charts;
mod json;
mod junit;
mod latency;
mod layout;
mod markdown;
mod markup;
mod matrix;
mod nothing;
mod parts;
mod service;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

// `gpubench-ci dummies` copies `csv.rs` and replaces its name, so the crate has another one there.
use ::csv as rfc4180;

use gpubench_record::RunRecord;

use crate::latency::LatencyChart;

/// Title of a report for people about a virtual GPU.
pub const VIRTUAL_TITLE: &str =
    "VIRTUAL GPU: predictions of a model, not measurements of NVIDIA hardware";

/// A report format.
pub trait Format: Sync {
    /// Its name, the value of `--format`.
    fn name(&self) -> &'static str;

    /// The file extension, without the dot.
    fn extension(&self) -> &'static str;

    /// Its purpose, in one line.
    fn summary(&self) -> &'static str;

    /// Whether it is for people: it then shows [`RenderOptions::latency`].
    fn is_for_people(&self) -> bool {
        false
    }

    /// Renders the record.
    ///
    /// # Errors
    /// When `out` cannot be written, or the format cannot represent the record.
    fn render(
        &self,
        record: &RunRecord,
        options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError>;
}

/// Every format, in listing order.
pub static CATALOGUE: &[&dyn Format] = &[
    &terminal::Terminal,
    &html::Html,
    &markdown::Markdown,
    &json::Json,
    &csv::Csv,
    &junit::Junit,
];

/// The format with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Format> {
    CATALOGUE
        .iter()
        .copied()
        .find(|format| format.name() == name)
}

/// What a format uses besides the record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderOptions {
    /// Whether to colour; only the terminal format does.
    pub color: bool,
    /// Columns of the terminal; without it tables have their natural width.
    pub width: Option<usize>,
    /// The folder of the record, for the footer.
    pub record_dir: Option<String>,
    /// Warnings from opening the record.
    pub warnings: Vec<String>,
    /// Latency curves and percentiles, by victim; formats for people show them.
    pub latency: Vec<LatencyChart>,
}

/// A record that could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The output could not be written.
    #[error("cannot write the report: {0}")]
    Write(#[from] io::Error),
    /// JSON cannot represent the record.
    #[error("the record cannot be written as json: {reason}")]
    NotJson {
        /// Why.
        reason: String,
    },
    /// JUnit XML cannot represent the record.
    #[error("the record cannot be written as junit: {reason}")]
    NotJunit {
        /// Why.
        reason: String,
    },
}

impl From<rfc4180::Error> for RenderError {
    fn from(error: rfc4180::Error) -> Self {
        Self::Write(match error.into_kind() {
            rfc4180::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        })
    }
}
