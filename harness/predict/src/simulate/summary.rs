//! Printed figures of a simulated mode. Overload is reported and never averaged.

use std::num::NonZeroUsize;

use serde::Serialize;

use super::arrivals::{
    Arrivals, Intervals, ReplicatedMode, Service, arrivals, arrivals_and_buffer, replications,
    summarize,
};
use super::scenario::{Hostile, Scenario};
use super::sweep::{Sweep, SweepPlan, checked, sweep};
use super::{arrivals, limits};
use crate::error::PredictError;
use crate::parallel::{mean, percentiles};

/// A simulated sharing mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Mode {
    /// One instance per tenant.
    #[serde(rename = "MIG")]
    Mig,
    /// Side by side, slowed by neighbours.
    #[serde(rename = "MPS")]
    Mps,
    /// One tenant after another.
    #[serde(rename = "time-slice")]
    TimeSlice,
    /// One tenant after another, with launches limited by a token bucket per tenant.
    #[serde(rename = "HAMi")]
    Hami,
}

impl Mode {
    /// The modes of the reference model, in the order of its table.
    pub const REFERENCE: [Self; 3] = [Self::Mig, Self::Mps, Self::TimeSlice];

    /// The printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mig => "MIG",
            Self::Mps => "MPS",
            Self::TimeSlice => "time-slice",
            Self::Hami => "HAMi",
        }
    }
}

/// Whether the queues stay bounded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// The load is below 1.
    Stable,
    /// The load is at least 1: figures depend on the simulated time.
    Overloaded {
        /// Growth of the queues, in requests per second.
        growth_per_s: f64,
        /// Growth of the wait in the worst queue.
        delay_growth_ms_per_s: f64,
    },
}

/// One queue: its arrival rate and service time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// Requests that arrive per second.
    pub rate_per_s: f64,
    /// Mean service time of a request.
    pub busy_s: f64,
}

impl Queue {
    /// Work that arrives per second, in seconds of its server.
    pub fn load(self) -> f64 {
        self.rate_per_s * self.busy_s
    }
}

/// The load of the busiest queue, and the state of all queues.
pub fn judge(queues: &[Queue]) -> (f64, State) {
    let load = queues.iter().map(|queue| queue.load()).fold(0.0, f64::max);
    if load < 1.0 {
        return (load, State::Stable);
    }
    let growth = |queue: &Queue| (queue.rate_per_s - 1.0 / queue.busy_s).max(0.0);
    let growth_per_s = queues.iter().filter(|queue| queue.busy_s > 0.0).map(growth).sum();
    (load, State::Overloaded { growth_per_s, delay_growth_ms_per_s: (load - 1.0) * 1000.0 })
}

/// One mode of one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModeSummary {
    /// The mode.
    pub mode: Mode,
    /// Requests that ended within the duration.
    pub served: u64,
    /// Share of the offered requests; `None` without requests.
    pub served_percent: Option<f64>,
    /// Median latency of served requests.
    pub p50_ms: Option<f64>,
    /// 99th percentile of their latency.
    pub p99_ms: Option<f64>,
    /// Mean of their latency; `None` in overload.
    pub mean_ms: Option<f64>,
    /// Work that arrives per second in the busiest queue, in seconds of its server.
    pub load: f64,
    /// Whether the queues stay bounded.
    #[serde(flatten)]
    pub state: State,
}

/// Figures of a scenario in each mode. A prediction, not a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Requests that arrived.
    pub offered: u64,
    /// The modes, in the order of the published table.
    pub modes: Vec<ModeSummary>,
}

/// Simulates the reference model under the scenario's own seed.
pub fn predict(scenario: &Scenario) -> Prediction {
    predict_seed(scenario, scenario.seed)
}

/// Simulates the reference model under another seed.
pub fn predict_seed(scenario: &Scenario, seed: u64) -> Prediction {
    let (arrivals, mut buffer) = arrivals_and_buffer(scenario, seed);
    let offered = arrivals.len() as u64;
    let modes = Mode::REFERENCE.map(|mode| {
        let reused = std::mem::take(&mut buffer);
        let mut run = Collected::run(scenario, &arrivals, mode, reused, |_| true);
        let summary = run.summary(scenario, offered);
        buffer = run.latencies_s;
        summary
    });
    Prediction { offered, modes: modes.into() }
}

