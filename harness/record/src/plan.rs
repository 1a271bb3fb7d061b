//! Every cell that will run, with its seed and its position in the order, and the reason for each
//! skip.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calibration::SoakPlan;
use super::condition::Bursts;
use super::matrix::Margins;
use super::mechanism::RequiredProof;
use crate::claim::{Claim, ClaimedWord};
use crate::condition::{Condition, Role, Shape, Sparse, SubAxis};
use crate::fault::FaultTrial;
use crate::mechanism::MechanismProperties;
use crate::meter::Meter;
use crate::thresholds::Thresholds;
use crate::time_use::{PlannedTime, TopUp};
use crate::user_victim::UserVictim;

/// The plan of a run: the profile applied to this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Name of the profile.
    pub profile: String,
    /// Hash over what the user wrote and the kernels' PTX.
    pub profile_hash: String,
    /// Whether results of this profile can decide anything; those of a smoke run cannot.
    pub decides: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Tenants on the GPU in a contended cell.
    pub tenants: u32,
    /// Share of the GPU that an abiding victim uses, 0 to 1.
    pub share: f64,
    /// Open-loop arrivals of one victim over its native rate.
    #[serde(default)]
    pub load: f64,
    /// How these arrivals come in bursts, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// The longest promised latency of an open-loop request, where the profile promises one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_ns: Option<u64>,
    /// Share of the offered requests that must keep it. Old records lack it: it was 0.99.
    #[serde(default = "slo_share_of_old_records")]
    pub slo_share: f64,
    /// The workloads of the neighbours in a contended cell, in order; the last applies to all that
    /// follow. Empty where all run the aggressor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<String>,
    /// Further numbers of tenants, fewer than `tenants`, with which contended cells run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<u32>,
    /// Native service time that victims' requests are calibrated to.
    #[serde(default)]
    pub service_ns: u64,
    /// Time between two readings of the device's counters.
    #[serde(default)]
    pub telemetry_period_ns: u64,
    /// Counters that are read at the ends of closed loops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<Meter>,
    /// The axes of the profile.
    #[serde(default)]
    pub axes: Vec<String>,
    /// Blocks; the unit of inference.
    pub blocks: u32,
    /// Looks at which a row can be decided: two where blocks may be added after the planned ones.
    /// The intervals of the matrix have a confidence of `1 - 0.05 / looks`.
    #[serde(default = "one_look", skip_serializing_if = "is_one_look")]
    pub looks: u32,
    /// Length of the phases of every cell; some have no open loop ([`Cell::closed_only`]).
    pub durations: Durations,
    /// The conventions that turn figures into levels and words.
    pub thresholds: Thresholds,
    /// The smallest changes that matter when records are compared; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margins: Option<Margins>,
    /// Name, and variant, of the mechanism of native cells: the reference of every comparison.
    #[serde(default = "crate::mechanism::reference_of_old_records")]
    pub reference: String,
    /// The mechanisms that will run, in report order.
    pub mechanisms: Vec<PlannedMechanism>,
    /// The proofs that each cell of a variant needs, by variant. Absent in records of
    /// format 1.0, whose cells share all proofs of their variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_proofs: Option<BTreeMap<String, Vec<RequiredProof>>>,
    /// The user's program that is the victim, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_victim: Option<UserVictim>,
    /// The cells in the order in which they run.
    pub cells: Vec<Cell>,
    /// The fault trials, which run after all cells, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault_trials: Vec<FaultTrial>,
    /// Names of the probes that run after all cells; empty in records of format 1.0, which
    /// did not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
    /// Facts of the workloads that gates and scores need, by name; an unlisted workload has none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workloads: BTreeMap<String, WorkloadFacts>,
    /// The pairs of victim and aggressor in the cells, in report order; the first of a sub-axis is
    /// its default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PlannedPair>,
    /// The sub-axis whose open loops give the tail at the offered load.
    #[serde(default = "jitter_from")]
    pub jitter_from: SubAxis,
    /// The sub-axes whose pairs give service jitter. Absent in formats before 2.4, where it is that
    /// of the open loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_pairs: Option<Vec<SubAxis>>,
    /// What published overviews claim of the planned mechanisms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claimed: Vec<ClaimedWord>,
    /// The claims that the run is compared with; absent in records older than the ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// Requested mechanisms and axes that will not run.
    pub skips: Vec<Skip>,
    /// The run of the profile's rotation, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
    /// What keeps the device at one speed; absent where nothing does, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<SoakPlan>,
    /// What the time of the run will be spent on, set-up included; empty in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time: Vec<PlannedTime>,
    /// The look at undecided rows after the planned blocks, where it found any. Its cells are those
    /// of blocks from `blocks` on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_up: Option<TopUp>,
    /// The plan that was frozen before the run, and how this one differs from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<FrozenPlan>,
    /// Cells of blocks that an interruption of the run cut. The blocks were measured again, and no
    /// score uses these cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<Cell>,
    /// Fault trials that an interruption of the run cut; they ran again under another id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded_trials: Vec<FaultTrial>,
}

