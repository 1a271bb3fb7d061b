//! Parts of a plan that stand by themselves: facts of workloads, pairs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::SubAxis;

/// Facts of one workload that gates and scores need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadFacts {
    /// `CUresult`s of refusals that answer a request: the workload measures how many of its
    /// requests are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answering_codes: Vec<i32>,
}

/// A victim and an aggressor that compete for one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedPair {
    /// The sub-axis under which it is scored.
    pub sub_axis: SubAxis,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor.
    pub aggressor: String,
}

/// A requested mechanism or axis that will not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skip {
    /// Name of the mechanism concerned.
    pub name: String,
    /// Its variant; its name where the host has no variant of it.
    #[serde(rename = "mechanism")]
    pub variant: String,
    /// Axis concerned; absent when the whole mechanism is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis: Option<String>,
    /// Why.
    pub reason: String,
    /// What would make it run; absent if nothing can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
