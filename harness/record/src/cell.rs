//! The result of one cell: rates, quantiles, and the judgement of each gate.

mod written;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{Event, WorkloadSpec};
use super::exit_code::{Outcome, OutcomeKind};
use super::telemetry::EccCounts;
use crate::figures::CellFigures;
use crate::gate::Gate;
use crate::meter::MeterReading;
use crate::output::OutputCheck;
use crate::plan::{Cell, CellTenant};

/// The result of one cell. Figures are computed from its samples alone.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CellResult {
    /// The cell as planned.
    #[serde(flatten)]
    pub cell: Cell,
    /// Figures by name, unit in the name (`closed_rate_per_s`, `open_latency_p99_ns`).
    /// A figure that could not be computed is absent.
    #[serde(rename = "rates")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub figures: CellFigures,
    /// Latencies of the victim's requests that found no other of its own outstanding, from issue to
    /// completion, in order of issue: those of the sparse phase, or of the open loop where the cell
    /// has none. Absent without such requests, and in formats before 2.4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lone_ns: Vec<u64>,
    /// Requests of the victim behind the figures: closed, open; where a refusal is an answer, also
    /// all requests and the honoured ones.
    pub requests: BTreeMap<String, u64>,
    /// The outcome after all gates.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Every gate with its judgement.
    pub gates: Vec<GateResult>,
    /// The result of each planned tenant, the victim first.
    pub tenant_results: Vec<TenantResult>,
    /// Readings of the vendor's counters, where the profile has them read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<MeterReading>,
}

/// The result of one tenant in one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TenantResult {
    /// The tenant as planned.
    #[serde(flatten)]
    pub planned: CellTenant,
    /// Rows in its log.
    pub rows: u64,
    /// Hash of its arrival schedule, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_hash: Option<String>,
    /// What it prepared, by its own report. Absent for an idle tenant, a user's program, and in
    /// format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<TenantIdentity>,
    /// Why it ended early, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death: Option<String>,
    /// Requests for which its log had no room.
    #[serde(default)]
    pub unlogged: u64,
    /// Whether it reached the limit of outstanding requests.
    #[serde(default)]
    pub overloaded: bool,
    /// Scheduling class that its issuer had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched: Option<String>,
    /// Scheduling class that its reaper had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaper_sched: Option<String>,
    /// CPU time that its threads lost; absent where it did not count it, as in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_gaps: Option<CpuGaps>,
    /// Its output after its last request. Absent for an idle tenant, a user's program, one that
    /// ended early, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputCheck>,
}

/// What makes a tenant of two conditions the same tenant, as the tenant reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantIdentity {
    /// The workload that it prepared, with its parameters.
    pub workload: WorkloadSpec,
    /// Flags of its context (`CUctx_flags` of cuda.h), which say how it waits; absent where the
    /// driver does not report them.
    pub context_flags: Option<u32>,
}

impl TenantIdentity {
    /// `CU_CTX_SCHED_MASK` (cuda.h): how the context waits for the device.
    const WAIT_POLICY: u32 = 0x7;

    /// How two tenants differ, if they do. Flags count where both are reported.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (one, two) = (&self.workload, &other.workload);
        if one != two {
            let text = |of: &WorkloadSpec| format!("{} {:?}", of.name, of.params);
            return Some(format!("{}, {}", text(one), text(two)));
        }
        let policy = |of: &Self| of.context_flags.map(|flags| flags & Self::WAIT_POLICY);
        let (one, two) = (policy(self)?, policy(other)?);
        (one != two).then(|| format!("its context waits by flag {one}, {two}"))
    }
}

impl CellResult {
    /// The judgement of one gate; `None` where the cell has no such gate.
    pub fn gate(&self, gate: &Gate) -> Option<&GateResult> {
        self.gates.iter().find(|result| result.gate == *gate)
    }

    /// Whether the cell would count but for disturbances beyond their limit.
    pub fn is_excluded_for_a_disturbance(&self) -> bool {
        let mut failed = self.failed_gates(GateScope::Cell).peekable();
        self.outcome.outcome == OutcomeKind::Inconclusive
            && failed.peek().is_some()
            && failed.all(|gate| gate.kind == GateKind::Disturbance)
    }

