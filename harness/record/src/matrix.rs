//! The measured matrix: one row for each mechanism variant, axis, sub-axis and aggressor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::estimate::Estimate;
use crate::outcome::Outcome;

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
    /// Tail growth beside the aggressor, in native medians.
    pub jitter: Option<Estimate>,
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
    /// What reports print beside the row: why it is not measured, and its warnings.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.outcome.reason.iter().chain(&self.warnings)
    }

    /// The axis, with the sub-axis where the row has one.
    #[must_use]
    pub fn axis_path(&self) -> String {
        match &self.sub_axis {
            Some(sub_axis) => format!("{}/{sub_axis}", self.axis),
            None => self.axis.clone(),
        }
    }

    /// The names of its figures, as in JSON and CSV.
    pub const FIGURES: [&'static str; 8] = [
        "retention",
        "guarantee",
        "efficiency",
        "effectiveness",
        "isolation_index",
        "jitter",
        "survival",
        "overshoot",
    ];

    /// Its figures, in the order of their names.
    #[must_use]
    pub fn figures(&self) -> [Option<&Estimate>; Self::FIGURES.len()] {
        [
            &self.retention,
            &self.guarantee,
            &self.efficiency,
            &self.effectiveness,
            &self.isolation_index,
            &self.jitter,
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
