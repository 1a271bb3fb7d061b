//! The reference model: three queues over the same arrivals. It is fixed and gets no refinements.
//!
//! MIG has a queue per tenant on a slower device. MPS has a queue per tenant; each tenant that is
//! busy at an arrival, the own one included, lengthens the service time. Time-slicing has one
//! queue, with a cost for each change of tenant. The order of floating-point operations is part of
//! the model.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use gpubench_stats::{Confidence, Effect};
use serde::Serialize;

use super::arrivals::Arrivals;
use super::event;
use super::scenario::Scenario;
use super::summary::{Mode, ModeSummary, Prediction, predict_seed};
use crate::error::PredictError;
use crate::parallel;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    pub tenant: usize,
    /// From arrival to end.
    pub latency_s: f64,
    /// Time in service, the change of tenant included.
    pub busy_s: f64,
    pub end_s: f64,
}

/// MIG: each tenant on its own instance.
pub fn mig(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let service_s: Vec<f64> =
        loads.iter().map(|load| scenario.slice_service_s(load.service_s)).collect();
    let mut free_s = vec![0.0_f64; loads.len()];
    for (now_s, tenant) in arrivals.iter() {
        let start_s = later(now_s, free_s[tenant]);
        let end_s = start_s + service_s[tenant];
        free_s[tenant] = end_s;
        let latency_s = start_s - now_s + service_s[tenant];
        sink(Service { tenant, latency_s, busy_s: service_s[tenant], end_s });
    }
}

/// MPS: tenants side by side, slowed by the tenants that are busy at the arrival of a request.
pub fn mps(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let hostile = scenario.hostile.as_ref();
    let hostile = hostile.map(|hostile| (hostile.tenant as usize, hostile.contention));
    // Factors by number of busy tenants, from a table: each request depends on the end of the one
    // before, so every operation in between adds to the run time.
    let stretches = |contention: f64| -> Vec<f64> {
        (0..=loads.len()).map(|concurrent| 1.0 + contention * concurrent as f64).collect()
    };
    let beside_normal = stretches(scenario.contention);
    let beside_hostile = hostile.map(|(index, contention)| (index, stretches(contention)));
    let last_end_bits: Vec<AtomicU64> = loads.iter().map(|_| AtomicU64::new(0)).collect();
    let last_end_s = |tenant: usize| f64::from_bits(last_end_bits[tenant].load(Relaxed));
    for (now_s, tenant) in arrivals.iter() {
        let concurrent = busy_after(&last_end_bits, now_s);
        let stretch = match &beside_hostile {
            Some((index, stretch)) if *index != tenant && last_end_s(*index) > now_s => stretch,
            _ => &beside_normal,
        };
        let service_s = loads[tenant].service_s * stretch[concurrent];
        let start_s = later(now_s, last_end_s(tenant));
        let end_s = start_s + service_s;
        last_end_bits[tenant].store(end_s.to_bits(), Relaxed);
        let latency_s = start_s - now_s + service_s;
        sink(Service { tenant, latency_s, busy_s: service_s, end_s });
    }
}

/// The later of two times, in one instruction; `f64::max` has an additional check for NaN.
#[inline]
fn later(a_s: f64, b_s: f64) -> f64 {
    if b_s > a_s { b_s } else { a_s }
}

/// The number of ends after a time. The loads are atomic to prevent vector loads: a vector load
/// right after the narrower store of an end stalls, which costs more than the count.
#[inline]
fn busy_after(end_bits: &[AtomicU64], now_s: f64) -> usize {
    // Bits of non-negative floats are ordered like the floats.
    let now_bits = now_s.to_bits();
    end_bits.iter().map(|end_bits| usize::from(end_bits.load(Relaxed) > now_bits)).sum()
}

/// Time-slicing: one queue for all tenants, with a cost for each change of tenant.
pub fn time_slice(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let switch_s = scenario.switch_ms / 1000.0;
    let mut free_s = 0.0_f64;
    let mut last = arrivals.iter().next().map_or(0, |(_, tenant)| tenant);
    for (now_s, tenant) in arrivals.iter() {
        let service_s = loads[tenant].service_s;
        // A select instead of a branch; adding zero changes no bit.
        let is_change = tenant != last;
        let paid_s = std::hint::select_unpredictable(is_change, switch_s, 0.0);
        let start_s = later(now_s, free_s) + paid_s;
        last = tenant;
        free_s = start_s + service_s;
        let latency_s = start_s - now_s + service_s;
        sink(Service { tenant, latency_s, busy_s: paid_s + service_s, end_s: free_s });
    }
}

// Replications of a scenario and their t intervals; an overloaded mode has none.

