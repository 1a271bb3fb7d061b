//! Printed figures of a simulated mode. Overload is reported and never averaged.

use super::arrivals::{Arrivals, arrivals_and_buffer};
use super::reference::{self, Service};
use super::scenario::Scenario;
use crate::parallel::{mean, percentiles};
use serde::Serialize;

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

impl State {
    /// Growth of the queues in overload, in requests per second.
    pub fn growth_per_s(self) -> Option<f64> {
        match self {
            Self::Stable => None,
            Self::Overloaded { growth_per_s, .. } => Some(growth_per_s),
        }
    }
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

fn judge(queues: &[Queue]) -> (f64, State) {
    let load = queues.iter().map(|queue| queue.load()).fold(0.0, f64::max);
    if load < 1.0 {
        return (load, State::Stable);
    }
    let growth = |queue: &Queue| (queue.rate_per_s - 1.0 / queue.busy_s).max(0.0);
    let growth_per_s = queues.iter().filter(|queue| queue.busy_s > 0.0).map(growth).sum();
    (load, State::Overloaded { growth_per_s, delay_growth_ms_per_s: (load - 1.0) * 1000.0 })
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModeSummary {
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

impl ModeSummary {
    /// The figures of a mode with these requests offered and served. Reorders the latencies.
    pub(super) fn of(
        mode: Mode,
        [offered, served]: [u64; 2],
        latencies_s: &mut [f64],
        queues: &[Queue],
    ) -> Self {
        let (load, state) = judge(queues);
        let found = percentiles(latencies_s, [50.0, 99.0]);
        let mean_s = mean(latencies_s).filter(|_| state == State::Stable);
        Self {
            mode,
            served,
            served_percent: (offered > 0).then(|| 100.0 * served as f64 / offered as f64),
            p50_ms: found.map(|[p50_s, _]| p50_s * 1000.0),
            p99_ms: found.map(|[_, p99_s]| p99_s * 1000.0),
            mean_ms: mean_s.map(|mean_s| mean_s * 1000.0),
            load,
            state,
        }
    }
}

/// Figures of a scenario in each mode. A prediction, not a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
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
            Mode::Mig => reference::mig(scenario, arrivals, sink),
            Mode::Mps => reference::mps(scenario, arrivals, sink),
            Mode::TimeSlice | Mode::Hami => reference::time_slice(scenario, arrivals, sink),
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
        let queues = self.queues(scenario);
        let served = self.latencies_s.len() as u64;
        ModeSummary::of(self.mode, [offered, served], &mut self.latencies_s, &queues)
    }
}