    /// The failed gates of this scope.
    pub fn failed_gates(&self, scope: GateScope) -> impl Iterator<Item = &GateResult> {
        let failed =
            move |gate: &&GateResult| gate.state == GateState::Failed && gate.scope == scope;
        self.gates.iter().filter(failed)
    }

    /// The state of one gate; `None` where the cell has no such gate.
    pub fn gate_state(&self, gate: &Gate) -> Option<GateState> {
        self.gate(gate).map(|result| result.state)
    }
}

impl TenantResult {
    /// The result of a tenant that is ready and has logged no row yet.
    pub fn ready(tenant: &CellTenant, schedule_hash: Option<String>) -> Self {
        Self {
            planned: tenant.clone(),
            rows: 0,
            schedule_hash,
            identity: None,
            death: None,
            unlogged: 0,
            overloaded: false,
            sched: None,
            reaper_sched: None,
            cpu_gaps: None,
            output: None,
        }
    }
}

/// How a gate judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// The condition holds.
    Passed,
    /// It does not: the figures of its scope do not count.
    Failed,
    /// There is nothing to compare it with; fails nothing.
    NotEvaluated,
    /// Has no meaning in virtual time.
    NotApplicable,
}

/// The figures of a cell that a failed gate spoils.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateScope {
    /// All of them: the cell is inconclusive.
    #[default]
    Cell,
    /// Those of the open loop. The closed loop has no schedule, and its rate stands.
    OpenLoop,
    /// None of them: rows that use the cell carry a warning.
    Nothing,
}

impl GateScope {
    const fn is_cell(&self) -> bool {
        matches!(self, Self::Cell)
    }
}

/// What a gate asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateKind {
    /// Whether the cell is what its plan says. A cell that is not never counts.
    #[default]
    Validity,
    /// By how much something moved a figure of a valid cell. The cell counts with that bound, up to
    /// a limit; one beyond the limit counts in the second reading only.
    Disturbance,
}

impl GateKind {
    const fn is_validity(&self) -> bool {
        matches!(self, Self::Validity)
    }
}

/// One gate's judgement of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateResult {
    /// The gate.
    pub gate: Gate,
    /// What it asks.
    #[serde(default, skip_serializing_if = "GateKind::is_validity")]
    pub kind: GateKind,
    /// The judgement.
    pub state: GateState,
    /// The figures that its failure spoils.
    #[serde(default, skip_serializing_if = "GateScope::is_cell")]
    pub scope: GateScope,
    /// The figure that was judged; absent where none was, and in format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The limit that it was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The unit of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The judgement as text.
    pub detail: String,
}

// CPU time that the threads of a tenant lost while their loops ran.

/// The gaps of one thread in one phase of a cell.
///
/// A gap is the time between two iterations of the thread's own loop, if it is longer than 5 us and
/// no call in between may block: the thread did not run although nothing blocked it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gaps {
    /// How many.
    pub gaps: u64,
    /// Their sum.
    pub gap_ns_sum: u64,
    /// The longest.
    pub gap_ns_max: u64,
    /// Those of at least [`LONG_GAP_NS`]; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongGaps>,
}

/// Shortest gap that can cost a turn on the device beside its own length: a twentieth of the usual
/// time slice of 2 ms. A scheduler that takes the turn from a tenant that is idle for less would
/// also take it between two requests of an undisturbed closed loop.
pub const LONG_GAP_NS: u64 = 100_000;

/// Gaps of at least [`LONG_GAP_NS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongGaps {
    /// How many.
    pub gaps: u64,
    /// Their sum.
    pub gap_ns_sum: u64,
}

impl Gaps {
    /// Adds a gap.
    pub fn add(&mut self, gap_ns: u64) {
        self.gaps += 1;
        self.gap_ns_sum += gap_ns;
        self.gap_ns_max = self.gap_ns_max.max(gap_ns);
        if gap_ns >= LONG_GAP_NS {
            let long = self.long.get_or_insert_default();
            long.gaps += 1;
            long.gap_ns_sum += gap_ns;
        }
    }
}

