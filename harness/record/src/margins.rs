//! The smallest changes that matter when records are compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The smallest changes that matter between two sides of `gpubench diff`. They decide verdicts of
/// comparisons and nothing that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Margins {
    /// Of ratios, rates and medians, as a share.
    pub ratio: f64,
    /// Of the 99th percentile, as a share.
    pub p99: f64,
    /// Of jitter, in native medians and as a share of the jitter; the larger one counts.
    pub jitter: f64,
    /// Of proportions of trials, as a difference of proportions.
    pub survival: f64,
}

impl Default for Margins {
    fn default() -> Self {
        Self { ratio: 0.03, p99: 0.10, jitter: 0.10, survival: 0.10 }
    }
}

impl Margins {
    /// The smaller one of each: what matters to either is not overlooked.
    #[must_use]
    pub const fn smaller(self, other: Self) -> Self {
        Self {
            ratio: self.ratio.min(other.ratio),
            p99: self.p99.min(other.p99),
            jitter: self.jitter.min(other.jitter),
            survival: self.survival.min(other.survival),
        }
    }
}
