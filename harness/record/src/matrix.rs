//! The measured matrix: one row for each mechanism variant, axis, sub-axis and aggressor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::exit_code::Outcome;
use super::figures::Estimate;
use crate::condition::{Condition, Shape, SubAxis};

/// Fewest blocks for an interval that decides. Its width says the rest: with two degrees of freedom
/// the 95 % interval is 4.3 standard errors wide on either side, with seven 2.4.
pub const BLOCKS_MIN: u32 = 3;

/// One row of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixRow {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// Axis.
    pub axis: String,
    /// Sub-axis, where the axis has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_axis: Option<String>,
    /// Workload of the victim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// Aggressor that produced the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggressor: Option<String>,
    /// Outcome with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Warnings about the row.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// `L0`..`L3`, or two adjacent levels when the interval straddles a boundary; null if none.
    pub level: Option<String>,
    /// The word; `reference` for the exclusive rows.
    pub word: Option<String>,
    /// Published claims, as `source: word`.
    #[serde(default)]
    pub claimed: Vec<String>,
    /// Which unprotected form the effectiveness was measured under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub u_kind: Option<String>,
    /// Rate beside the aggressor over rate solo under the mechanism.
    pub retention: Option<Estimate>,
    /// Rate beside the aggressor over native rate.
    pub guarantee: Option<Estimate>,
    /// Solo rate under the mechanism over native rate.
    pub efficiency: Option<Estimate>,
    /// Unprotected rate over native rate.
    pub effectiveness: Option<Estimate>,
    /// 1 is unaffected, 0 is as unprotected.
    pub isolation_index: Option<Estimate>,
    /// Service jitter in native medians: the spread of single requests beside the aggressor beyond
    /// what a uniform slowdown makes of the native one.
    pub jitter: Option<Estimate>,
    /// Growth of the latency tail at the offered load, in native medians. It holds the queue of the
    /// load as well, and decides no level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_at_load: Option<Estimate>,
    /// Share of unharmed victims; on the memory axis, share of trials with the promised result or
    /// of honoured requests. `n` counts victims, trials or requests.
    pub survival: Option<Estimate>,
    /// Memory beyond the limit over the limit, of the worst call, with the range of all rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overshoot: Option<Estimate>,
    /// SM clock beside the aggressor over the solo clock, both means over closed loops: the factor
    /// of the retention that the clock took. Divided by it, the retention is a ratio of cycles.
    /// Absent where the clock was not read, and in format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_part: Option<Estimate>,
    /// Requests behind the row.
    pub requests: u64,
    /// Blocks that its deciding figures leave out; absent where they leave out none, and in
    /// format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_lost: Option<BlocksLost>,
}

/// Blocks that the deciding figures of a row leave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlocksLost {
    /// Blocks that were planned.
    pub planned: u32,
    /// Those that are left out.
    pub lost: Vec<LostBlock>,
}

/// One block that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostBlock {
    /// Its number.
    pub block: u32,
    /// What kind of reason it was.
    pub kind: LostKind,
    /// The reason.
    pub reason: String,
}

/// Why a block is left out.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LostKind {
    /// A cell of it was not measured, or not planned.
    NotMeasured,
    /// Something moved a figure of it by more than its limit.
    Disturbance,
    /// A cell of it was not what its plan says.
    Validity,
}

impl MatrixRow {
    /// Whether it counts the trials of a fault.
    pub fn is_of_fault(&self) -> bool {
        self.axis == "fault" && self.aggressor.is_some()
    }

    /// What reports print beside the row: why it is not measured, and its warnings.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.outcome.reason.iter().chain(&self.warnings)
    }

    /// The axis, with the sub-axis where the row has one.
    pub fn axis_path(&self) -> String {
        match &self.sub_axis {
            Some(sub_axis) => format!("{}/{sub_axis}", self.axis),
            None => self.axis.clone(),
        }
    }

    /// The names of its figures, as in JSON and CSV.
    pub const FIGURES: [&'static str; 9] = [
        "retention",
        "guarantee",
        "efficiency",
        "effectiveness",
        "isolation_index",
        "jitter",
        "tail_at_load",
        "survival",
        "overshoot",
    ];

    /// Its figures, in the order of their names.
    pub fn figures(&self) -> [Option<&Estimate>; Self::FIGURES.len()] {
        [
            &self.retention,
            &self.guarantee,
            &self.efficiency,
            &self.effectiveness,
            &self.isolation_index,
            &self.jitter,
            &self.tail_at_load,
            &self.survival,
            &self.overshoot,
        ]
        .map(Option::as_ref)
    }
}

/// The overall level of one mechanism variant: its weakest axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverallRow {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// The lowest level over the axes; null where an axis has none.
    pub level: Option<String>,
    /// The axis that decided it.
    pub weakest_axis: Option<String>,
    /// Axes with a level, on which the overall level rests. Absent in format 1.0.
    #[serde(default)]
    pub axes: Vec<String>,
    /// Requested axes without a level; the overall level does not cover them.
    #[serde(default)]
    pub unmeasured_axes: Vec<String>,
}

