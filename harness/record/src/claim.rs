//! Claims of the literature as data, and their verdicts on one record.
//!
//! A plan holds the ledger that its run is judged by, so that a record keeps its verdicts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::Estimate;
use crate::condition::Axis;

mod selection;

pub use selection::{Need, Scope, Selection, ToleranceOf, VictimKind};

/// One claim, and the measured quantity that decides it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Its id in the ledger.
    pub id: String,
    /// The mechanisms that it is about.
    pub mechanisms: Vec<String>,
    /// The axis of its subject.
    pub axis: Axis,
    /// What it says, in our words.
    pub statement: String,
    /// Who says it: title, author, date and address of each source, or that none was found.
    pub source: String,
    /// What the source speaks of: devices, neighbours, load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_for: Option<String>,
    /// The quantity that decides it; absent where no record has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Quantity>,
    /// How the quantity is compared with the threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// The threshold, in the unit of the quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Half of the width of the band of `within`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// Whose the threshold and the tolerance are; absent in ledgers that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance_of: Option<ToleranceOf>,
    /// Which of several figures decide. Older ledgers have `any`.
    #[serde(
        default,
        alias = "any",
        deserialize_with = "Scope::or_any",
        skip_serializing_if = "Scope::is_all"
    )]
    pub scope: Scope,
    /// Which figures of the record count.
    #[serde(default, skip_serializing_if = "Selection::is_all")]
    pub select: Selection,
    /// What a record lacks to decide it, where no quantity does. Older ledgers have `needs`.
    #[serde(default, alias = "needs", skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// Claims that no record can support together with this one, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradicts: Vec<String>,
    /// Claims that no record can refute where it supports this one, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub implies: Vec<String>,
}

impl Claim {
    /// What a record must hold beside the quantity.
    pub fn needs(&self) -> impl Iterator<Item = Need> {
        let victim = self.select.victim.map(VictimKind::need);
        let depth = self.select.depth.map(|_| Need::Depth);
        victim.into_iter().chain(depth).chain(self.select.needs.iter().copied())
    }
}

/// How the interval of a quantity is compared with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Comparison {
    /// Supported where the upper end is at most the threshold, refuted where the lower is above.
    AtMost,
    /// Supported where the lower end is at least the threshold, refuted where the upper is below.
    AtLeast,
    /// Supported where the interval lies within the tolerance around the threshold, refuted where
    /// it lies outside.
    Within,
    /// For the share of an event: refuted by one event, supported where the share is at most the
    /// threshold.
    Never,
    /// Refuted by one trial without the event, supported where the share is at least 1 less the
    /// threshold.
    Always,
    /// The opposite of `never`: supported by one event.
    Sometimes,
}

named! {
    /// What a record says of a claim.
    #[derive(PartialOrd, Ord)]
    pub enum Verdict {
        /// The figures contradict it.
        Refuted = "refuted",
        /// The figures agree with it.
        Supported = "supported",
        /// The figures are too wide, or cannot be trusted.
        Inconclusive = "inconclusive",
        /// The record has no such figure.
        Untested = "untested",
    }
}

impl Verdict {
    /// All of them, in report order.
    pub const ALL: [Self; 4] = [Self::Supported, Self::Refuted, Self::Inconclusive, Self::Untested];
}

/// One claim, compared with one record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    /// Id in the claims ledger.
    pub id: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The figures that decided it, or why there are none.
    pub evidence: String,
    /// The mechanisms that it is about.
    #[serde(default)]
    pub mechanisms: Vec<String>,
    /// The axis of its subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis: Option<Axis>,
    /// What it says.
    #[serde(default)]
    pub statement: String,
    /// Who says it: title, author, date and address of each source, or that none was found.
    #[serde(default)]
    pub source: String,
    /// What the source speaks of: devices, neighbours, load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_for: Option<String>,
    /// What an untested claim needs beside its quantity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// The quantity and its comparison, in words; empty without a quantity.
    #[serde(default)]
    pub test: String,
    /// Each figure with its own verdict.
    #[serde(default)]
    pub figures: Vec<ClaimFigure>,
}

