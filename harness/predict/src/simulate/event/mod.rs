//! The discrete-event model, with refinements that the reference model lacks.
//!
//! options -> traffic (requests with their own service times) and shares (limits of each tenant)
//! -> a discipline (fifo, slicing, sharing), which computes the end of each request -> measure.
//! Every request runs to its end, so no latency is truncated. Requests of the warm-up do not count.
//! Each tenant has its own streams for arrivals and service times: two scenarios under one seed
//! share their random numbers.

pub mod options;
pub mod slicing;

use options::ArrivalTimes;
use slicing::Width;

use super::scenario::Scenario;
use super::summary::{Mode, Prediction};
use crate::rng::FastRng;
use crate::simulate::summary::{ModeSummary, Queue};

pub use options::EventOptions;

/// The modes of the discrete-event model, in the printed order.
pub const MODES: [Mode; 4] = [Mode::Mig, Mode::Mps, Mode::TimeSlice, Mode::Hami];

pub fn predict(scenario: &Scenario, options: &EventOptions, replication: u64) -> Prediction {
    let requests = requests(scenario, options, replication);
    let modes = MODES.map(|mode| {
        let ends_s = ends(scenario, options, mode, &requests);
        summary(scenario, options, mode, &requests, &ends_s)
    });
    Prediction { offered: requests.len() as u64, modes: modes.into() }
}

/// The end of each request under a mode.
pub fn ends(
    scenario: &Scenario,
    options: &EventOptions,
    mode: Mode,
    requests: &[Request],
) -> Vec<f64> {
    let tenants = scenario.tenants as usize;
    match mode {
        Mode::Mig => slices(requests, &slice_speeds(options, scenario)),
        Mode::Mps => slicing::run_shared(requests, &widths(options, scenario), scenario),
        Mode::TimeSlice => match options.quantum_ms {
            None => one_queue(requests, scenario.switch_ms / 1000.0),
            Some(quantum_ms) => {
                let time_slice = slicing::TimeSlice::new(quantum_ms, scenario.switch_ms);
                slicing::run_sliced(requests, tenants, time_slice, None)
            }
        },
        Mode::Hami => {
            let quantum_ms = options.quantum_ms.unwrap_or(f64::INFINITY);
            let time_slice = slicing::TimeSlice::new(quantum_ms, scenario.switch_ms);
            slicing::run_sliced(requests, tenants, time_slice, Some(buckets(options, scenario)))
        }
    }
}

// First come, first served: one server per tenant, or one for all with a cost per change.

/// One server per tenant, each with its own speed: MIG instances of any size.
pub fn slices(requests: &[Request], speeds: &[f64]) -> Vec<f64> {
    let mut free_s = vec![0.0_f64; speeds.len()];
    let end = |request: &Request| {
        let free_s = &mut free_s[request.tenant];
        *free_s = request.arrival_s.max(*free_s) + request.work_s / speeds[request.tenant];
        *free_s
    };
    requests.iter().map(end).collect()
}

/// One server for all tenants, with a cost for each change of tenant.
pub fn one_queue(requests: &[Request], switch_s: f64) -> Vec<f64> {
    let mut free_s = 0.0_f64;
    let mut last = requests.first().map_or(0, |request| request.tenant);
    let end = |request: &Request| {
        let cost_s = if request.tenant == last { 0.0 } else { switch_s };
        last = request.tenant;
        free_s = request.arrival_s.max(free_s) + cost_s + request.work_s;
        free_s
    };
    requests.iter().map(end).collect()
}

// Figures of one discrete-event run: latencies of the requests after the warm-up.

fn summary(
    scenario: &Scenario,
    options: &EventOptions,
    mode: Mode,
    requests: &[Request],
    ends_s: &[f64],
) -> ModeSummary {
    let offered = requests.len() as u64;
    let served = ends_s.iter().filter(|end_s| **end_s < scenario.duration_s).count() as u64;
    let pairs = requests.iter().zip(ends_s);
    let settled = pairs.filter(|(request, _)| request.arrival_s >= options.warmup_s);
    let mut latencies_s: Vec<f64> =
        settled.map(|(request, end_s)| end_s - request.arrival_s).collect();
    let queues = queues(scenario, mode, requests, ends_s);
    ModeSummary::of(mode, [offered, served], &mut latencies_s, &queues)
}

/// Arrival rate of each queue, and its busy time per finished request.
fn queues(scenario: &Scenario, mode: Mode, requests: &[Request], ends_s: &[f64]) -> Vec<Queue> {
    let count = scenario.tenants as usize;
    let each = || (0..count).map(Some).collect::<Vec<_>>();
    let tenants = match mode {
        Mode::Mig | Mode::Mps => each(),
        Mode::TimeSlice => vec![None],
        // A tenant without tokens waits, even for a free device.
        Mode::Hami => each().into_iter().chain([None]).collect(),
    };
    tenants.into_iter().map(|tenant| queue(scenario.duration_s, tenant, requests, ends_s)).collect()
}

fn queue(duration_s: f64, tenant: Option<usize>, requests: &[Request], ends_s: &[f64]) -> Queue {
    let (mut arrived, mut ended, mut busy_s, mut covered_s) = (0_u64, 0_u64, 0.0_f64, 0.0_f64);
    for (request, end_s) in requests.iter().zip(ends_s) {
        if tenant.is_some_and(|tenant| tenant != request.tenant) {
            continue;
        }
        arrived += 1;
        ended += u64::from(*end_s < duration_s);
        let until_s = end_s.min(duration_s);
        busy_s += (until_s - request.arrival_s.max(covered_s)).max(0.0);
        covered_s = covered_s.max(until_s);
    }
    let rate_per_s = arrived as f64 / duration_s;
    Queue { rate_per_s, busy_s: if arrived == 0 { 0.0 } else { busy_s / ended.max(1) as f64 } }
}

