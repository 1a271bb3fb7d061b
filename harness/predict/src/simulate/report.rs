//! The result of one call of `simulate`, in the form of its JSON output.

use std::num::NonZeroUsize;

use serde::Serialize;

use super::arrivals::arrivals;
use super::limits;
use super::reference::{Intervals, ReplicatedMode, replications, summarize};
use super::scenario::{Hostile, Scenario};
use super::summary::{Collected, Mode, ModeSummary, Prediction};
use super::sweep::{Sweep, SweepPlan, checked, sweep};
use crate::error::PredictError;
use crate::parallel::percentiles;

/// Input of `simulate`.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub scenario: Scenario,
    /// Replications; one gives no interval.
    pub replications: u32,
    pub coverage: f64,
    /// Device loads to sweep; empty for no sweep.
    pub loads: Vec<f64>,
    pub threads: NonZeroUsize,
}

/// Predictions of `simulate`, marked as such.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Always `prediction`.
    pub kind: &'static str,
    /// `reference` or `event`.
    pub model: &'static str,
    pub scenario: Scenario,
    /// Requests that arrived in the first replication.
    pub offered: u64,
    pub modes: Vec<ModeSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicated: Option<Replicated>,
    /// The cost of the hostile tenant to the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostile: Option<Vec<HostileMode>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

/// Figures over all replications.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replicated {
    pub replications: u32,
    pub intervals: Intervals,
    pub modes: Vec<ReplicatedMode>,
}

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
    pub mode: Mode,
    /// 99th percentile while the hostile tenant behaves like the others.
    pub p99_without_ms: Option<f64>,
    /// 99th percentile beside the hostile tenant.
    pub p99_with_ms: Option<f64>,
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