// The operator's view of tenants that share the device: their progress, its fairness, and the GPU
// time of each.

/// One variant, victim, aggressor and number of tenants, over all blocks. No level follows from it:
/// a fair device may isolate nothing.
///
/// The progress of a tenant is its rate in the closed loop over its rate alone on the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorRow {
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
    /// Working tenants, including the victim.
    pub tenants: u32,
    /// Average normalised turnaround time: the mean of 1 over progress.
    pub antt: Estimate,
    /// System throughput: the sum of progress.
    pub stp: Estimate,
    /// The smallest progress of a tenant.
    pub progress_min: Estimate,
    /// The largest.
    pub progress_max: Estimate,
    /// Jain's index of progress. It is flat near 1: two tenants that progress two to one have 0.9.
    pub jain: Estimate,
    /// Work of all tenants over what the device can do of that work, by its peak: 1 is full.
    /// In format 1.0 the victim counted with its share of the device, which is more than it
    /// uses.
    pub utilisation: Estimate,
    /// GPU time of each tenant over these blocks. Absent in format 1.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_time: Vec<TenantTime>,
    /// The progress of each tenant, where all do the same work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<TenantProgress>,
}

/// The progress of one of several tenants that do the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantProgress {
    /// Name of the tenant.
    pub tenant: String,
    /// Its rate over its rate alone on the whole device: its share of the device in work.
    pub progress: Estimate,
    /// Its share of the work of all tenants.
    pub share: Estimate,
}

impl OperatorRow {
    /// The names of its figures, as in JSON and CSV.
    pub const FIGURES: [&'static str; 6] =
        ["antt", "stp", "progress_min", "progress_max", "jain", "utilisation"];

    /// Its figures, in the order of their names.
    pub const fn figures(&self) -> [&Estimate; Self::FIGURES.len()] {
        [
            &self.antt,
            &self.stp,
            &self.progress_min,
            &self.progress_max,
            &self.jain,
            &self.utilisation,
        ]
    }
}

/// GPU time of one tenant: the sum over its requests of the time between the device events before
/// and after each. Where tenants take turns it includes turns of others within a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantTime {
    /// Name of the tenant.
    pub tenant: String,
    /// Its workload.
    pub workload: String,
    /// Its GPU time.
    pub gpu_time_ns: u64,
    /// Its share of the GPU time of all tenants.
    pub share: f64,
}

// Service at several numbers of tenants: the share of requests within the promised latency, the
// rate, and the largest number of tenants that keeps the promise.

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
    /// Where its cells differ from the usual ones: depth of the queues, and load.
    #[serde(flatten)]
    pub shape: Shape,
    /// Outcome with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Closed-loop rate over the solo rate of the same blocks under the mechanism.
    pub retention: Option<Estimate>,
    /// Share of the offered open-loop requests that succeeded within the promised latency.
    pub within_slo: Option<Estimate>,
    /// Open-loop requests that were offered.
    pub requests: u64,
    /// Latencies, or the overload, at a load of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_load: Option<AtLoad>,
}

/// The open loop at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtLoad {
    /// Offered requests over the rate of the solo closed loop under the mechanism: above 1 no
    /// queue of the victim alone can keep up.
    pub of_solo: Option<Estimate>,
    /// Requests completed within the open loop, per second.
    pub completed: Option<Estimate>,
    /// Median latency; null under overload.
    pub p50: Option<Estimate>,
    /// 99th percentile of the latency; null under overload, and below 368 requests in a block.
    pub p99: Option<Estimate>,
    /// Growth of the backlog in requests per second, where the victim was overloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Estimate>,
}

/// What one event of the neighbours did to a victim, over all blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransientRow {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the neighbours; absent for faults, whose injector is the neighbour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggressor: Option<String>,
    /// The event: one of a cell, or the fault after which a service recovers.
    pub event: String,
    /// Outcome with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Longest time without a completion from the event on.
    pub stall: Option<Estimate>,
    /// Requests that failed after one event.
    pub lost: Option<Estimate>,
    /// Time to the old rate. A lower bound where it was not back within the window of some blocks;
    /// for a fault the time until a new client had the device.
    pub back: Option<Estimate>,
    /// Blocks in which the old rate was not back within the window.
    pub not_back: u32,
    /// Rate at the end of the window over that before the event.
    pub rate_ratio: Option<Estimate>,
    /// From the event until a restarted neighbour had run a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted: Option<Estimate>,
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

// The smallest changes that matter when records are compared.

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
    pub const fn smaller(self, other: Self) -> Self {
        Self {
            ratio: self.ratio.min(other.ratio),
            p99: self.p99.min(other.p99),
            jitter: self.jitter.min(other.jitter),
            survival: self.survival.min(other.survival),
        }
    }
}