// Limits of each tenant in the units of the disciplines.

/// Speed of each tenant's MIG instance, relative to the whole device.
pub fn slice_speeds(options: &EventOptions, scenario: &Scenario) -> Vec<f64> {
    let of_layout = layout_speeds(options);
    let equal = 1.0 / scenario.slice_service_s(1.0);
    (0..scenario.tenants as usize)
        .map(|tenant| of_layout.get(tenant).copied().unwrap_or(equal))
        .collect()
}

fn layout_speeds(options: &EventOptions) -> Vec<f64> {
    let Ok(table) = options.mig_table() else { return Vec::new() };
    let speed = |name: &String| table.profile(name).ok().and_then(|p| table.speed(p));
    options.mig.iter().filter_map(speed).collect()
}

/// MPS: SMs that a request of each tenant requests and gets.
pub fn widths(options: &EventOptions, scenario: &Scenario) -> Vec<Width> {
    let equal = options.width.unwrap_or(1.0 / f64::from(scenario.tenants));
    let of_tenant = |index| {
        let change = options.tenant.iter().find(|change| change.index == index);
        let percent = change.and_then(|c| c.mps_percent).unwrap_or(options.mps_percent);
        let width = change.and_then(|c| c.width).unwrap_or(equal);
        Width { wanted: width, granted: width.min(percent / 100.0) }
    };
    (0..scenario.tenants).map(of_tenant).collect()
}

/// HAMi: the token bucket of each tenant.
pub fn buckets(options: &EventOptions, scenario: &Scenario) -> Vec<Bucket> {
    let equal = options.hami_percent.unwrap_or(100.0 / f64::from(scenario.tenants));
    let of_tenant = |index| {
        let change = options.tenant.iter().find(|change| change.index == index);
        let percent = change.and_then(|c| c.hami_percent).unwrap_or(equal);
        let refill_s = options.hami_refill_ms / 1000.0;
        let added_s = refill_s * percent / 100.0;
        let max_s = options.hami_bucket_ms.map_or(added_s, |ms| ms / 1000.0);
        Bucket { refill_s, added_s, max_s }
    };
    (0..scenario.tenants).map(of_tenant).collect()
}

// HAMi's token buckets: a tenant launches while its tokens are not below zero.

/// One tenant's tokens, counted in seconds of the whole device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    pub refill_s: f64,
    pub added_s: f64,
    pub max_s: f64,
}

/// The tenants that may launch: all, or those with tokens.
struct Gate {
    buckets: Vec<Bucket>,
    tokens_s: Vec<f64>,
    refills: f64,
}

impl Gate {
    fn new(buckets: Option<Vec<Bucket>>) -> Self {
        let buckets = buckets.unwrap_or_default();
        let tokens_s = buckets.iter().map(|bucket| bucket.max_s).collect();
        Self { buckets, tokens_s, refills: 0.0 }
    }

    fn is_open(&self, tenant: usize) -> bool {
        self.tokens_s.get(tenant).is_none_or(|tokens_s| *tokens_s >= 0.0)
    }

    fn launch(&mut self, tenant: usize, work_s: f64) {
        if let Some(tokens_s) = self.tokens_s.get_mut(tenant) {
            *tokens_s -= work_s;
        }
    }

    fn next_refill_s(&self) -> f64 {
        self.buckets.first().map_or(0.0, |bucket| (self.refills + 1.0) * bucket.refill_s)
    }

    fn refill(&mut self, now_s: f64) {
        let Some(refill_s) = self.buckets.first().map(|bucket| bucket.refill_s) else { return };
        // `next_refill_s` has the same product, so the comparison is exact.
        let mut passed = 0.0;
        while (self.refills + passed + 1.0) * refill_s <= now_s {
            passed += 1.0;
        }
        self.refills += passed;
        for (tokens_s, bucket) in self.tokens_s.iter_mut().zip(&self.buckets) {
            *tokens_s = (*tokens_s + passed * bucket.added_s).min(bucket.max_s);
        }
    }
}

// The requests of a replication: arrival time, tenant and work of each.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    pub arrival_s: f64,
    /// Service time on the whole device.
    pub work_s: f64,
    pub tenant: usize,
}

/// Streams of each tenant: gaps, bursts, work.
const STREAMS: u64 = 3;

/// The requests of a replication within the duration, in order of time, then of tenant.
pub fn requests(scenario: &Scenario, options: &EventOptions, replication: u64) -> Vec<Request> {
    let mut all = Vec::new();
    for (tenant, load) in scenario.loads().into_iter().enumerate() {
        let stream = |number: u64| {
            FastRng::stream(scenario.seed, replication, tenant as u64 * STREAMS + number)
        };
        let arrivals = ArrivalTimes::new(options.arrivals, load.mean_gap_s, stream(0), stream(1));
        let mut work = stream(2);
        let within = arrivals.take_while(|arrival_s| *arrival_s < scenario.duration_s);
        all.extend(within.map(|arrival_s| Request {
            arrival_s,
            work_s: load.service_s * options.service.draw(&mut work),
            tenant,
        }));
    }
    // The sort is stable: equal times stay in tenant order.
    all.sort_by(|a, b| a.arrival_s.total_cmp(&b.arrival_s));
    all
}
