//! Records on disk and on screen: Parquet, terminal, JSON, and what they are rendered from.
//!
//! Two rooms. [`store`] keeps the folder of a record: it appends events while a run goes, turns
//! sample logs into Parquet at its end, and reads all of it back. [`format`](mod@format) renders
//! a record for people and programs, from the record alone.

pub mod format;
pub mod latency;
#[cfg(test)]
mod sample_records;
pub mod store;

pub use format::{CATALOGUE, Format, RenderError, RenderOptions};
pub use latency::{LatencyChart, LatencyCurve};
pub use store::{EventLog, Finished, Record, StoreError, TelemetryLog};
