//! Latency against load: the same scenario at several loads, and the knee of each mode.

use super::limits;
use super::reference::{Intervals, ReplicatedMode, one, summarize};
use super::scenario::Scenario;
use super::summary::{Mode, Prediction};
use crate::error::{POSITIVE, PredictError};
use crate::parallel;
use serde::Serialize;
use std::num::NonZeroUsize;

const MAX_POINTS: usize = 1000;

/// Loads of a plot by default: 0.05 to 1.2.
pub fn default_loads() -> Vec<f64> {
    (1..=24).map(|step| f64::from(step) * 0.05).collect()
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Work that arrives per second, in seconds of the whole device.
    pub device_load: f64,
    /// Requests of all tenants per second.
    pub offered_per_s: f64,
    pub modes: Vec<ReplicatedMode>,
}

/// The load above which the latency of a mode grows faster than its throughput.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knee {
    pub mode: Mode,
    pub device_load: f64,
    /// 99th percentile at this load.
    pub p99_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    pub intervals: Intervals,
    /// The loads, in rising order.
    pub points: Vec<Point>,
    pub knees: Vec<Knee>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlan {
    pub loads: Vec<f64>,
    /// Replications at each load; at least 2, because one has no interval.
    pub replications: u32,
    pub coverage: f64,
}

/// Simulates a scenario at several loads on several threads. Replications with the same number use
/// the same random numbers at all loads, so the curve is smoother than its intervals suggest.
pub fn sweep(
    scenario: &Scenario,
    plan: &SweepPlan,
    threads: NonZeroUsize,
) -> Result<Sweep, PredictError> {
    let scenarios = checked(scenario, plan)?;
    // The runs at the highest load are the largest.
    let threads = scenarios.last().map_or(threads, |largest| limits::threads(largest, threads));
    let jobs: Vec<(usize, u64)> = (0..scenarios.len())
        .flat_map(|load| (0..u64::from(plan.replications)).map(move |number| (load, number)))
        .collect();
    let runs = parallel::map(&jobs, threads, |(load, number)| one(&scenarios[*load], *number));
    // The plot shows two percentiles of each mode at each load; their intervals hold together.
    let modes = runs.first().map_or(0, |run| run.modes.len());
    let family = (scenarios.len() * modes * 2) as u32;
    let intervals = Intervals { coverage: plan.coverage, family };
    let of_point = |(scenario, runs): (&Scenario, &[Prediction])| {
        Ok(Point {
            device_load: scenario.device_load(),
            offered_per_s: scenario.offered_per_s(),
            modes: summarize(runs, intervals)?,
        })
    };
    let runs = runs.chunks(plan.replications as usize);
    let points: Result<Vec<Point>, PredictError> =
        scenarios.iter().zip(runs).map(of_point).collect();
    let points = points?;
    let knees = knees(&points);
    Ok(Sweep { intervals, points, knees })
}

/// The scenario at each load, if all of them together are within the limits.
pub(super) fn checked(
    scenario: &Scenario,
    plan: &SweepPlan,
) -> Result<Vec<Scenario>, PredictError> {
    let scenarios = scenarios(scenario, plan)?;
    limits::check_runs(&scenarios, plan.replications)?;
    Ok(scenarios)
}

fn scenarios(scenario: &Scenario, plan: &SweepPlan) -> Result<Vec<Scenario>, PredictError> {
    if plan.loads.is_empty() || plan.loads.len() > MAX_POINTS {
        let accepted = format!("1 to {MAX_POINTS} loads");
        return Err(PredictError::value("loads", plan.loads.len(), &accepted));
    }
    if plan.replications < 2 {
        let accepted = "at least 2, because one run has no interval";
        return Err(PredictError::value("replications", plan.replications, accepted));
    }
    let mut loads = plan.loads.clone();
    loads.sort_by(f64::total_cmp);
    let at_load = |load: f64| {
        POSITIVE.check("loads", load)?;
        let scaled = scenario.at_device_load(load);
        scaled.check().map(|()| scaled)
    };
    loads.into_iter().map(at_load).collect()
}

/// The knee of a latency curve is the load with the largest power, throughput over latency; a ray
/// from the origin is tangent to the curve there (Kleinrock, "Power and deterministic rules of
/// thumb for probabilistic problems in computer communications", ICC 1979). Latency is the p99
/// here.
fn knees(points: &[Point]) -> Vec<Knee> {
    let modes = points.first().map_or(0, |point| point.modes.len());
    let knee = |mode: usize| {
        let settled = points.iter().filter_map(|point| {
            let row = &point.modes[mode];
            let p99_ms = row.p99_ms?.value;
            Some(Knee { mode: row.mode, device_load: point.device_load, p99_ms })
        });
        let settled: Vec<Knee> = settled.collect();
        let power = |knee: &&Knee| knee.device_load / knee.p99_ms;
        let best = settled.iter().max_by(|a, b| power(a).total_cmp(&power(b)))?;
        // At an end of the swept loads the largest power may lie outside them.
        let is_inside = settled.first() != Some(best)
            && (settled.last() != Some(best) || settled.len() < points.len());
        is_inside.then(|| best.clone())
    };
    (0..modes).filter_map(knee).collect()
}
