//! The rows of a session: series of blocks, counts of trials, or why there is neither.

use gpubench_stats::NoEstimate;
use gpubench_stats::summary::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One planned row of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// With its blocks.
    Measured(Series),
    /// With its trials.
    Counted(Count),
    /// It ran, and its figures cannot be trusted; with the reason.
    Invalid(String),
    /// It did not run; with the reason.
    NotMeasured(String),
}

impl Row {
    pub const fn series(&self) -> Option<&Series> {
        match self {
            Self::Measured(series) => Some(series),
            Self::Counted(_) | Self::Invalid(_) | Self::NotMeasured(_) => None,
        }
    }

    /// Its trials, if it has any.
    pub const fn count(&self) -> Option<Count> {
        match self {
            Self::Counted(count) => Some(*count),
            Self::Measured(_) | Self::Invalid(_) | Self::NotMeasured(_) => None,
        }
    }

    pub const fn is_measured(&self) -> bool {
        matches!(self, Self::Measured(_) | Self::Counted(_))
    }
}

/// Trials of one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// Trials with the promised result.
    pub good: u32,
    /// All trials that count.
    pub trials: u32,
}

/// One figure for each block, on the scale of its metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Logarithms, or native medians for jitter.
    pub blocks: Vec<f64>,
    /// By how much disturbances can have moved the mean, down and up: bounds, not errors.
    #[serde(default)]
    pub bounds: Bounds,
    /// Whether the victim starved in more than half of the blocks: the figure is the most that it
    /// can be, and no value.
    #[serde(default)]
    pub is_bound: bool,
    /// The same blocks in cycles of the SM clock in place of time; empty where it is unknown. For
    /// latencies and jitter the contended rate: requests arrive by the time, so a latency in cycles
    /// depends on the clock.
    #[serde(default)]
    pub cycles: Vec<f64>,
    /// Mean logarithm of the SM clock in the cells above the line.
    #[serde(default)]
    pub ln_clock: Option<f64>,
    /// Mean logarithm of the power in the same cells.
    #[serde(default)]
    pub ln_power: Option<f64>,
    /// Mean logarithm of the cost (time for one request, or latency) of each condition.
    #[serde(default)]
    pub parts: Parts,
}

impl Series {
    /// The figure of the session: the mean of its blocks, on the scale of the metric.
    /// Errors: Without a block, and where one is not finite.
    pub fn mean(&self) -> Result<f64, NoEstimate> {
        mean(&self.blocks)
    }
}

/// By how much the true mean may lie below and above the measured one; each at least 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Below.
    pub down: f64,
    /// Above.
    pub up: f64,
}

/// Mean logarithm of the cost under each condition, where it was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Alone on the GPU.
    pub native: Option<f64>,
    /// Alone under the mechanism.
    pub solo: Option<f64>,
    /// Beside the aggressor.
    pub contended: Option<f64>,
}
