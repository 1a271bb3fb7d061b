//! The one look at undecided rows after the planned blocks, and what follows from it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