/// Collected figures of a run: latencies of served requests, and time in service of each tenant.
pub(super) struct Collected {
    mode: Mode,
    pub(super) latencies_s: Vec<f64>,
    busy: Vec<(u64, f64)>,
}

impl Collected {
    /// Runs one mode. Keeps the latencies of served requests of the tenants that `counts` selects,
    /// in a buffer that the caller can reuse.
    pub(super) fn run(
        scenario: &Scenario,
        arrivals: &Arrivals,
        mode: Mode,
        buffer: Vec<f64>,
        counts: impl Fn(usize) -> bool,
    ) -> Self {
        let mut latencies_s = buffer;
        latencies_s.clear();
        latencies_s.reserve(arrivals.len());
        let mut busy = vec![(0_u64, 0.0_f64); scenario.tenants as usize];
        let sink = |service: Service| {
            let (count, sum_s) = &mut busy[service.tenant];
            *count += 1;
            *sum_s += service.busy_s;
            if service.end_s < scenario.duration_s && counts(service.tenant) {
                latencies_s.push(service.latency_s);
            }
        };
        match mode {
            Mode::Mig => arrivals::mig(scenario, arrivals, sink),
            Mode::Mps => arrivals::mps(scenario, arrivals, sink),
            Mode::TimeSlice | Mode::Hami => arrivals::time_slice(scenario, arrivals, sink),
        }
        Self { mode, latencies_s, busy }
    }

    /// The queues of the mode: one under time-slicing, else one per tenant.
    fn queues(&self, scenario: &Scenario) -> Vec<Queue> {
        let mean = |(count, sum_s): (u64, f64)| {
            if count == 0 { 0.0 } else { sum_s / count as f64 }
        };
        if self.mode == Mode::TimeSlice {
            let add = |a: (u64, f64), b: &(u64, f64)| (a.0 + b.0, a.1 + b.1);
            let busy_s = mean(self.busy.iter().fold((0, 0.0), add));
            return vec![Queue { rate_per_s: scenario.offered_per_s(), busy_s }];
        }
        let of_tenant = |(load, busy): (super::scenario::TenantLoad, &(u64, f64))| Queue {
            rate_per_s: load.rate_per_s(),
            busy_s: mean(*busy),
        };
        scenario.loads().into_iter().zip(&self.busy).map(of_tenant).collect()
    }

    fn summary(&mut self, scenario: &Scenario, offered: u64) -> ModeSummary {
        let (load, state) = judge(&self.queues(scenario));
        let served = self.latencies_s.len() as u64;
        let found = percentiles(&mut self.latencies_s, [50.0, 99.0]);
        ModeSummary {
            mode: self.mode,
            served,
            served_percent: (offered > 0).then(|| 100.0 * served as f64 / offered as f64),
            p50_ms: found.map(|[p50_s, _]| p50_s * 1000.0),
            p99_ms: found.map(|[_, p99_s]| p99_s * 1000.0),
            mean_ms: match state {
                State::Stable => mean(&self.latencies_s).map(|mean_s| mean_s * 1000.0),
                State::Overloaded { .. } => None,
            },
            load,
            state,
        }
    }
}

// The result of one call of `simulate`, in the form of its JSON output.

/// Input of `simulate`.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Tenants, load and device.
    pub scenario: Scenario,
    /// Replications; one gives no interval.
    pub replications: u32,
    /// Coverage of the intervals.
    pub coverage: f64,
    /// Device loads to sweep; empty for no sweep.
    pub loads: Vec<f64>,
    /// Threads for replications and sweeps.
    pub threads: NonZeroUsize,
}

/// Predictions of `simulate`, marked as such.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Always `prediction`.
    pub kind: &'static str,
    /// `reference` or `event`.
    pub model: &'static str,
    /// The simulated scenario.
    pub scenario: Scenario,
    /// Requests that arrived in the first replication.
    pub offered: u64,
    /// The modes in the first replication.
    pub modes: Vec<ModeSummary>,
    /// Figures over all replications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicated: Option<Replicated>,
    /// The cost of the hostile tenant to the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostile: Option<Vec<HostileMode>>,
    /// Latency against load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

