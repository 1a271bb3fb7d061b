//! What the time of a run is spent on, as planned and as used.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an instant of a run is spent on. Each instant has one part, so the parts add up to the run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TimePart {
    /// Phases of cells that figures come from, and the gaps between them.
    Windows,
    /// Warm-up of cells.
    WarmUp,
    /// From the message to start until the common start of the tenants, and after the last window
    /// until each has answered.
    Waiting,
    /// Opening and closing contexts, with the checks of a new one.
    Contexts,
    /// Loading modules before a cell.
    Modules,
    /// Allocating and filling buffers, logs and schedules before a cell.
    Buffers,
    /// Starting and ending the processes of tenants.
    Tenants,
    /// Starting and ending MPS daemons.
    Daemons,
    /// Other changes of the host, such as MIG mode, and their undoing.
    Switches,
    /// Evidence after a cell: observations, proofs, digests of outputs.
    Proofs,
    /// Heating, loads after an idle, and the check kernel.
    SpeedChecks,
    /// Verification of kernels and calibration.
    Calibration,
    /// Probes.
    Probes,
    /// Fault trials.
    Faults,
    /// Anything else, such as scoring for the look at undecided rows.
    Other,
}

impl TimePart {
    /// The words of tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::WarmUp => "warm-up",
            Self::Waiting => "waiting",
            Self::Contexts => "contexts",
            Self::Modules => "modules",
            Self::Buffers => "buffers",
            Self::Tenants => "tenant processes",
            Self::Daemons => "daemons",
            Self::Switches => "switches of the host",
            Self::Proofs => "proofs",
            Self::SpeedChecks => "checks of speed",
            Self::Calibration => "calibration",
            Self::Probes => "probes",
            Self::Faults => "fault trials",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for TimePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The time that a part of a run takes by its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedTime {
    /// The part.
    pub part: TimePart,
    /// Its time.
    pub ns: u64,
    /// Whether it rests on a cost that no run on hardware has split from others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}

/// The time that a part of a run took, on the clock of its tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpentTime {
    /// The part.
    pub part: TimePart,
    /// Its time.
    pub ns: u64,
}

// The one look at undecided rows after the planned blocks, and what follows from it.

/// The rows that asked for more blocks, and which of them got them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopUp {
    /// Device time that the planned blocks left.
    pub left_ns: u64,
    /// The rows, those that need the least time first.
    pub rows: Vec<TopUpRow>,
}

/// One row that asked for more blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopUpRow {
    /// Canonical variant.
    pub variant: String,
    /// Axis of the row.
    pub axis: String,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor.
    pub aggressor: String,
    /// Why.
    pub reason: TopUpReason,
    /// Blocks behind the row at the look.
    pub blocks: u32,
    /// Blocks that it asks for.
    pub wanted: u32,
    /// Time of the missing blocks, less cells that rows before it need too.
    pub needs_ns: u64,
    /// What was decided.
    pub decision: TopUpDecision,
}

/// Why a row asks for more blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopUpReason {
    /// Its interval straddles a boundary of levels.
    Straddles,
    /// The interval of its retention is wider than the profile wants (`blocks.half_width`).
    Wide,
}

/// The decision on one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopUpDecision {
    /// The missing blocks fit into the time that was left, and are planned.
    Planned,
    /// They do not fit.
    TooLong,
}

impl fmt::Display for TopUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let left = seconds(self.left_ns);
        write!(f, "{} rows ask for blocks, {left:.1} s left", self.rows.len())?;
        for row in &self.rows {
            let (axis, victim, aggressor) = (&row.axis, &row.victim, &row.aggressor);
            let decision = match row.decision {
                TopUpDecision::Planned => "planned",
                TopUpDecision::TooLong => "too long",
            };
            let reason = match row.reason {
                TopUpReason::Straddles => "undecided",
                TopUpReason::Wide => "wide interval",
            };
            let (more, needs) = (row.wanted.saturating_sub(row.blocks), seconds(row.needs_ns));
            let variant = &row.variant;
            write!(f, "; {axis} of {victim} beside {aggressor} under {variant}: {reason}, ")?;
            write!(f, "{more} more blocks, {needs:.1} s, {decision}")?;
        }
        Ok(())
    }
}
