//! How the retention of a victim changes with the dose of the aggressor.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::SubAxis;
use crate::estimate::Estimate;
use crate::outcome::Outcome;

/// The dose that the aggressor offers, below 1. Doses order by their size.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dose(pub f64);

impl Dose {
    /// The dose, where it is below 1.
    #[must_use]
    pub fn below_1(dose: f64) -> Option<Self> {
        (dose < 1.0).then_some(Self(dose))
    }
}

impl PartialEq for Dose {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Dose {}

impl PartialOrd for Dose {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dose {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Dose {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl std::fmt::Display for Dose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A hundredth of a percent is the smallest step that is shown.
        write!(f, "{} %", (self.0 * 1e4).round() / 100.0)
    }
}

/// One variant, victim and aggressor at every planned dose. The row of the matrix is that of dose
/// 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoseCurve {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// The sub-axis of the pair.
    pub sub_axis: SubAxis,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor.
    pub aggressor: String,
    /// Outcome of the dose area with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The planned doses, rising.
    pub points: Vec<DosePoint>,
    /// Mean height of the piecewise linear curve through the retentions, which is 1 at dose 0.
    pub area: Option<Estimate>,
    /// Steps between two doses at which the retention rises; empty for a curve that only falls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rises: Vec<DoseRise>,
}

/// One dose of the curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DosePoint {
    /// The planned fraction of the time in which the aggressor has work outstanding.
    pub offered: f64,
    /// Work that the aggressor completed over its native peak rate. A mechanism that throttles the
    /// aggressor keeps this below the offered dose.
    pub achieved: Option<Estimate>,
    /// Closed-loop rate over the solo rate of the same blocks under the mechanism.
    pub retention: Option<Estimate>,
    /// Why blocks do not count, the first reason only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// A step of the curve at which more load from the neighbour leaves the victim more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoseRise {
    /// The lower dose.
    pub from: f64,
    /// The higher dose.
    pub to: f64,
    /// Retention at the higher dose over that at the lower dose. Its interval lies above 1.
    pub ratio: Estimate,
}
