//! Records on disk and on screen.
//!
//! Two rooms. [`store`] writes and reads the folder of a record: events during a run, Parquet and
//! latency histograms at its end. [`format`](mod@format) renders a record for people and programs,
//! from the record alone.

pub mod format;
pub mod latency;
#[cfg(test)]
mod sample_records;
pub mod store;

pub use format::{CATALOGUE, Format, RenderError, RenderOptions};
pub use latency::{Latencies, LatencyChart, LatencyCurve};
pub use store::{EventLog, Finished, Record, StoreError, TelemetryLog};
