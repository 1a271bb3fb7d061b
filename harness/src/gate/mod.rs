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
mod fates;
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

use std::collections::BTreeMap;

use gpubench_record::{
    Bursts, Cell, CellResult, Durations, GateResult, GateState, Outcome, Proof, Role, SampleRow,
    TenantResult, Thresholds,
};

pub use closed::{GATE as CLOSED_RATE_GATE, closed_rate_per_s};
pub use fates::judge_trial;
pub use overload::GATE as OVERLOAD_GATE;
use spans::Windows;

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

/// Name of the gate on how late the harness itself was. It spoils what is read off a schedule, the
/// open loop: a closed loop has none, and its rate stands.
pub const LATENESS_GATE: &str = "lateness";

/// Why the open loop of a cell is not to be trusted, where the cell as a whole is.
#[must_use]
pub fn open_loop_doubt(result: &CellResult) -> Option<String> {
    let failed = |gate: &&GateResult| gate.gate == LATENESS_GATE && gate.state == GateState::Failed;
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
pub struct Observed<'a> {
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
    /// Rate of the schedule; absent if nobody wrote it down.
    pub offered_per_s: Option<f64>,
    /// How its arrivals bunch, if they do.
    pub bursts: Option<Bursts>,
    /// The latency that was promised, if one was.
    pub slo_ns: Option<u64>,
    /// Native peak rate of one aggressor alone, from calibration.
    pub aggressor_peak_per_s: Option<f64>,
    /// Why the cell was given up, if it was.
    pub failure: Option<&'a str>,
    /// What was seen of the host and the device meanwhile.
    pub host: Host<'a>,
}

/// One tenant with what it logged and what became of it.
#[derive(Debug, Clone, Copy)]
pub struct Tenant<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it was there for.
    pub role: Role,
    /// Its workload, if any.
    pub workload: Option<&'a str>,
    /// The committed rows of its log, in any order.
    pub rows: &'a [SampleRow],
    /// Hash of its arrival schedule, as it reported it.
    pub schedule_hash: Option<&'a str>,
    /// Why it ended early, if it did.
    pub death: Option<&'a str>,
    /// Requests for which its log had no room.
    pub unlogged: u64,
    /// Whether it reached the limit of outstanding requests.
    pub overloaded: bool,
    /// Scheduling class that its issuer had.
    pub sched: Option<&'a str>,
}

/// What was seen of host and device while the cell ran; `None` where nobody looked.
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
pub fn judge(seen: &Observed<'_>) -> Result<CellResult, GateError> {
    let victim = checked_victim(seen)?;
    let windows = Windows::of(seen.durations);
    let mut found = Findings::default();
    samples::judge(seen, &mut found);
    answers::count(victim, &mut found);
    closed::measure(seen, victim, windows.closed, &mut found);
    steady::judge(victim, seen.thresholds, &mut found);
    if windows.open.length_ns() > 0 {
        overload::judge(seen, victim, &windows, &mut found);
    }
    beside::judge(seen, victim, &windows, &mut found);
    host::judge(seen, victim, &mut found);
    let outcome = found.outcome();
    let cell = seen.cell;
    Ok(CellResult {
        id: cell.id.clone(),
        block: cell.block,
        group: cell.group.clone(),
        mechanism: cell.mechanism.clone(),
        variant: cell.variant.clone(),
        victim: cell.victim.clone(),
        condition: cell.condition,
        aggressor: cell.aggressor.clone(),
        dose: cell.dose,
        rates: found.rates,
        requests: found.requests,
        outcome,
        gates: found.gates,
        tenants: seen.tenants.iter().map(tenant_result).collect(),
    })
}

fn checked_victim<'a>(seen: &Observed<'a>) -> Result<&'a Tenant<'a>, GateError> {
    let cell = seen.cell.id.clone();
    let victim = seen
        .tenants
        .first()
        .filter(|tenant| tenant.role == Role::Victim);
    let Some(victim) = victim else {
        let found = seen
            .tenants
            .first()
            .map_or("nobody", |tenant| tenant.name)
            .to_owned();
        return Err(GateError::NoVictim { cell, found });
    };
    let planned = seen
        .cell
        .tenants
        .iter()
        .map(|tenant| (tenant.tenant.as_str(), tenant.role));
    if planned
        .clone()
        .eq(seen.tenants.iter().map(|tenant| (tenant.name, tenant.role)))
    {
        return Ok(victim);
    }
    let names = |names: Vec<&str>| names.join(", ");
    Err(GateError::Tenants {
        cell,
        found: names(seen.tenants.iter().map(|tenant| tenant.name).collect()),
        planned: names(planned.map(|(name, _)| name).collect()),
    })
}

fn tenant_result(tenant: &Tenant<'_>) -> TenantResult {
    TenantResult {
        tenant: tenant.name.to_owned(),
        role: tenant.role,
        workload: tenant.workload.map(str::to_owned),
        rows: tenant.rows.len() as u64,
        schedule_hash: tenant.schedule_hash.map(str::to_owned),
        death: tenant.death.map(str::to_owned),
        unlogged: tenant.unlogged,
        overloaded: tenant.overloaded,
        sched: tenant.sched.map(str::to_owned),
    }
}

/// What has been found out about a cell so far.
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
            detail: detail.into(),
        });
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

    /// Measured only if no gate failed, but for those that spoil the open loop alone.
    fn outcome(&self) -> Outcome {
        if let Some(why) = &self.broken {
            return Outcome::failed(why.clone());
        }
        let failed = self
            .gates
            .iter()
            .filter(|gate| gate.state == GateState::Failed && gate.gate != LATENESS_GATE);
        let reasons: Vec<String> = failed
            .map(|gate| format!("{}: {}", gate.gate, gate.detail))
            .collect();
        if reasons.is_empty() {
            return Outcome::measured();
        }
        Outcome::inconclusive(reasons.join("; "))
    }
}
