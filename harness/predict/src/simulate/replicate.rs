//! Replications of a scenario and their t intervals; an overloaded mode has none.

use super::event;
use super::scenario::Scenario;
use super::summary::{Mode, ModeSummary, Prediction, State, predict_seed};
use crate::error::PredictError;
use crate::parallel;
use gpubench_stats::{Confidence, Effect};
use serde::Serialize;
use std::num::NonZeroUsize;

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
    /// The mean.
    pub value: f64,
    /// Lower bound.
    pub lo: f64,
    /// Upper bound.
    pub hi: f64,
    /// Number of replications.
    pub n: u32,
}

/// Figures of one mode over all replications.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicatedMode {
    /// The mode.
    pub mode: Mode,
    /// Median latency; `None` if a replication was overloaded or there was only one.
    pub p50_ms: Option<Interval>,
    /// 99th percentile, as for the median.
    pub p99_ms: Option<Interval>,
    /// Mean latency, as for the median.
    pub mean_ms: Option<Interval>,
    /// Share of served requests, as for the median.
    pub served_percent: Option<Interval>,
    /// Mean load of the busiest queue.
    pub load: f64,
    /// Replications with overload.
    pub overloaded: u32,
    /// Mean growth of the queues in these replications, in requests per second.
    pub growth_per_s: Option<f64>,
}

/// Coverage of intervals.
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
    let growths: Vec<f64> = rows.iter().filter_map(|row| growth_per_s(row.state)).collect();
    let interval = |figure: fn(&ModeSummary) -> Option<f64>| {
        let values: Option<Vec<f64>> = rows.iter().map(|row| figure(row)).collect();
        let values = values.filter(|_| growths.is_empty())?;
        // Fewer than two replications have no interval.
        let found = Effect::of_mean(&values).and_then(|effect| effect.interval(confidence)).ok()?;
        Some(Interval { value: found.value, lo: found.lo, hi: found.hi, n: found.n })
    };
    let loads: Vec<f64> = rows.iter().map(|row| row.load).collect();
    ReplicatedMode {
        mode: rows[0].mode,
        p50_ms: interval(|row| row.p50_ms),
        p99_ms: interval(|row| row.p99_ms),
        mean_ms: interval(|row| row.mean_ms),
        served_percent: interval(|row| row.served_percent),
        load: crate::percentile::mean(&loads).unwrap_or(0.0),
        overloaded: growths.len() as u32,
        growth_per_s: crate::percentile::mean(&growths),
    }
}

fn growth_per_s(state: State) -> Option<f64> {
    match state {
        State::Stable => None,
        State::Overloaded { growth_per_s, .. } => Some(growth_per_s),
    }
}
