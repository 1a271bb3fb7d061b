//! Axes and sub-axes, conditions, and roles of tenants.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// The condition under which a victim is measured.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Condition {
        /// Native: the victim alone on the GPU, no mechanism.
        N = "N",
        /// Native again: the pair that shows the noise floor of the reference.
        NAgain = "N'",
        /// Solo under the mechanism, neighbours alive and idle.
        S = "S",
        /// Solo again: the A/A pair.
        SAgain = "S'",
        /// Contended: one aggressor beside the victim.
        C = "C",
        /// Unprotected: the same processes without the mechanism's protection.
        U = "U",
    }
}

impl Condition {
    /// Every condition, in the order in which reports show them.
    pub const ALL: [Self; 6] = [Self::N, Self::NAgain, Self::S, Self::SAgain, Self::C, Self::U];

    /// Whether an aggressor works beside the victim.
    pub const fn has_aggressor(self) -> bool {
        matches!(self, Self::C | Self::U)
    }

    /// Whether the victim runs without any mechanism and without neighbours.
    pub const fn is_native(self) -> bool {
        matches!(self, Self::N | Self::NAgain)
    }
}

named! {
    /// One scored dimension of isolation.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Axis {
        /// Device memory: capacity, cap, residue, visibility.
        Memory = "memory",
        /// Execution: SMs, issue slots, launches, the driver.
        Compute = "compute",
        /// Data paths: DRAM, L2, PCIe.
        Bandwidth = "bandwidth",
        /// Containment of faults.
        Fault = "fault",
        /// Unpredictable latency.
        Jitter = "jitter",
        /// The shared power budget; never part of the overall level.
        Power = "power",
    }
}

impl Axis {
    /// Every axis, in report order.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::Compute, Self::Bandwidth, Self::Fault, Self::Jitter, Self::Power];

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
        /// Requests kept outstanding in the closed loop.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        depth: u32,
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
        /// When it begins to issue.
        #[serde(default, skip_serializing_if = "is_zero")]
        start_ns: u64,
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

/// Requests that a victim keeps outstanding in a closed loop unless its cell says otherwise.
pub const VICTIM_DEPTH: u32 = 1;
/// Those of an aggressor, so that its queue is never empty.
pub const AGGRESSOR_DEPTH: u32 = 2;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

const fn one() -> u32 {
    VICTIM_DEPTH
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(depth: &u32) -> bool {
    *depth == one()
}

named! {
    /// What happens to the neighbour in the middle of a closed loop.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Event {
        /// It begins to submit work, with its context open.
        Start = "start",
        /// It ends its work, and keeps its context open.
        Stop = "stop",
        /// It gets SIGKILL at work.
        Kill = "kill",
        /// It gets SIGKILL at work, and a new process opens a context and runs a kernel.
        Restart = "restart",
    }
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 4] = [Self::Start, Self::Stop, Self::Kill, Self::Restart];

    /// Whether the coordinator kills the neighbour.
    pub const fn kills(self) -> bool {
        matches!(self, Self::Kill | Self::Restart)
    }
}

/// Where a cell differs from the usual one of its plan: the depth of its queues, its load, and an
/// event. A key that is absent has the usual value.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub struct Shape {
    /// Requests that the victim keeps outstanding in the closed loop; 1 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Those of each neighbour; 2 where absent, and as many as the victim where it does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_depth: Option<u32>,
    /// Open-loop arrivals of the victim in percent of its native rate; those of the plan where
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_pct: Option<u32>,
    /// What happens to the neighbours in the middle of the closed loop; nothing where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
}

impl Shape {
    /// With these depths; the usual ones are absent.
    pub fn of_depths(victim: u32, neighbour: Option<u32>) -> Self {
        Self {
            depth: Some(victim).filter(|&depth| depth != VICTIM_DEPTH),
            neighbour_depth: neighbour.filter(|&depth| depth != AGGRESSOR_DEPTH),
            ..Self::default()
        }
    }

    /// With this load.
    pub const fn of_load(pct: u32) -> Self {
        Self { depth: None, neighbour_depth: None, load_pct: Some(pct), event: None }
    }

    /// With this event.
    pub const fn of_event(event: Event) -> Self {
        Self { depth: None, neighbour_depth: None, load_pct: None, event: Some(event) }
    }

    /// Whether the cell is the usual one.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// The same without neighbours.
    pub const fn alone(self) -> Self {
        Self { neighbour_depth: None, event: None, ..self }
    }

    /// The depths of the victim and of each neighbour.
    pub fn depths(self) -> [u32; 2] {
        let own = self.depth.unwrap_or(VICTIM_DEPTH);
        [own, self.neighbour_depth.unwrap_or(AGGRESSOR_DEPTH)]
    }
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