/// The gaps of the threads that work in a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseGaps {
    /// Of the thread that submits requests and, in the closed loop, waits for them.
    pub issuer: Gaps,
    /// Of the thread that waits for the requests of the open loop; absent in the closed loop, where
    /// it sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaper: Option<Gaps>,
    /// Ends of requests whose stamps the gaps of the waiting thread can have made late, each with
    /// the most by which they can; absent in the closed loop, and where they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ends: Option<Gaps>,
}

/// The gaps of a tenant in one cell. Only tenants that poll for completions on the wall clock count
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuGaps {
    /// In the closed loop, without its warm-up.
    pub closed: PhaseGaps,
    /// In the open loop.
    pub open: PhaseGaps,
    /// In the sparse phase, where the issuer waits for each request; absent without a
    /// gap there, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse: Option<PhaseGaps>,
}

// Observations around one cell, which its gates judge: instants, error correction, clocks, and
// what could not be observed.

/// Observations around one cell. What was not observed is absent; records of older versions have
/// none of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Surroundings {
    /// Start and planned end on the clock of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<CellSpan>,
    /// Counters of error correction at the end of the cell before and at the end of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<EccSpan>,
    /// Processes that stamp samples and have a clock of another time namespace than the
    /// coordinator, by name. Absent in virtual time, and where a namespace is not readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_clocks: Option<Vec<String>>,
    /// Mean clock of the SMs in the closed loop by NVML. Absent where it was not read, and
    /// in format 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_khz: Option<u64>,
    /// Failed observations by name ([`Unobserved`]), each with its error.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unobserved: BTreeMap<Unobserved, String>,
    /// The event of the cell, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventObserved>,
    /// Readings of the vendor's counters, where the profile has them read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<MeterReading>,
}

/// The event of a cell, as the coordinator stamped it on the clock of the tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventObserved {
    /// When it happened, in ns since the start of the cell; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// From the event until the first kernel of a restarted neighbour had run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarted_after_ns: Option<u64>,
    /// Why it did not happen as planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Surroundings {
    /// Notes a failed observation, if it failed.
    pub fn note(&mut self, what: Unobserved, error: Option<String>) {
        self.unobserved.extend(error.map(|error| (what, error)));
    }
}

/// An observation that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unobserved {
    /// The processes on the device.
    Processes,
    /// The reasons for throttling, in at least one sample.
    Throttle,
    /// The Xids.
    Xids,
    /// The counters of error correction.
    Ecc,
    /// The time namespaces.
    Clocks,
}

/// Start and end of a cell, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellSpan {
    /// The common start of its tenants.
    pub start_ns: u64,
    /// The planned end of its last loop.
    pub end_ns: u64,
}

/// Counters of error correction around a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EccSpan {
    /// At the end of the cell before, or at the start of the run.
    pub before: EccCounts,
    /// At the end of the cell.
    pub after: EccCounts,
}

impl Cell {
    /// Whether its neighbours do what the victim does.
    pub fn is_of_equals(&self) -> bool {
        self.aggressor.as_ref() == Some(&self.victim)
    }

    /// The tenant that the event of the cell kills: the last one.
    pub fn killed(&self) -> Option<usize> {
        let kills = self.shape.event.is_some_and(Event::kills);
        self.tenants.len().checked_sub(1).filter(|_| kills)
    }

    /// Requests that the victim, and each neighbour, keep outstanding in a closed loop.
    pub fn depths(&self) -> [u32; 2] {
        let [own, neighbour] = self.shape.depths();
        [own, if self.is_of_equals() { own } else { neighbour }]
    }
}

#[cfg(test)]
mod tests {
    use super::{Surroundings, Unobserved};

    #[test]
    fn absent_observations_are_no_keys() -> Result<(), serde_json::Error> {
        let none = Surroundings::default();
        assert_eq!(serde_json::to_string(&none)?, "{}");
        assert_eq!(serde_json::from_str::<Surroundings>("{}")?, none);
        let failed =
            Surroundings { unobserved: [(Unobserved::Xids, "lost".to_owned())].into(), ..none };
        let text = serde_json::to_string(&failed)?;
        assert_eq!(text, r#"{"unobserved":{"xids":"lost"}}"#);
        assert_eq!(serde_json::from_str::<Surroundings>(&text)?, failed);
        Ok(())
    }
}