/// Figures over all replications.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replicated {
    /// Number of replications.
    pub replications: u32,
    /// Coverage of the intervals.
    pub intervals: Intervals,
    /// The modes.
    pub modes: Vec<ReplicatedMode>,
}

/// Simulates a request.
pub fn report(request: &Request) -> Result<Report, PredictError> {
    let scenario = &request.scenario;
    scenario.check()?;
    let count = request.replications;
    limits::check_runs(std::slice::from_ref(scenario), count)?;
    let threads = limits::threads(scenario, request.threads);
    let intervals = Intervals { coverage: request.coverage, family: 1 };
    // Checked for one run too, which has no interval: a wrong value is always refused.
    intervals.confidence()?;
    let plan = (!request.loads.is_empty()).then(|| SweepPlan {
        loads: request.loads.clone(),
        replications: count.max(2),
        coverage: request.coverage,
    });
    // Refused before the first replication, which can take minutes.
    if let Some(plan) = &plan {
        checked(scenario, plan)?;
    }
    let runs = replications(scenario, count, threads);
    let replicated = if count > 1 {
        Some(Replicated { replications: count, intervals, modes: summarize(&runs, intervals)? })
    } else {
        None
    };
    let swept = plan.map(|plan| sweep(scenario, &plan, threads));
    let swept = swept.transpose()?;
    let Prediction { offered, modes } =
        runs.into_iter().next().unwrap_or(Prediction { offered: 0, modes: Vec::new() });
    Ok(Report {
        kind: "prediction",
        model: if scenario.event.is_some() { "event" } else { "reference" },
        scenario: scenario.clone(),
        offered,
        modes,
        replicated,
        hostile: scenario.hostile.as_ref().map(|hostile| cost_of_hostile(scenario, hostile)),
        sweep: swept,
    })
}

// The cost of a hostile tenant to its neighbours, compared with MIG.

/// Latency of the other tenants in one mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostileMode {
    /// The mode.
    pub mode: Mode,
    /// 99th percentile while the hostile tenant behaves like the others.
    pub p99_without_ms: Option<f64>,
    /// 99th percentile beside the hostile tenant.
    pub p99_with_ms: Option<f64>,
    /// The difference.
    pub added_ms: Option<f64>,
    /// The difference above that of MIG: the cost of the missing isolation.
    pub gap_to_mig_ms: Option<f64>,
}

/// Compares the other tenants with and without the hostile one, under one seed.
///
/// "Without" is the same scenario with normal behaviour of that tenant. Its own requests never
/// count. All tenants draw from one generator, so the arrivals of the others differ between the
/// two.
pub fn cost_of_hostile(scenario: &Scenario, hostile: &Hostile) -> Vec<HostileMode> {
    let without_hostile = Scenario { hostile: None, ..scenario.clone() };
    let with_hostile = Scenario { hostile: Some(hostile.clone()), ..scenario.clone() };
    let without = neighbours_p99_ms(&without_hostile, hostile.tenant);
    let with = neighbours_p99_ms(&with_hostile, hostile.tenant);
    let added = |mode: usize| with[mode].zip(without[mode]).map(|(with, without)| with - without);
    // MIG is the first mode of the reference model.
    let added_by_mig = added(0);
    let of_mode = |(index, mode): (usize, Mode)| HostileMode {
        mode,
        p99_without_ms: without[index],
        p99_with_ms: with[index],
        added_ms: added(index),
        gap_to_mig_ms: added(index).zip(added_by_mig).map(|(added, by_mig)| added - by_mig),
    };
    Mode::REFERENCE.into_iter().enumerate().map(of_mode).collect()
}

fn neighbours_p99_ms(scenario: &Scenario, hostile: u32) -> [Option<f64>; 3] {
    let arrivals = arrivals(scenario, scenario.seed);
    Mode::REFERENCE.map(|mode| {
        let is_neighbour = |tenant| tenant != hostile as usize;
        let mut run = Collected::run(scenario, &arrivals, mode, Vec::new(), is_neighbour);
        percentiles(&mut run.latencies_s, [99.0]).map(|[p99_s]| p99_s * 1000.0)
    })
}