/// What a run takes beside its cells, for each of them. The published runs of matrices took 0.23 s
/// (H100, 704 cells), 0.31 s (H200, 656) and 0.30 s (H200, 80).
const OVERHEAD_NS: u64 = 300_000_000;

impl Plan {
    /// Adds the cells that undecided rows get.
    pub fn extend(&mut self, top_up: TopUp, cells: Vec<Cell>) {
        self.top_up = Some(top_up);
        self.cells.extend(cells);
    }

    /// Time that the cells keep the device busy.
    pub fn device_time_ns(&self) -> u64 {
        let lengths_ns = self.cells.iter().map(|cell| self.durations_of(cell).cell_ns());
        lengths_ns.fold(0, u64::saturating_add)
    }

    /// About how long the run of the cells takes on hardware, from its start to its end: heating,
    /// calibration, contexts and checks take more than the cells.
    pub fn wall_time_ns(&self) -> u64 {
        let around_ns = OVERHEAD_NS.saturating_mul(self.cells.len() as u64);
        self.device_time_ns().saturating_add(around_ns)
    }

    /// Whether the pairs of this sub-axis give service jitter. Where none does, the pair of the
    /// open loops has a row that says so.
    pub fn has_jitter_of(&self, sub_axis: SubAxis) -> bool {
        let pairs = self.jitter_pairs.as_ref().filter(|pairs| !pairs.is_empty());
        pairs.map_or(sub_axis == self.jitter_from, |pairs| pairs.contains(&sub_axis))
    }

    /// Whether a variant has cells as the unprotected form of another alone.
    pub fn is_unprotected_form(&self, variant: &str) -> bool {
        self.mechanisms.iter().all(|one| one.variant != variant)
            && self.mechanisms.iter().any(|one| one.unprotected.as_deref() == Some(variant))
    }

    /// Open-loop arrivals of the victim of a cell over its native rate.
    pub fn load_of(&self, cell: &Cell) -> f64 {
        cell.shape.load_pct.map_or(self.load, |pct| f64::from(pct) / 100.0)
    }

    /// When the event of a cell happens, since its start: behind the middle of the closed loop, and
    /// so after the observation of the mechanism half-way through the cell. The seed of the block
    /// moves it, so that events meet different parts of a turn.
    pub const fn event_ns(&self, cell: &Cell) -> u64 {
        let Durations { warmup_ns, closed_ns, .. } = self.durations_of(cell);
        warmup_ns + closed_ns / 2 + cell.schedule_seed % (closed_ns / 16 + 1)
    }

    /// Length of the phases of one cell.
    pub const fn durations_of(&self, cell: &Cell) -> Durations {
        let mut durations =
            if cell.closed_only { self.durations.closed_only() } else { self.durations };
        durations.sparse_ns = match cell.sparse {
            Some(sparse) => sparse.length_ns,
            None => 0,
        };
        durations
    }
}

/// In older records, whose rows had 95 % intervals at each of two looks.
const fn one_look() -> u32 {
    1
}

fn is_one_look(looks: &u32) -> bool {
    *looks == one_look()
}

/// The sub-axis that jitter is read from by default.
const fn jitter_from() -> SubAxis {
    SubAxis::Sm
}

/// The share before plans recorded it.
const fn slo_share_of_old_records() -> f64 {
    0.99
}

/// One mechanism with its options, as the plan will run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "PlannedAsRead")]
pub struct PlannedMechanism {
    /// Name in the catalogue of mechanisms.
    pub name: String,
    /// Canonical variant, for example `time-slicing[slice=default]`.
    pub variant: String,
    /// Its changes on the host, one line each.
    pub host_changes: Vec<String>,
    /// Variant of its unprotected form, which may be its own; absent where that cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprotected: Option<String>,
    /// Its properties, which do not depend on the host.
    pub properties: MechanismProperties,
}

/// The serialized form: format 1.0 has no properties.
#[derive(Deserialize, JsonSchema)]
struct PlannedAsRead {
    name: String,
    variant: String,
    host_changes: Vec<String>,
    #[serde(default)]
    unprotected: Option<String>,
    #[serde(default)]
    properties: Option<MechanismProperties>,
}

impl From<PlannedAsRead> for PlannedMechanism {
    fn from(read: PlannedAsRead) -> Self {
        let of_name = || MechanismProperties::of_format_1_0(&read.name);
        Self {
            properties: read.properties.unwrap_or_else(of_name),
            name: read.name,
            variant: read.variant,
            host_changes: read.host_changes,
            unprotected: read.unprotected,
        }
    }
}