/// A figure that a claim was compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimFigure {
    /// The variant, and the row, probe or fault.
    pub of: String,
    /// What it says of the claim.
    pub verdict: Verdict,
    /// The figure; absent where it cannot be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Why it cannot be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What publications say of one mechanism on one axis, as one word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimedWord {
    /// The ids of the sources.
    pub source: String,
    /// Title, author, date and address of each source; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cited: Option<String>,
    /// The sub-axes, or classes of faults, that the word speaks of; empty where it is about the
    /// whole axis, beside any neighbour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_axes: Vec<String>,
    /// The mechanism.
    pub mechanism: String,
    /// The axis.
    pub axis: Axis,
    /// Its word for the isolation.
    pub word: String,
}

// The quantities that a claim can be about: a closed list.

named! {
    /// A quantity that a scored record may hold.
    pub enum Quantity {
        /// Rate beside the aggressor over solo rate, of a matrix row.
        Retention = "retention",
        /// Solo rate over native rate, of a matrix row.
        Efficiency = "efficiency",
        /// Part of the unprotected slowdown that the mechanism prevents, of a matrix row.
        IsolationIndex = "isolation-index",
        /// Growth of the latency tail in native medians, of a matrix row.
        Jitter = "jitter",
        /// Memory beyond the limit over the limit, of the worst call.
        Overshoot = "overshoot",
        /// Share of reservations that were not honoured.
        BrokenReservations = "broken-reservations",
        /// Share of marked pages that the next tenant found.
        StalePages = "stale-pages",
        /// Share of reads at a neighbour's addresses that were not kept out.
        ForeignReads = "foreign-reads",
        /// Length of a time slice, of the probe.
        TimeSlice = "time-slice",
        /// Share of the time in which kernels of both tenants ran, of the probe.
        Overlap = "overlap",
        /// Number of time slices in which one kernel ran, of the probe.
        SlicesPerKernel = "slices-per-kernel",
        /// Time from the first launch until a compute limit holds, of the probe.
        TimeToEnforce = "time-to-enforce",
        /// Share of the tried routes past a memory limit that got past it.
        MemoryEscapes = "memory-escapes",
        /// The same past a compute limit.
        ComputeEscapes = "compute-escapes",
        /// Share of victims that a fault of a neighbour ended.
        DeadVictims = "dead-victims",
        /// Share of victims that a fault of a neighbour slowed, stalled or ended.
        HarmedVictims = "harmed-victims",
        /// Share of victims that a fault of a neighbour slowed or stalled, and that went on.
        DelayedVictims = "delayed-victims",
        /// Time from the end of the last harmed client of a server until a new one had the device.
        Recovery = "recovery",
        /// Time of a request beside busy neighbours over its time solo, in the closed loop.
        Slowdown = "slowdown",
        /// The same of the median latency of the open loop.
        MedianLatency = "median-latency",
        /// The same of the 99th percentile.
        TailLatency = "tail-latency",
        /// The growth of the 99th percentile over that of the median, beside the smallest dose.
        EarlyTail = "early-tail",
        /// 99th percentile of the open loop beside busy neighbours.
        P99 = "p99",
        /// The largest number of tenants that keeps the promised latency.
        TenantLimit = "tenant-limit",
        /// Sum over tenants of the rate beside the others over the rate alone.
        Stp = "stp",
        /// Work of all tenants over what the device can do.
        Utilisation = "utilisation",
        /// Whether the mechanism ran here.
        Ran = "ran",
        /// Whether it ran with instances of different sizes.
        UnequalInstances = "unequal-instances",
    }
}

/// The direction in which a quantity is worse for the tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worse {
    /// Smaller figures are worse.
    Lower,
    /// Larger figures are worse.
    Higher,
}

