//! The result of one cell: rates, quantiles, and the judgement of each gate.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cpu_gaps::CpuGaps;
use crate::figures::CellFigures;
use crate::gate::Gate;
use crate::outcome::{Outcome, OutcomeKind};
use crate::plan::{Cell, CellTenant};
use crate::workload::WorkloadSpec;

/// The result of one cell. Figures are computed from its samples alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellResult {
    /// The cell as planned.
    #[serde(flatten)]
    pub cell: Cell,
    /// Figures by name, unit in the name (`closed_rate_per_s`, `open_latency_p99_ns`).
    /// A figure that could not be computed is absent.
    #[serde(rename = "rates")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub figures: CellFigures,
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
}

/// The result of one tenant in one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    #[must_use]
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
    #[must_use]
    pub fn gate(&self, gate: &Gate) -> Option<&GateResult> {
        self.gates.iter().find(|result| result.gate == *gate)
    }

    /// Whether the cell would count but for disturbances beyond their limit.
    #[must_use]
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
    #[must_use]
    pub fn gate_state(&self, gate: &Gate) -> Option<GateState> {
        self.gate(gate).map(|result| result.state)
    }
}

impl TenantResult {
    /// The result of a tenant that is ready and has logged no row yet.
    #[must_use]
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
