//! Whether the samples of one cell can be trusted, and the figures that follow from them.
//!
//! Pure: no I/O, no clock. [`judge`] computes every figure from the rows that the tenants logged,
//! holds the cell against each validity gate, and says which of them decided its outcome. It
//! never alters a row, and a figure that the rows do not support is absent. What needs more than
//! one cell (retention, drift between blocks, an aggressor too weak to show anything) is the
//! business of `score`.

mod answers;
mod beside;
#[cfg(test)]
mod changes;
mod closed;
#[cfg(test)]
mod fixture;
mod host;
mod overload;
mod quantiles;
mod samples;
mod spans;
mod steady;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
mod victim_outcomes;

use std::collections::BTreeMap;

use gpubench_record::{
    Bursts, Cell, CellResult, Durations, GateResult, GateScope, GateState, Outcome, Proof, Role,
    SampleRow, TenantResult, Thresholds,
};

pub use closed::{GATE as CLOSED_RATE_GATE, closed_rate_per_s};
pub use overload::GATE as OVERLOAD_GATE;
use spans::Windows;
pub use victim_outcomes::judge_trial;

/// Names of the figures in `CellResult::rates` that scoring reads.
pub mod figure {
    /// Completions per second of the closed loop, from its first request to its last completion.
    pub const CLOSED_RATE_PER_S: &str = "closed_rate_per_s";
    /// Median time from schedule to completion in the open loop.
    pub const OPEN_LATENCY_P50_NS: &str = "open_latency_p50_ns";
    /// 99th percentile of the same; absent below 368 requests or under overload.
    pub const OPEN_LATENCY_P99_NS: &str = "open_latency_p99_ns";
    /// Requests completed within the open loop, per second.
    pub const GOODPUT_PER_S: &str = "goodput_per_s";
    /// Requests that the schedule brought per second.
    pub const OFFERED_PER_S: &str = "offered_per_s";
    /// Growth of the backlog over the second half of the open loop.
    pub const BACKLOG_SLOPE_PER_S: &str = "backlog_slope_per_s";
}

/// Name of the count of closed-loop requests in `CellResult::requests`.
pub const CLOSED_REQUESTS: &str = "closed";
/// Name of the count of requests that ended well or with a refusal that is an answer, of a victim
/// that has such: those of the open loop, which come when the schedule says, or of the closed loop
/// where there is no other.
pub const ASKED_REQUESTS: &str = "asked";
/// Name of the count of those that ended well.
pub const HONOURED_REQUESTS: &str = "honoured";
/// Name of the count of open-loop requests in `CellResult::requests`.
pub const OPEN_REQUESTS: &str = "open";
/// Name of the count of requests that the schedule brought, where a latency was promised.
pub const OFFERED_REQUESTS: &str = "offered";
/// Name of the count of those that ended well within the promised latency.
pub const WITHIN_SLO_REQUESTS: &str = "within_slo";

/// Why the open loop of a cell is not trusted, where the cell as a whole is.
#[must_use]
pub fn open_loop_doubt(result: &CellResult) -> Option<String> {
    let failed =
        |gate: &&GateResult| gate.scope == GateScope::OpenLoop && gate.state == GateState::Failed;
    let gate = result.gates.iter().find(failed)?;
    Some(format!("{}: {}", gate.gate, gate.detail))
}

/// Which clock the tenants were stamped with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockKind {
    /// The clock of the virtual GPU: no timer is ever late, no CPU is ever stolen.
    Virtual,
    /// The monotonic clock of the host.
    Wall,
}

/// Everything that is known about one cell that ran.
#[derive(Debug, Clone, Copy)]
pub struct CellObservation<'a> {
    /// The cell as planned.
    pub cell: &'a Cell,
    /// Length of its parts.
    pub durations: &'a Durations,
    /// The conventions.
    pub thresholds: &'a Thresholds,
    /// Its clock.
    pub clock: ClockKind,
    /// Its tenants, the victim first.
    pub tenants: &'a [Tenant<'a>],
    /// Rate of the schedule; absent where no schedule is known.
    pub offered_per_s: Option<f64>,
    /// How its arrivals bunch, if they do.
    pub bursts: Option<Bursts>,
    /// The latency that was promised, if one was.
    pub slo_ns: Option<u64>,
    /// Native peak rate of one aggressor alone, from calibration.
    pub aggressor_peak_per_s: Option<f64>,
    /// Whether the victim is a program of the user's, which waits for its requests to come due by
    /// itself.
    pub is_user_victim: bool,
    /// Why the cell was given up, if it was.
    pub failure: Option<&'a str>,
    /// Observations of the host and the device meanwhile.
    pub host: Host<'a>,
}