impl Quantity {
    /// The direction in which it is worse for the tenant, if either is.
    pub const fn worse(self) -> Option<Worse> {
        match self {
            Self::Retention
            | Self::Efficiency
            | Self::IsolationIndex
            | Self::TenantLimit
            | Self::Stp => Some(Worse::Lower),
            Self::Jitter
            | Self::Overshoot
            | Self::BrokenReservations
            | Self::StalePages
            | Self::ForeignReads
            | Self::TimeToEnforce
            | Self::MemoryEscapes
            | Self::ComputeEscapes
            | Self::DeadVictims
            | Self::HarmedVictims
            | Self::DelayedVictims
            | Self::Recovery
            | Self::Slowdown
            | Self::MedianLatency
            | Self::TailLatency
            | Self::EarlyTail
            | Self::P99 => Some(Worse::Higher),
            Self::TimeSlice
            | Self::Overlap
            | Self::SlicesPerKernel
            | Self::Utilisation
            | Self::Ran
            | Self::UnequalInstances => None,
        }
    }

    /// The option of `matrix`, or the key of the profile, without which no record has it.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::Retention
            | Self::Efficiency
            | Self::IsolationIndex
            | Self::Stp
            | Self::Utilisation => "cells of that pair (axes, victims, aggressors)",
            Self::Jitter => "the axis jitter",
            Self::Overshoot
            | Self::BrokenReservations
            | Self::StalePages
            | Self::ForeignReads
            | Self::TimeSlice
            | Self::Overlap
            | Self::SlicesPerKernel
            | Self::TimeToEnforce => "matrix --probes",
            Self::MemoryEscapes | Self::ComputeEscapes => "matrix --escape",
            Self::DeadVictims | Self::HarmedVictims | Self::DelayedVictims => "matrix --faults",
            Self::Recovery => "matrix --profile transients --faults",
            Self::Slowdown => "that number of tenants in sweep or tenants",
            Self::MedianLatency | Self::TailLatency | Self::P99 => {
                "that number of tenants, with open loops"
            }
            Self::EarlyTail => {
                "open loops at doses below 1: matrix --profile claims with this mechanism alone"
            }
            Self::TenantLimit => "slo and sweep",
            Self::Ran => "the mechanism",
            Self::UnequalInstances => "a layout of different sizes (mig.layout)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Claim, Quantity, Scope, Verdict};
    use crate::condition::SubAxis;

    /// Records of earlier versions hold their ledger.
    #[test]
    fn older_ledgers_are_read() -> Result<(), serde_json::Error> {
        let older = |any: bool| {
            serde_json::from_value::<Claim>(serde_json::json!({
                "id": "X", "mechanisms": ["mps"], "axis": "compute", "statement": "",
                "source": "S0", "any": any, "select": {"sub_axis": "dram"}, "needs": "a sentence",
            }))
        };
        let claim = older(true)?;
        assert_eq!((claim.scope, older(false)?.scope), (Scope::Any, Scope::All));
        assert_eq!(claim.select.sub_axes, [SubAxis::Dram]);
        assert_eq!(claim.lacks.as_deref(), Some("a sentence"));
        let again: Claim = serde_json::from_value(serde_json::to_value(&claim)?)?;
        assert_eq!(again, claim);
        Ok(())
    }

    #[test]
    fn verdicts_have_the_same_name_as_text_and_in_json() -> Result<(), serde_json::Error> {
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict)?, verdict.as_str());
        }
        Ok(())
    }

    #[test]
    fn names_are_those_of_json() -> Result<(), serde_json::Error> {
        let schema = serde_json::json!(schemars::schema_for!(Quantity));
        let all = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(all.len() > 20);
        for one in all {
            let quantity: Quantity = serde_json::from_value(one["const"].clone())?;
            assert_eq!(one["const"], quantity.as_str());
        }
        Ok(())
    }
}