/// One replication of the discrete-event model if the scenario selects it, else of the reference
/// model, with consecutive seeds.
pub fn one(scenario: &Scenario, replication: u64) -> Prediction {
    match &scenario.event {
        Some(options) => event::predict(scenario, options, replication),
        None => predict_seed(scenario, scenario.seed.wrapping_add(replication)),
    }
}

/// A mean over replications with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    pub lo: f64,
    pub hi: f64,
    pub n: u32,
}

/// Figures of one mode over all replications.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicatedMode {
    pub mode: Mode,
    /// Median latency; `None` if a replication was overloaded or there was only one.
    pub p50_ms: Option<Interval>,
    /// 99th percentile, as for the median.
    pub p99_ms: Option<Interval>,
    pub mean_ms: Option<Interval>,
    /// Share of served requests, as for the median.
    pub served_percent: Option<Interval>,
    /// Mean load of the busiest queue.
    pub load: f64,
    pub overloaded: u32,
    /// Mean growth of the queues in these replications, in requests per second.
    pub growth_per_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Intervals {
    /// Coverage of each interval; in a sweep, of all intervals together.
    pub coverage: f64,
    /// Number of intervals with simultaneous coverage.
    pub family: u32,
}

impl Intervals {
    /// Confidence of each interval for the simultaneous coverage.
    pub(super) fn confidence(self) -> Result<Confidence, PredictError> {
        Confidence::simultaneous(1.0 - self.coverage, self.family).map_err(|_| {
            PredictError::value("confidence", self.coverage, "a number above 0 and below 1")
        })
    }
}

/// Runs replications on several threads. The result does not depend on the number of threads.
pub fn replications(scenario: &Scenario, count: u32, threads: NonZeroUsize) -> Vec<Prediction> {
    let numbers: Vec<u64> = (0..u64::from(count)).collect();
    parallel::map(&numbers, threads, |number| one(scenario, *number))
}

/// Figures over all replications, by mode.
pub fn summarize(
    runs: &[Prediction],
    intervals: Intervals,
) -> Result<Vec<ReplicatedMode>, PredictError> {
    let confidence = intervals.confidence()?;
    let modes = runs.first().map_or(0, |run| run.modes.len());
    let of_mode = |mode: usize| {
        let rows: Vec<&ModeSummary> = runs.iter().map(|run| &run.modes[mode]).collect();
        summarize_mode(&rows, confidence)
    };
    Ok((0..modes).map(of_mode).collect())
}

fn summarize_mode(rows: &[&ModeSummary], confidence: Confidence) -> ReplicatedMode {
    let growths: Vec<f64> = rows.iter().filter_map(|row| row.state.growth_per_s()).collect();
    // No latency is below 0 and no more than all requests are served: an interval without the
    // impossible values covers as often.
    let interval = |figure: fn(&ModeSummary) -> Option<f64>, most: f64| {
        let values: Option<Vec<f64>> = rows.iter().map(|row| figure(row)).collect();
        let values = values.filter(|_| growths.is_empty())?;
        // Fewer than two replications have no interval.
        let found = Effect::of_mean(&values).and_then(|effect| effect.interval(confidence)).ok()?;
        Some(Interval {
            value: found.value,
            lo: found.lo.max(0.0),
            hi: found.hi.min(most),
            n: found.n,
        })
    };
    let loads: Vec<f64> = rows.iter().map(|row| row.load).collect();
    ReplicatedMode {
        mode: rows[0].mode,
        p50_ms: interval(|row| row.p50_ms, f64::INFINITY),
        p99_ms: interval(|row| row.p99_ms, f64::INFINITY),
        mean_ms: interval(|row| row.mean_ms, f64::INFINITY),
        served_percent: interval(|row| row.served_percent, 100.0),
        load: crate::parallel::mean(&loads).unwrap_or(0.0),
        overloaded: growths.len() as u32,
        growth_per_s: crate::parallel::mean(&growths),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::summary::State;

    #[test]
    fn an_interval_holds_no_impossible_value() {
        let run = |ms: f64, percent: f64| Prediction {
            offered: 1,
            modes: vec![ModeSummary {
                mode: Mode::Mps,
                served: 1,
                served_percent: Some(percent),
                p50_ms: Some(ms),
                p99_ms: Some(ms),
                mean_ms: Some(ms),
                load: 0.5,
                state: State::Stable,
            }],
        };
        let runs = [run(0.1, 100.0), run(9.0, 90.0), run(0.2, 100.0)];
        let intervals = Intervals { coverage: 0.95, family: 1 };
        let found = summarize(&runs, intervals).expect("figures");
        let of = |interval: Option<Interval>| interval.map(|one| (one.lo, one.value < one.hi));
        for latency in [found[0].p50_ms, found[0].p99_ms, found[0].mean_ms] {
            assert_eq!(of(latency), Some((0.0, true)));
        }
        assert_eq!(found[0].served_percent.map(|one| one.hi), Some(100.0));
    }
}