/// One tenant with its log.
#[derive(Debug, Clone, Copy)]
pub struct Tenant<'a> {
    /// The tenant as planned, and what it reported.
    pub result: &'a TenantResult,
    /// The committed rows of its log, in any order.
    pub rows: &'a [SampleRow],
    /// `CUresult`s of refusals that answer its requests as well as success does.
    pub answering_codes: &'a [i32],
}

impl Tenant<'_> {
    fn name(&self) -> &str {
        &self.result.planned.tenant
    }

    fn role(&self) -> Role {
        self.result.planned.role
    }

    fn death(&self) -> Option<&str> {
        self.result.death.as_deref()
    }
}

/// Observations of host and device while the cell ran; unobserved values are `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host<'a> {
    /// Processes on the GPU that are none of ours.
    pub foreign_pids: Option<&'a [u32]>,
    /// NVML's bit mask of reasons for throttling.
    pub throttle_reasons: Option<u64>,
    /// Xid errors of the device.
    pub xids: Option<&'a [u32]>,
    /// Share of CPU time that a hypervisor took, 0 to 1.
    pub steal: Option<f64>,
    /// Proofs of the mechanism taken around this cell.
    pub proofs: &'a [Proof],
}

/// What was handed in is no cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The first tenant is not the victim.
    #[error("cell {cell}: the first tenant is {found}, and only a victim is accepted there")]
    NoVictim {
        /// The cell.
        cell: String,
        /// What stood there.
        found: String,
    },
    /// Other tenants than planned.
    #[error("cell {cell}: tenants {found}, planned and accepted are {planned}")]
    Tenants {
        /// The cell.
        cell: String,
        /// Who was handed in.
        found: String,
        /// Who was planned.
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
    steady::judge(victim, observation.thresholds, &mut found);
    if windows.open.length_ns() > 0 {
        overload::judge(observation, victim, &windows, &mut found);
    }
    beside::judge(observation, victim, &windows, &mut found);
    host::judge(observation, victim, &mut found);
    let outcome = found.outcome();
    Ok(CellResult {
        cell: observation.cell.clone(),
        rates: found.rates,
        requests: found.requests,
        outcome,
        gates: found.gates,
        tenant_results: observation
            .tenants
            .iter()
            .map(|tenant| tenant.result.clone())
            .collect(),
    })
}

fn checked_victim<'a>(observation: &CellObservation<'a>) -> Result<&'a Tenant<'a>, GateError> {
    let cell = observation.cell.id.clone();
    let first = observation.tenants.first();
    let Some(victim) = first.filter(|tenant| tenant.role() == Role::Victim) else {
        let found = first.map_or("nobody", Tenant::name).to_owned();
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

/// Figures and judgements of a cell so far.
#[derive(Debug, Default)]
struct Findings {
    rates: BTreeMap<String, f64>,
    requests: BTreeMap<String, u64>,
    gates: Vec<GateResult>,
    /// Why the cell broke, rather than merely being in doubt.
    broken: Option<String>,
}

impl Findings {
    fn rate(&mut self, name: &str, value: f64) {
        // Not-a-number and infinity are no figures: better none than one that no file can hold.
        if value.is_finite() {
            self.rates.insert(name.to_owned(), value);
        }
    }

    fn gate(&mut self, gate: &str, state: GateState, detail: impl Into<String>) {
        self.gates.push(GateResult {
            gate: gate.to_owned(),
            state,
            scope: GateScope::Cell,
            detail: detail.into(),
        });
    }

    /// The last gate judged spoils the open loop alone.
    fn of_open_loop(&mut self) {
        if let Some(gate) = self.gates.last_mut() {
            gate.scope = GateScope::OpenLoop;
        }
    }

    fn holds(&mut self, gate: &str, holds: bool, detail: impl Into<String>) {
        let state = if holds {
            GateState::Passed
        } else {
            GateState::Failed
        };
        self.gate(gate, state, detail);
    }

    fn not_evaluated(&mut self, gate: &str, why: impl Into<String>) {
        self.gate(gate, GateState::NotEvaluated, why);
    }

    fn break_cell(&mut self, why: impl Into<String>) {
        self.broken.get_or_insert(why.into());
    }

    /// Measured unless a gate failed whose scope is the whole cell.
    fn outcome(&self) -> Outcome {
        if let Some(why) = &self.broken {
            return Outcome::failed(why.clone());
        }
        let failed = self
            .gates
            .iter()
            .filter(|gate| gate.state == GateState::Failed && gate.scope == GateScope::Cell);
        let reasons: Vec<String> = failed
            .map(|gate| format!("{}: {}", gate.gate, gate.detail))
            .collect();
        if reasons.is_empty() {
            return Outcome::measured();
        }
        Outcome::inconclusive(reasons.join("; "))
    }
}
