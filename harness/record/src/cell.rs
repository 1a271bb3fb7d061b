//! What came out of one cell: rates, quantiles, and the judgement of each gate.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, Role};
use crate::outcome::Outcome;
use crate::plan::CellTenant;

/// The result of one cell. Figures are computed from its samples alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellResult {
    /// The cell's id in the plan.
    pub id: String,
    /// Its block.
    pub block: u32,
    /// Its group of mechanisms.
    pub group: String,
    /// Mechanism under which it ran.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// Workload of the victim.
    pub victim: String,
    /// Its condition.
    pub condition: Condition,
    /// Workload of the aggressor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggressor: Option<String>,
    /// Fraction of native peak offered by the aggressor.
    pub dose: f64,
    /// Figures by name, unit in the name (`closed_rate_per_s`, `open_latency_p99_ns`).
    /// A figure that could not be computed is absent.
    pub rates: BTreeMap<String, f64>,
    /// Requests of the victim behind the figures: closed, open; where a refusal is an answer, also
    /// those asked and those honoured.
    pub requests: BTreeMap<String, u64>,
    /// The outcome after all gates.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Every gate with its judgement.
    pub gates: Vec<GateResult>,
    /// The tenants, the victim first.
    pub tenants: Vec<TenantResult>,
}

/// What became of one tenant in one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantResult {
    /// Name of the tenant.
    pub tenant: String,
    /// What it was there for.
    pub role: Role,
    /// Workload, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Rows in its log.
    pub rows: u64,
    /// Hash of its arrival schedule, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_hash: Option<String>,
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
}

impl TenantResult {
    /// One that is ready and has done nothing yet.
    #[must_use]
    pub fn ready(tenant: &CellTenant, schedule_hash: Option<String>) -> Self {
        Self {
            tenant: tenant.tenant.clone(),
            role: tenant.role,
            workload: tenant.workload.clone(),
            rows: 0,
            schedule_hash,
            death: None,
            unlogged: 0,
            overloaded: false,
            sched: None,
        }
    }
}

/// How a gate judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// The condition holds.
    Passed,
    /// It does not: the cell is inconclusive.
    Failed,
    /// There is nothing to hold it against yet; fails nothing.
    NotEvaluated,
    /// Has no meaning in virtual time.
    NotApplicable,
}

/// One gate's judgement of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateResult {
    /// Name of the gate.
    pub gate: String,
    /// The judgement.
    pub state: GateState,
    /// The figure and the bound that decided it, in words.
    pub detail: String,
}
