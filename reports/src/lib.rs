//! Records on disk and on screen.
//!
//! Three rooms. [`store`] writes and reads the folder of a record: events during a run, Parquet and
//! latency histograms at its end. [`matrix`] says who is isolated from whom, in what and how sure
//! that is. [`format`](mod@format) renders a record for people and programs. Both use the record
//! alone; [`latency`] and [`timeline`] are what reports show of its other files.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]

pub mod format;
pub mod latency;
pub mod matrix;
#[cfg(test)]
mod sample_records;
pub mod store;

pub mod timeline;

pub use format::{CATALOGUE, Format, RenderError, RenderOptions, View};
pub use latency::{CurveOf, Latencies, LatencyChart, LatencyCurve};
pub use matrix::Selection;
pub use store::{EventLog, Finished, Record, StoreError, TelemetryLog};
pub use timeline::{RetentionChart, Timeline};