/// Length of the phases of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Durations {
    /// Closed loop whose samples are kept but not scored.
    pub warmup_ns: u64,
    /// Closed loop that gives the rate.
    pub closed_ns: u64,
    /// Open loop that gives latencies and jitter.
    pub open_ns: u64,
    /// Pause before the open loop, in which outstanding work drains.
    pub gap_ns: u64,
    /// The sparse phase, between the closed loop and the pause: that of the cell, so 0 in a plan.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sparse_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Durations {
    /// Length of a whole cell.
    pub const fn cell_ns(&self) -> u64 {
        self.warmup_ns + self.closed_ns + self.sparse_ns + self.gap_ns + self.open_ns
    }

    /// The same without the open loop and the pause before it.
    pub const fn closed_only(self) -> Self {
        Self { open_ns: 0, gap_ns: 0, ..self }
    }
}

/// One victim, one condition, one aggressor, one dose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Unique, sortable in run order, and fit for a file name.
    pub id: String,
    /// The block it belongs to, from 0.
    pub block: u32,
    /// Mechanisms that run without a switch between them share a group, and its native cells.
    pub group: String,
    /// Name of the mechanism; `exclusive` for native cells.
    pub mechanism: String,
    /// Canonical variant; `exclusive` for native cells.
    pub variant: String,
    /// The resource that the victim of this cell is sensitive to.
    pub sub_axis: SubAxis,
    /// The condition.
    pub condition: Condition,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor, where the condition has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggressor: Option<String>,
    /// Fraction of native peak that the aggressor offers; 0 without one.
    pub dose: f64,
    /// The tenants, the victim first.
    pub tenants: Vec<CellTenant>,
    /// Seed of the arrival schedule: equal in all cells of a block.
    pub schedule_seed: u64,
    /// It has no open loop, because no score uses this cell's open loop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_only: bool,
    /// Its sparse phase, from which service jitter is measured; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse: Option<Sparse>,
    /// Where it differs from the usual cell.
    #[serde(flatten)]
    pub shape: Shape,
}

/// One tenant of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellTenant {
    /// Name of the tenant: `victim`, `neighbour-1`...
    pub tenant: String,
    /// Its role.
    pub role: Role,
    /// Name of its workload; absent for an idle tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
}

// Parts of a plan that stand by themselves: facts of workloads, pairs.

/// Facts of one workload that gates and scores need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadFacts {
    /// `CUresult`s of refusals that answer a request: the workload measures how many of its
    /// requests are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answering_codes: Vec<i32>,
    /// The resource that it uses, in plans of the whole matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_axis: Option<SubAxis>,
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

// What one run of a profile leaves to the other runs of its cycle.

/// What one run of a rotation leaves to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rotation {
    /// The run, as the command line gave it; it counts modulo `runs`.
    pub run: u32,
    /// Length of a cycle.
    pub runs: u32,
    /// Doses that this run does not plan, under every mechanism.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_planned: Vec<NotPlanned>,
    /// Service times that other runs of the cycle have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services_not_planned_ns: Vec<u64>,
}

/// Doses of a pair that another run of the rotation measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotPlanned {
    /// The pair.
    #[serde(flatten)]
    pub pair: PlannedPair,
    /// The doses that are not planned.
    pub doses: Vec<f64>,
}

impl fmt::Display for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} of cycles of {}", self.run, self.runs)?;
        let doses = self.not_planned.iter().map(NotPlanned::to_string);
        let services = self.services_not_planned_ns.iter();
        let services = services.map(|&ns| format!("a service time of {} ms", ns as f64 / 1e6));
        let not_planned: Vec<String> = doses.chain(services).collect();
        if not_planned.is_empty() {
            return Ok(());
        }
        write!(f, "; not planned: {}", not_planned.join("; "))
    }
}

impl fmt::Display for NotPlanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doses: Vec<String> = self.doses.iter().map(f64::to_string).collect();
        let PlannedPair { victim, aggressor, .. } = &self.pair;
        write!(f, "dose {} of {victim} beside {aggressor}", doses.join(", "))
    }
}

/// A plan that was frozen before a run, and how that run's plan differs from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrozenPlan {
    /// Hash of the frozen plan, with its thresholds and questions.
    pub hash: String,
    /// What the run left out.
    pub left_out: Vec<String>,
    /// What it added before it began; blocks that rows got later are its top-up.
    pub added: Vec<String>,
    /// The settings that differ.
    pub changed: Vec<String>,
}

impl fmt::Display for FrozenPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan {} frozen before the run", &self.hash[..self.hash.len().min(12)])?;
        let parts =
            [("left out", &self.left_out), ("added", &self.added), ("changed", &self.changed)];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, what)| !what.is_empty())
            .map(|(word, what)| format!("{word} {}", what.join(", ")))
            .collect();
        let how = if parts.is_empty() { "followed".to_owned() } else { parts.join("; ") };
        write!(f, ": {how}")
    }
}
