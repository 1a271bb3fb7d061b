//! Whether the samples of one cell can be trusted, and the figures that follow from them.
//!
//! Pure: no I/O, no clock. [`judge`] computes every figure from the rows that the tenants logged,
//! evaluates each validity gate ([`CATALOGUE`]), and derives the outcome of the cell from the gates
//! that failed. It alters no row. A figure that the rows do not support is absent. Checks that need
//! more than one cell (retention, drift between blocks, an aggressor that is too weak) belong to
//! `score`.

mod beside;
mod catalogue;
mod closed;
mod cpu_gaps;
mod fault_trial;
#[cfg(test)]
pub(crate) mod fixture;
mod host;
mod late_xids;
mod lateness;
mod lone;
mod observation;
mod overload;
mod quantiles;
mod samples;
mod spans;
mod tenant_figures;
#[cfg(test)]
mod tests;
mod transient;

use gpubench_record::{CellResult, Gate, GateResult, GateScope, GateState, Role};

use catalogue::Findings;
pub use catalogue::{CATALOGUE, GateEntry};
pub use closed::closed_rate_per_s;
pub use fault_trial::{judge_trial, raised_nothing};
pub use host::Proofs;
pub use late_xids::{CellXid, XidReading, assign_xids};
pub use observation::{CellObservation, ClockKind, Host, Tenant};
use spans::Windows;

/// Largest bound of a disturbance with which a rate counts, as the logarithm of a ratio: 10.5 %. A
/// wider one would say little about the rate.
const WORTH_HAVING_LN: f64 = 0.10;

/// Key in `CellResult::requests`: closed-loop requests that completed.
pub const CLOSED_REQUESTS: &str = "closed";
/// Key in `CellResult::requests`: requests that completed or were refused with an answering code.
/// Only for victims with answering codes. Counted in the open loop; in the closed loop where the
/// cell has no open loop.
pub const ANSWERED_REQUESTS: &str = "asked";
/// Key in `CellResult::requests`: those of [`ANSWERED_REQUESTS`] that completed.
pub const HONOURED_REQUESTS: &str = "honoured";
/// Key in `CellResult::requests`: open-loop requests that were issued.
pub const OPEN_REQUESTS: &str = "open";
/// Key in `CellResult::requests`: open-loop requests that were due. Only where a latency is
/// promised.
pub const OFFERED_REQUESTS: &str = "offered";
/// Key in `CellResult::requests`: those of [`OFFERED_REQUESTS`] that completed within the promised
/// latency.
pub const WITHIN_SLO_REQUESTS: &str = "within_slo";

pub fn open_loop_doubt(result: &CellResult) -> Option<String> {
    let gate = result.failed_gates(GateScope::OpenLoop).next()?;
    Some(format!("{}: {}", gate.gate, gate.detail))
}

/// The failed gates of a cell that spoil none of its figures: findings for the rows that use it.
pub fn findings_of(result: &CellResult) -> impl Iterator<Item = &GateResult> {
    result.failed_gates(GateScope::Nothing)
}

/// The gates of a cell that could not be evaluated, less those that a row names by their effect: a
/// starved rate is a bound, and overload has no percentiles.
pub fn unevaluated_of(result: &CellResult) -> impl Iterator<Item = &GateResult> {
    let has_open = !result.cell.closed_only;
    result.gates.iter().filter(move |gate| {
        let applies = match gate.gate {
            Gate::ClosedRate | Gate::Overload => false,
            Gate::Lateness => has_open,
            _ => true,
        };
        applies && gate.state == GateState::NotEvaluated
    })
}

/// The tenants of an observation are not those of its cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The first tenant is not the victim.
    #[error("cell {cell}: the first tenant is {found}, and only a victim is accepted there")]
    NoVictim { cell: String, found: String },
    /// The tenants differ from the planned ones.
    #[error("cell {cell}: tenants {found}, planned and accepted are {planned}")]
    Tenants { cell: String, found: String, planned: String },
}

/// Figures, gates and outcome of one cell.
/// Fails when the tenants are not those of the planned cell, the victim first.
pub fn judge(observation: &CellObservation<'_>) -> Result<CellResult, GateError> {
    let victim = checked_victim(observation)?;
    let windows = Windows::of(observation.durations);
    let mut found = Findings::default();
    if observation.cell.shape.event.is_some() {
        transient::judge(observation, victim, windows.closed, &mut found);
        host::judge(observation, &mut found);
        host::judge_surroundings(observation, &mut found);
        return Ok(result(observation, found, Vec::new()));
    }
    samples::judge(observation, &mut found);
    samples::count(victim, &mut found);
    closed::measure(observation, victim, windows.closed, &mut found);
    closed::judge(victim, &mut found);
    if windows.open.length_ns() > 0 {
        overload::judge(observation, victim, &windows, &mut found);
    }
    beside::judge(observation, victim, &windows, &mut found);
    lateness::judge(observation, victim, &mut found);
    host::judge(observation, &mut found);
    tenant_figures::measure(observation, &windows, &mut found);
    cpu_gaps::judge(observation, victim, &windows, &mut found);
    host::judge_surroundings(observation, &mut found);
    let lone_ns = lone::latencies_ns(observation, victim, &windows);
    Ok(result(observation, found, lone_ns))
}

fn result(observation: &CellObservation<'_>, found: Findings, lone_ns: Vec<u64>) -> CellResult {
    let tenants = observation.tenants.iter();
    CellResult {
        cell: observation.cell.clone(),
        outcome: found.outcome(),
        figures: found.figures,
        lone_ns,
        requests: found.requests,
        gates: found.gates,
        tenant_results: tenants.map(|tenant| tenant.result.clone()).collect(),
        meters: observation.host.meters.to_vec(),
    }
}

fn checked_victim<'a>(observation: &CellObservation<'a>) -> Result<&'a Tenant<'a>, GateError> {
    let cell = observation.cell.id.clone();
    let first = observation.tenants.first();
    let Some(victim) = first.filter(|tenant| tenant.role() == Role::Victim) else {
        let found = first.map_or("absent", Tenant::name).to_owned();
        return Err(GateError::NoVictim { cell, found });
    };
    let planned = observation.cell.tenants.iter();
    let present = observation.tenants.iter().map(|one| &one.result.planned);
    let names = |names: Vec<&str>| names.join(", ");
    if planned.clone().eq(present.clone()) {
        return Ok(victim);
    }
    Err(GateError::Tenants {
        cell,
        found: names(present.map(|one| one.tenant.as_str()).collect()),
        planned: names(planned.map(|one| one.tenant.as_str()).collect()),
    })
}
