//! Service at several numbers of tenants: the share of requests within the promised latency, the
//! rate, and the largest number of tenants that keeps the promise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, SubAxis};
use crate::estimate::Estimate;
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
    /// Working tenants, including the victim.
    pub tenants: u32,
    /// Outcome with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Closed-loop rate over the solo rate of the same blocks under the mechanism.
    pub retention: Option<Estimate>,
    /// Share of the offered open-loop requests that succeeded within the promised latency.
    pub within_slo: Option<Estimate>,
    /// Open-loop requests that were offered.
    pub requests: u64,
}

/// The largest tested number of working tenants with which a victim keeps its promised latency.
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
    /// The number; 0 where the victim breaks the promise without neighbours. Its bounds follow from
    /// the bounds of the shares of requests. A lower bound where the highest tested number may keep
    /// the promise.
    pub tenants: Option<Estimate>,
    /// The tested numbers of tenants. Nothing is known of other numbers.
    pub tried: Vec<u32>,
    /// Share of the offered requests that must keep the promised latency.
    pub share: f64,
}
