//! The figures of rows, and what is known of each: its scale, its direction, its family.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figure of a row.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Contended rate over solo rate.
    Retention,
    /// 99th percentile of the contended latency.
    P99,
    /// Growth of the latency tail, in native medians.
    Jitter,
    /// Contended rate over native rate.
    Guarantee,
    /// Solo rate over native rate.
    Efficiency,
    /// Contended rate.
    ContendedRate,
    /// Solo rate.
    SoloRate,
    /// Native rate.
    NativeRate,
    /// Rate of the aggressor without neighbours under the mechanism.
    AggressorRate,
    /// Median of the contended latency.
    P50,
    /// Contended rate over solo rate beside an aggressor at a dose below 1.
    DoseRetention,
    /// Proportion of trials with the promised result.
    Survival,
}

impl Metric {
    /// Every metric, the primary ones first.
    pub const ALL: [Self; 12] = [
        Self::Retention,
        Self::P99,
        Self::Jitter,
        Self::Guarantee,
        Self::Efficiency,
        Self::ContendedRate,
        Self::SoloRate,
        Self::NativeRate,
        Self::AggressorRate,
        Self::P50,
        Self::DoseRetention,
        Self::Survival,
    ];

    /// As in tables and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::P99 => "p99",
            Self::Jitter => "jitter",
            Self::Guarantee => "guarantee",
            Self::Efficiency => "efficiency",
            Self::ContendedRate => "contended-rate",
            Self::SoloRate => "solo-rate",
            Self::NativeRate => "native-rate",
            Self::AggressorRate => "aggressor-rate",
            Self::P50 => "p50",
            Self::DoseRetention => "dose-retention",
            Self::Survival => "survival",
        }
    }

    /// Whether its rows share the error of a false alarm among rates and latencies.
    pub const fn is_primary(self) -> bool {
        matches!(self, Self::Retention | Self::P99 | Self::Jitter)
    }

    /// Whether its blocks are logarithms; else they are native medians or proportions.
    pub const fn is_log(self) -> bool {
        !matches!(self, Self::Jitter | Self::Survival)
    }

    /// Whether its rows are counts of trials.
    pub const fn is_proportion(self) -> bool {
        matches!(self, Self::Survival)
    }

    pub const fn unit(self) -> &'static str {
        match self {
            Self::Jitter => "native medians",
            Self::Survival => "proportion",
            _ => "share",
        }
    }

    /// +1 where a higher figure is worse, -1 where a lower one is.
    pub const fn worse(self) -> f64 {
        match self {
            Self::P99 | Self::P50 | Self::Jitter => 1.0,
            _ => -1.0,
        }
    }

    /// Whether it is made of latencies of the open loop.
    pub const fn is_latency(self) -> bool {
        matches!(self, Self::P99 | Self::P50 | Self::Jitter)
    }

    /// A mean of blocks as the figure that tables show.
    pub fn shown(self, mean: f64) -> f64 {
        if self.is_log() { mean.exp() } else { mean }
    }
}
