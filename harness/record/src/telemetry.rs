//! Telemetry: one long table of named metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One reading. `t_ns` is nanoseconds since the start of the session's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TelemetryRow {
    /// When it was read.
    pub t_ns: u64,
    /// The cell in which it was read, empty between cells.
    pub cell: String,
    /// The source, for example `nvml`.
    pub source: String,
    /// The metric, for example `power`.
    pub metric: String,
    /// The reading.
    pub value: f64,
    /// Its unit, for example `mW`.
    pub unit: String,
}
