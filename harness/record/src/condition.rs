//! Axes and sub-axes, conditions, and roles of tenants.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The condition under which a victim is measured.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Condition {
    /// Native: the victim alone on the GPU, no mechanism.
    N,
    /// Native again: the pair that shows the noise floor of the reference.
    #[serde(rename = "N'")]
    NAgain,
    /// Solo under the mechanism, neighbours alive and idle.
    S,
    /// Solo again: the A/A pair.
    #[serde(rename = "S'")]
    SAgain,
    /// Contended: one aggressor beside the victim.
    C,
    /// Unprotected: the same processes without the mechanism's protection.
    U,
}

impl Condition {
    /// Every condition, in the order in which reports show them.
    pub const ALL: [Self; 6] = [Self::N, Self::NAgain, Self::S, Self::SAgain, Self::C, Self::U];

    /// The letter used in tables and in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::N => "N",
            Self::NAgain => "N'",
            Self::S => "S",
            Self::SAgain => "S'",
            Self::C => "C",
            Self::U => "U",
        }
    }

    /// Whether an aggressor works beside the victim.
    pub const fn has_aggressor(self) -> bool {
        matches!(self, Self::C | Self::U)
    }

    /// Whether the victim runs without any mechanism and without neighbours.
    pub const fn is_native(self) -> bool {
        matches!(self, Self::N | Self::NAgain)
    }
}

/// One scored dimension of isolation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Device memory: capacity, cap, residue, visibility.
    Memory,
    /// Execution: SMs, issue slots, launches, the driver.
    Compute,
    /// Data paths: DRAM, L2, PCIe.
    Bandwidth,
    /// Containment of faults.
    Fault,
    /// Unpredictable latency.
    Jitter,
    /// The shared power budget; never part of the overall level.
    Power,
}

impl Axis {
    /// Every axis, in report order.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::Compute, Self::Bandwidth, Self::Fault, Self::Jitter, Self::Power];

    /// The name used on the command line, in profiles and in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
            Self::Bandwidth => "bandwidth",
            Self::Fault => "fault",
            Self::Jitter => "jitter",
            Self::Power => "power",
        }
    }

    /// Whether the axis counts in the overall level.
    pub const fn counts_overall(self) -> bool {
        !matches!(self, Self::Power)
    }
}

/// A scored part of an axis: `compute/sm`, `bandwidth/dram`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SubAxis {
    /// SM occupancy and arithmetic throughput.
    Sm,
    /// Instruction issue slots.
    Issue,
    /// Kernel launch path.
    Launch,
    /// Locks and queues of the driver.
    Driver,
    /// DRAM bandwidth.
    Dram,
    /// L2 bandwidth and capacity.
    L2,
    /// The host link.
    Pcie,
    /// Promised capacity.
    Capacity,
    /// Enforcement of a memory cap.
    Cap,
    /// Data of the previous owner in memory.
    Residue,
    /// What a tenant can observe of a neighbour.
    Visibility,
    /// Speed while a neighbour draws on the common power budget.
    Power,
}

impl SubAxis {
    /// The name used in records and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sm => "sm",
            Self::Issue => "issue",
            Self::Launch => "launch",
            Self::Driver => "driver",
            Self::Dram => "dram",
            Self::L2 => "l2",
            Self::Pcie => "pcie",
            Self::Capacity => "capacity",
            Self::Cap => "cap",
            Self::Residue => "residue",
            Self::Visibility => "visibility",
            Self::Power => "power",
        }
    }

    /// The axis it is a part of.
    pub const fn axis(self) -> Axis {
        match self {
            Self::Sm => Axis::Compute,
            Self::Issue => Axis::Compute,
            Self::Launch => Axis::Compute,
            Self::Driver => Axis::Compute,
            Self::Dram => Axis::Bandwidth,
            Self::L2 => Axis::Bandwidth,
            Self::Pcie => Axis::Bandwidth,
            Self::Capacity => Axis::Memory,
            Self::Cap => Axis::Memory,
            Self::Residue => Axis::Memory,
            Self::Visibility => Axis::Memory,
            Self::Power => Axis::Power,
        }
    }
}

/// The role of a tenant.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Stays within its share and is measured.
    Victim,
    /// Stresses one resource.
    Aggressor,
    /// Runs the victim's workload at the victim's load, and is not measured.
    Peer,
    /// Has an open context and submits nothing.
    Idle,
}

// The work of a tenant: a workload with its parameters, and its load.

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
        /// The sparse phase, which begins at the end of the closed loop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sparse: Option<Sparse>,
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

/// A phase of single requests: one outstanding, and after each a pause of random, exponential
/// length. Each request finds its own queue empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sparse {
    /// Length of the phase.
    pub length_ns: u64,
    /// Mean pause. Where tenants take turns it lasts several of them: a victim that comes back soon
    /// after its last request meets its neighbour always in the same part of a turn.
    pub pause_ns: u64,
}

impl LoadSpec {
    /// When the tenant stops issuing.
    pub const fn end_ns(&self) -> u64 {
        match self {
            Self::Victim { open_end_ns, .. } => *open_end_ns,
            Self::Aggressor { end_ns, .. } | Self::Idle { end_ns } => *end_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, schema_for};
    use serde::de::DeserializeOwned;

    use super::{Axis, Condition, SubAxis};

    /// Every variant by its name in JSON.
    fn variants<T: JsonSchema + DeserializeOwned>() -> Vec<(String, T)> {
        let schema = serde_json::json!(schema_for!(T));
        let all = schema["oneOf"].as_array().expect("documented variants");
        let read = |one: &serde_json::Value| {
            let name = one["const"].as_str().expect("a name").to_owned();
            (name, serde_json::from_value(one["const"].clone()).expect("its own name"))
        };
        all.iter().map(read).collect()
    }

    #[test]
    fn every_variant_has_the_same_name_as_text_and_in_json() {
        let conditions = variants::<Condition>();
        assert_eq!(conditions.len(), Condition::ALL.len());
        assert!(conditions.iter().all(|(name, one)| name == one.as_str()));
        let axes = variants::<Axis>();
        assert_eq!(axes.len(), Axis::ALL.len());
        assert!(axes.iter().all(|(name, one)| name == one.as_str()));
        let sub_axes = variants::<SubAxis>();
        assert!(sub_axes.len() > axes.len());
        assert!(sub_axes.iter().all(|(name, one)| name == one.as_str()));
    }
}
