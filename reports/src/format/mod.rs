//! The report formats. Each is one file and one line of [`CATALOGUE`].
//!
//! A format is a pure function of the record and the options. It reads no clock, device or file.

mod claims;
mod csv;
mod document;
mod dose;
mod draw;
mod faults;
mod figures;
mod glossary;
mod html;
mod json;
mod junit;
mod latency;
mod layout;
mod markdown;
mod matrix;
mod not_asked;
mod nothing;
mod openmetrics;
mod operator;
mod page;
mod parts;
mod screen;
mod selected;
mod service;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;
mod why;

use std::io::{self, Write};

// `gpubench-ci dummies` copies `csv.rs` and replaces its name, so the crate has another one there.
use ::csv as rfc4180;

use gpubench_record::RunRecord;

use crate::latency::LatencyChart;
use crate::matrix::Selection;
use crate::timeline::{RetentionChart, Timeline};

pub use page::{Page, PageTable};

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

    /// Whether it draws charts: it then shows [`RenderOptions::timeline`] and
    /// [`RenderOptions::diff`].
    fn draws_charts(&self) -> bool {
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
    &openmetrics::OpenMetrics,
];

/// The format with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Format> {
    CATALOGUE.iter().copied().find(|format| format.name() == name)
}

/// What the terminal format shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum View {
    /// The matrix on one screen.
    #[default]
    Screen,
    /// Every table.
    Full,
    /// The reasons for doubt, grouped and counted.
    Why,
}

/// What a format uses besides the record.
#[derive(Debug, Clone, Default)]
pub struct RenderOptions {
    /// Whether to colour; only the terminal format does.
    pub color: bool,
    /// Columns of the terminal; without it the screen has 80, and tables their natural width.
    pub width: Option<usize>,
    /// What the terminal format shows.
    pub view: View,
    /// The mechanisms and axes that the terminal format shows.
    pub selection: Selection,
    /// The folder of the record, for the footer.
    pub record_dir: Option<String>,
    /// Warnings from opening the record.
    pub warnings: Vec<String>,
    /// Latency curves and percentiles, by victim; formats for people show them.
    pub latency: Vec<LatencyChart>,
    /// The retention of each pair by block; the page shows it.
    pub retention: Vec<RetentionChart>,
    /// The device over the time of the run, where the record has telemetry; the page shows it.
    pub timeline: Option<Timeline>,
    /// The comparison with an earlier record, where one was given; the page shows it.
    pub diff: Option<Page>,
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
