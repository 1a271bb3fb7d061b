//! The quantities that a claim can be about: a closed list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A quantity that a scored record may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Rate beside the aggressor over solo rate, of a matrix row.
    Retention,
    /// Solo rate over native rate, of a matrix row.
    Efficiency,
    /// Part of the unprotected slowdown that the mechanism prevents, of a matrix row.
    IsolationIndex,
    /// Growth of the latency tail in native medians, of a matrix row.
    Jitter,
    /// Memory beyond the limit over the limit, of the worst call.
    Overshoot,
    /// Share of reservations that were not honoured.
    BrokenReservations,
    /// Share of marked pages that the next tenant found.
    StalePages,
    /// Share of reads at a neighbour's addresses that were not kept out.
    ForeignReads,
    /// Length of a time slice, of the probe.
    TimeSlice,
    /// Share of the time in which kernels of both tenants ran, of the probe.
    Overlap,
    /// Number of time slices in which one kernel ran, of the probe.
    SlicesPerKernel,
    /// Time from the first launch until a compute limit holds, of the probe.
    TimeToEnforce,
    /// Share of the tried routes past a memory limit that got past it.
    MemoryEscapes,
    /// The same past a compute limit.
    ComputeEscapes,
    /// Share of victims that a fault of a neighbour ended.
    DeadVictims,
    /// Share of victims that a fault of a neighbour slowed, stalled or ended.
    HarmedVictims,
    /// Share of victims that a fault of a neighbour slowed or stalled, and that went on.
    DelayedVictims,
    /// Time of a request beside busy neighbours over its time solo, in the closed loop.
    Slowdown,
    /// The same of the median latency of the open loop.
    MedianLatency,
    /// The same of the 99th percentile.
    TailLatency,
    /// The growth of the 99th percentile over that of the median, beside the smallest dose.
    EarlyTail,
    /// 99th percentile of the open loop beside busy neighbours.
    P99,
    /// The largest number of tenants that keeps the promised latency.
    TenantLimit,
    /// Sum over tenants of the rate beside the others over the rate alone.
    Stp,
    /// Work of all tenants over what the device can do.
    Utilisation,
    /// Whether the mechanism ran here.
    Ran,
    /// Whether it ran with instances of different sizes.
    UnequalInstances,
}

impl Quantity {
    /// Its name in the ledger.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Efficiency => "efficiency",
            Self::IsolationIndex => "isolation-index",
            Self::Jitter => "jitter",
            Self::Overshoot => "overshoot",
            Self::BrokenReservations => "broken-reservations",
            Self::StalePages => "stale-pages",
            Self::ForeignReads => "foreign-reads",
            Self::TimeSlice => "time-slice",
            Self::Overlap => "overlap",
            Self::SlicesPerKernel => "slices-per-kernel",
            Self::TimeToEnforce => "time-to-enforce",
            Self::MemoryEscapes => "memory-escapes",
            Self::ComputeEscapes => "compute-escapes",
            Self::DeadVictims => "dead-victims",
            Self::HarmedVictims => "harmed-victims",
            Self::DelayedVictims => "delayed-victims",
            Self::Slowdown => "slowdown",
            Self::MedianLatency => "median-latency",
            Self::TailLatency => "tail-latency",
            Self::EarlyTail => "early-tail",
            Self::P99 => "p99",
            Self::TenantLimit => "tenant-limit",
            Self::Stp => "stp",
            Self::Utilisation => "utilisation",
            Self::Ran => "ran",
            Self::UnequalInstances => "unequal-instances",
        }
    }

    /// The option of `matrix`, or the key of the profile, without which no record has it.
    #[must_use]
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
    use super::Quantity;

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
