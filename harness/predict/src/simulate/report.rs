//! The result of one call of `simulate`, in the form of its JSON output.

use super::hostile::{HostileMode, cost_of_hostile};
use super::limits;
use super::replicate::{Intervals, ReplicatedMode, replications, summarize};
use super::scenario::Scenario;
use super::summary::{ModeSummary, Prediction};
use super::sweep::{Sweep, SweepPlan, checked, sweep};
use crate::error::PredictError;
use serde::Serialize;
use std::num::NonZeroUsize;

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
