//! The report formats. Each is one file and one line of [`CATALOGUE`].
//!
//! A format is a pure function of the record and the options. It reads no clock, device or file.

mod csv;
mod curves;
mod document;
mod faults;
mod figures;
mod html;
mod matrix;
mod neighbours;
mod programs;
mod results;
mod screen;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod vendor_counters;
mod why;

use std::io::{self, Write};

// `gpubench-ci dummies` copies `csv.rs` and replaces its name, so the crate has another one there.
use ::csv as rfc4180;

use gpubench_record::RunRecord;
use gpubench_show::{Look, Page};
use gpubench_store::latency::LatencyChart;
use gpubench_store::timeline::{RetentionChart, Timeline};

use crate::matrix::Selection;

pub use gpubench_show::VIRTUAL_TITLE;
pub use programs::{DeviceLabels, Gauges, Labels};

/// A report format.
pub struct Format {
    /// The value of `--format`.
    pub name: &'static str,
    /// The file extension, without the dot.
    pub extension: &'static str,
    pub summary: &'static str,
    /// Whether it is for people: it then shows [`RenderOptions::latency`].
    pub is_for_people: bool,
    /// Whether it draws charts: it then shows [`RenderOptions::timeline`] and
    /// [`RenderOptions::diff`].
    pub draws_charts: bool,
    /// Renders the record; an error when the output cannot be written, or the format cannot
    /// represent the record.
    pub render: fn(&RunRecord, &RenderOptions, &mut dyn Write) -> Rendered,
}

/// How a rendering ends.
pub type Rendered = Result<(), RenderError>;

/// Every format, in listing order.
pub static CATALOGUE: &[&Format] = &[
    &text::FORMAT,
    &html::FORMAT,
    &text::MARKDOWN,
    &programs::JSON,
    &csv::FORMAT,
    &programs::JUNIT,
    &programs::OPEN_METRICS,
];

/// The format without `--format`.
pub const TEXT: &str = "text";

pub const TEXT_ALIAS: &str = "terminal";

pub fn find(name: &str) -> Option<&'static Format> {
    let name = if name == TEXT_ALIAS { TEXT } else { name };
    CATALOGUE.iter().copied().find(|format| format.name == name)
}

/// What the text format shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Screen,
    Full,
    /// The reasons for doubt, grouped and counted.
    Why,
}

/// What a format uses besides the record.
#[derive(Debug, Clone, Default)]
pub struct RenderOptions {
    /// Width and colour of the text format.
    pub look: Look,
    pub view: View,
    /// Lines of the terminal that the screen must fit; `None` shows all of it.
    pub lines_max: Option<usize>,
    /// The mechanisms and axes that the text format shows.
    pub selection: Selection,
    pub record_dir: Option<String>,
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
    NotJson { reason: String },
    /// JUnit XML cannot represent the record.
    #[error("the record cannot be written as junit: {reason}")]
    NotJunit { reason: String },
}

impl From<rfc4180::Error> for RenderError {
    fn from(error: rfc4180::Error) -> Self {
        Self::Write(match error.into_kind() {
            rfc4180::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        })
    }
}
