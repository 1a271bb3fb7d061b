//! Whether the samples of one cell can be trusted, and the figures that follow from them.
//!
//! Pure: no I/O, no clock. [`judge`] computes every figure from the rows that the tenants logged,
//! evaluates each validity gate ([`CATALOGUE`]), and derives the outcome of the cell from the gates
//! that failed. It alters no row. A figure that the rows do not support is absent. Checks that need
//! more than one cell (retention, drift between blocks, an aggressor that is too weak) belong to
//! `score`.

mod answers;
mod beside;
mod catalogue;
#[cfg(test)]
mod changes;
mod closed;
mod cpu_gaps;
mod fault_trial;
mod findings;
#[cfg(test)]
pub(crate) mod fixture;
mod host;
mod in_force;
mod late_xids;
mod lateness;
mod observation;
mod overload;
mod quantiles;
mod samples;
mod schedule;
mod spans;
mod steady;
mod surroundings;
mod tenant_figures;
#[cfg(test)]
mod tests;
mod victim_outcomes;

use gpubench_record::{CellResult, GateResult, GateScope, Role};

pub use catalogue::{CATALOGUE, GateEntry};
pub use closed::closed_rate_per_s;
pub use fault_trial::judge_trial;
use findings::Findings;
pub use in_force::Proofs;
pub use late_xids::{CellXid, XidReading, assign_xids};
pub use observation::{CellObservation, ClockKind, Host, Tenant};
use spans::Windows;

/// Names of the figures in `CellResult::rates` that scoring reads.
pub mod figure {
    /// Completions per second of the closed loop, from its first request to its last completion.
    pub const CLOSED_RATE_PER_S: &str = "closed_rate_per_s";
    /// The most by which lost CPU time can have lowered the rate of the closed loop, as the
    /// logarithm of a ratio; absent where it was not observed.
    pub const CLOSED_RATE_LOSS_MAX_LN: &str = "closed_rate_loss_max_ln";
    /// Mean service in the first half of the closed loop over that in the second, as a logarithm.
    pub const CLOSED_HALVES_LN: &str = "closed_halves_ln";
    /// Standard error of the same, from the spread within the cell.
    pub const CLOSED_HALVES_ERROR_LN: &str = "closed_halves_error_ln";
    /// Share of the closed loop in which an aggressor had no work outstanding for more than 5 us;
    /// only on the wall clock.
    pub const AGGRESSOR_IDLE_CLOSED_RATIO: &str = "aggressor_idle_closed_ratio";
    /// Mean clock of the SMs in the closed loop.
    pub const SM_CLOCK_MHZ: &str = "sm_clock_mhz";
    /// Speed of the device around the cell over its first speed, as a logarithm: the mean of the
    /// check kernel before and after.
    pub const DEVICE_SPEED_LN: &str = "device_speed_ln";
    /// Median time from issue to completion in the closed loop.
    pub const CLOSED_SERVICE_P50_NS: &str = "closed_service_p50_ns";
    /// Median time from schedule to completion in the open loop.
    pub const OPEN_LATENCY_P50_NS: &str = "open_latency_p50_ns";
    /// 99th percentile of the same; absent below 368 requests or under overload.
    pub const OPEN_LATENCY_P99_NS: &str = "open_latency_p99_ns";
    /// The least that the median can be without the lateness of the harness; only on the wall
    /// clock.
    pub const OPEN_LATENCY_P50_LOWER_NS: &str = "open_latency_p50_lower_ns";
    /// The same of the 99th percentile.
    pub const OPEN_LATENCY_P99_LOWER_NS: &str = "open_latency_p99_lower_ns";
    /// Requests completed within the open loop, per second.
    pub const GOODPUT_PER_S: &str = "goodput_per_s";
    /// Requests due in the open loop, per second.
    pub const OFFERED_PER_S: &str = "offered_per_s";
    /// Growth of the backlog over the second half of the open loop.
    pub const BACKLOG_SLOPE_PER_S: &str = "backlog_slope_per_s";
    /// Rate of the aggressor over the rate of one alone on the device.
    pub const ACHIEVED_DOSE_RATIO: &str = "achieved_dose_ratio";

    /// Completions per second of one aggressor in the closed loop.
    #[must_use]
    pub fn tenant_rate_per_s(tenant: &str) -> String {
        format!("{tenant}_rate_per_s")
    }

    /// GPU time of all requests of one tenant in a contended cell.
    #[must_use]
    pub fn tenant_gpu_time_ns(tenant: &str) -> String {
        format!("{tenant}_gpu_time_ns")
    }
}

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

/// Why the open loop of a cell cannot be trusted, although the cell as a whole can.
#[must_use]
pub fn open_loop_doubt(result: &CellResult) -> Option<String> {
    let gate = result.failed_gates(GateScope::OpenLoop).next()?;
    Some(format!("{}: {}", gate.gate, gate.detail))
}

/// The failed gates of a cell that spoil none of its figures: findings for the rows that use it.
pub fn findings_of(result: &CellResult) -> impl Iterator<Item = &GateResult> {
    result.failed_gates(GateScope::Nothing)
}

/// The tenants of an observation are not those of its cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The first tenant is not the victim.
    #[error("cell {cell}: the first tenant is {found}, and only a victim is accepted there")]
    NoVictim {
        /// The cell.
        cell: String,
        /// The first tenant.
        found: String,
    },
    /// The tenants differ from the planned ones.
    #[error("cell {cell}: tenants {found}, planned and accepted are {planned}")]
    Tenants {
        /// The cell.
        cell: String,
        /// The tenants of the observation.
        found: String,
        /// The planned tenants.
        planned: String,
    },
}

/// Figures, gates and outcome of one cell.
///
/// # Errors
/// When the tenants are not those of the planned cell, the victim first.
pub fn judge(observation: &CellObservation<'_>) -> Result<CellResult, GateError> {
    let victim = checked_victim(observation)?;
    let windows = Windows::of(observation.durations);
    let mut found = Findings::default();
    samples::judge(observation, &mut found);
    answers::count(victim, &mut found);
    closed::measure(observation, victim, windows.closed, &mut found);
    steady::judge(victim, &mut found);
    if windows.open.length_ns() > 0 {
        overload::judge(observation, victim, &windows, &mut found);
    }
    beside::judge(observation, victim, &windows, &mut found);
    lateness::judge(observation, victim, &mut found);
    host::judge(observation, &mut found);
    tenant_figures::measure(observation, &windows, &mut found);
    cpu_gaps::judge(observation, victim, &windows, &mut found);
    surroundings::judge(observation, &mut found);
    let tenants = observation.tenants.iter();
    Ok(CellResult {
        cell: observation.cell.clone(),
        outcome: found.outcome(),
        rates: found.rates,
        requests: found.requests,
        gates: found.gates,
        tenant_results: tenants.map(|tenant| tenant.result.clone()).collect(),
    })
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
