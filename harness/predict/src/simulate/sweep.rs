//! Latency against load: the same scenario at several loads, and where each mode's knee is.

use super::replicate::{Intervals, ReplicatedMode, one, together};
use super::scenario::Scenario;
use super::summary::{Mode, Prediction};
use crate::error::{POSITIVE, PredictError};
use crate::parallel;
use serde::Serialize;
use std::num::NonZeroUsize;

const MAX_POINTS: usize = 1000;

/// The loads of a plot without its own: 0.05 to 1.2.
pub fn default_loads() -> Vec<f64> {
    (1..=24).map(|step| f64::from(step) * 0.05).collect()
}

/// One load of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Work that arrives per second, in seconds of the whole device.
    pub device_load: f64,
    /// Requests of all tenants per second.
    pub offered_per_s: f64,
    /// What the modes do.
    pub modes: Vec<ReplicatedMode>,
}

/// Where a mode's latency begins to outrun its throughput.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knee {
    /// Which mode.
    pub mode: Mode,
    /// The device load of the point.
    pub device_load: f64,
    /// 99th percentile there.
    pub p99_ms: f64,
}

/// A whole sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// How its intervals are formed.
    pub intervals: Intervals,
    /// The loads, in rising order.
    pub points: Vec<Point>,
    /// The knees of the modes that have one.
    pub knees: Vec<Knee>,
}

/// What a sweep is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlan {
    /// Device loads.
    pub loads: Vec<f64>,
    /// Replications at each load; two at least, for an interval.
    pub replications: u32,
    /// What all intervals cover together.
    pub coverage: f64,
}

/// Simulates a scenario at several loads on several threads. Equal replication numbers share their
/// random numbers over all loads, so that the curve is smoother than its points are certain.
pub fn sweep(
    scenario: &Scenario,
    plan: &SweepPlan,
    threads: NonZeroUsize,
) -> Result<Sweep, PredictError> {
    let scenarios = scenarios(scenario, plan)?;
    let jobs: Vec<(usize, u64)> = (0..scenarios.len())
        .flat_map(|place| (0..u64::from(plan.replications)).map(move |number| (place, number)))
        .collect();
    let runs = parallel::map(&jobs, threads, |(place, number)| {
        one(&scenarios[*place], *number)
    });
    // Two percentiles of each mode at each load are read off the plot together.
    let modes = runs.first().map_or(0, |run| run.modes.len());
    let family = (scenarios.len() * modes * 2) as u32;
    let intervals = Intervals {
        coverage: plan.coverage,
        family,
    };
    let of_point = |(scenario, runs): (&Scenario, &[Prediction])| {
        Ok(Point {
            device_load: scenario.device_load(),
            offered_per_s: scenario.offered_per_s(),
            modes: together(runs, intervals)?,
        })
    };
    let runs = runs.chunks(plan.replications as usize);
    let points: Result<Vec<Point>, PredictError> =
        scenarios.iter().zip(runs).map(of_point).collect();
    let points = points?;
    let knees = knees(&points);
    Ok(Sweep {
        intervals,
        points,
        knees,
    })
}

fn scenarios(scenario: &Scenario, plan: &SweepPlan) -> Result<Vec<Scenario>, PredictError> {
    if plan.loads.is_empty() || plan.loads.len() > MAX_POINTS {
        let accepted = format!("1 to {MAX_POINTS} loads");
        return Err(PredictError::value("loads", plan.loads.len(), &accepted));
    }
    if plan.replications < 2 {
        let accepted = "at least 2, because one run has no interval";
        return Err(PredictError::value(
            "replications",
            plan.replications,
            accepted,
        ));
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

/// The knee of a latency curve is the load of greatest power, throughput over latency: there a ray
/// from the origin touches the curve (Kleinrock, "Power and deterministic rules of thumb for
/// probabilistic problems in computer communications", ICC 1979). Latency is the p99 here.
fn knees(points: &[Point]) -> Vec<Knee> {
    let modes = points.first().map_or(0, |point| point.modes.len());
    let knee = |place: usize| {
        let settled = points.iter().filter_map(|point| {
            let row = &point.modes[place];
            let p99_ms = row.p99_ms?.value;
            Some(Knee {
                mode: row.mode,
                device_load: point.device_load,
                p99_ms,
            })
        });
        let settled: Vec<Knee> = settled.collect();
        let power = |knee: &&Knee| knee.device_load / knee.p99_ms;
        let best = settled
            .iter()
            .max_by(|a, b| power(a).total_cmp(&power(b)))?;
        // At either end of the swept loads the greatest power may lie outside of them.
        let is_inside = settled.first() != Some(best)
            && (settled.last() != Some(best) || settled.len() < points.len());
        is_inside.then(|| best.clone())
    };
    (0..modes).filter_map(knee).collect()
}
