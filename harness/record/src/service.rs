//! What a victim got at one number of tenants: its share of the promised latency, and its rate; and
//! how many tenants there may be for the promise to be kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, SubAxis};
use crate::matrix::Estimate;
use crate::outcome::Outcome;

/// One variant, victim, condition, aggressor and number of tenants, over all blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceRow {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// The sub-axis of the pair.
    pub sub_axis: SubAxis,
    /// Workload of the victim.
    pub victim: String,
    /// The condition: N, S or C.
    pub condition: Condition,
    /// Workload of the aggressor, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggressor: Option<String>,
    /// Tenants at work, the victim among them.
    pub tenants: u32,
    /// Outcome with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Closed-loop rate over that of the same blocks solo under the mechanism.
    pub retention: Option<Estimate>,
    /// Share of the offered open-loop requests that ended well within the promised latency.
    pub within_slo: Option<Estimate>,
    /// Open-loop requests that were offered.
    pub requests: u64,
}

/// The most tenants at work beside whom a victim still keeps its promised latency, over the numbers
/// of tenants that were tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantLimit {
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
    /// Outcome with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The number; 0 where the victim does not keep the promise alone. Its bounds are the numbers
    /// that the bounds of the shares of requests give.
    pub tenants: Option<Estimate>,
    /// Numbers of tenants that were tried: between two of them nothing is known, and above the
    /// greatest.
    pub tried: Vec<u32>,
    /// Share of the offered requests that has to keep the promised latency.
    pub share: f64,
}
