//! The work of a tenant: a workload with its parameters, and its load.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A workload with the parameters that calibration found for this device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadSpec {
    /// Name in the catalogue of workloads.
    pub name: String,
    /// Named integer parameters (grid, iterations, bytes...); the workload defines their meaning.
    #[serde(default)]
    pub params: BTreeMap<String, u64>,
}

/// Bursts of an open loop's requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// Mean requests of a burst.
    pub requests: f64,
    /// Rate within a burst over the mean rate.
    pub peak: f64,
}

/// How requests are offered. All instants are nanoseconds since the cell's common start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum LoadSpec {
    /// The victim's load: a closed loop, then an open one.
    Victim {
        /// End of the warm-up, which runs closed.
        warmup_end_ns: u64,
        /// End of the closed loop, which begins at the end of the warm-up.
        closed_end_ns: u64,
        /// Start of the open loop; arrivals are offsets from here.
        open_start_ns: u64,
        /// End of the open loop.
        open_end_ns: u64,
        /// Arrivals per second, Poisson unless they come in bursts.
        rate_per_s: f64,
        /// Bursts of the arrivals, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bursts: Option<Bursts>,
        /// Seed of the arrival schedule, shared by all cells of a block.
        seed: u64,
        /// Maximum of outstanding requests; at the maximum the cell counts as overloaded.
        outstanding_max: u32,
    },
    /// The aggressor's load: saturating while its duty cycle is on.
    Aggressor {
        /// When it stops issuing.
        end_ns: u64,
        /// Fraction of native peak that it offers, 0 to 1.
        dose: f64,
        /// Length of a duty cycle; at dose 1 it never pauses.
        period_ns: u64,
        /// Requests kept outstanding.
        depth: u32,
    },
    /// Keeps its context open until `end_ns` and submits nothing.
    Idle {
        /// When the cell ends.
        end_ns: u64,
    },
}

impl LoadSpec {
    /// When the tenant stops issuing.
    #[must_use]
    pub const fn end_ns(&self) -> u64 {
        match self {
            Self::Victim { open_end_ns, .. } => *open_end_ns,
            Self::Aggressor { end_ns, .. } | Self::Idle { end_ns } => *end_ns,
        }
    }
}
