//! Everything that one call of `simulate` found, in the form in which it is printed as JSON.

use super::hostile::{HostileMode, exercise};
use super::replicate::{Intervals, ReplicatedMode, replications, together};
use super::scenario::Scenario;
use super::summary::{ModeSummary, Prediction};
use super::sweep::{Sweep, SweepPlan, sweep};
use crate::error::PredictError;
use serde::Serialize;
use std::num::NonZeroUsize;

/// What `simulate` is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Tenants, load and device.
    pub scenario: Scenario,
    /// Replications; one gives no interval.
    pub replications: u32,
    /// What intervals cover.
    pub coverage: f64,
    /// Device loads to sweep; none for no sweep.
    pub loads: Vec<f64>,
    /// Threads for replications and sweeps.
    pub threads: NonZeroUsize,
}

/// What `simulate` found: predictions of a model, which it says of itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Always `prediction`.
    pub kind: &'static str,
    /// `reference` or `event`.
    pub model: &'static str,
    /// What was simulated.
    pub scenario: Scenario,
    /// Requests that arrived in the first replication.
    pub offered: u64,
    /// The modes in the first replication.
    pub modes: Vec<ModeSummary>,
    /// All replications together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicated: Option<Replicated>,
    /// What the hostile tenant costs its neighbours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostile: Option<Vec<HostileMode>>,
    /// Latency against load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

/// All replications together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replicated {
    /// How many there were.
    pub replications: u32,
    /// How the intervals are formed.
    pub intervals: Intervals,
    /// The modes.
    pub modes: Vec<ReplicatedMode>,
}

/// Simulates what is asked for.
pub fn report(request: &Request) -> Result<Report, PredictError> {
    let scenario = &request.scenario;
    scenario.check()?;
    let count = request.replications;
    if count == 0 {
        return Err(PredictError::value(
            "replications",
            count,
            "a whole number of at least 1",
        ));
    }
    let intervals = Intervals {
        coverage: request.coverage,
        family: 1,
    };
    // Asked of one run as well, which has no interval: a wrong value is never passed over.
    intervals.confidence()?;
    let runs = replications(scenario, count, request.threads);
    let replicated = if count > 1 {
        Some(Replicated {
            replications: count,
            intervals,
            modes: together(&runs, intervals)?,
        })
    } else {
        None
    };
    let swept = if request.loads.is_empty() {
        None
    } else {
        let replications = count.max(2);
        let loads = request.loads.clone();
        let plan = SweepPlan {
            loads,
            replications,
            coverage: request.coverage,
        };
        Some(sweep(scenario, &plan, request.threads)?)
    };
    let Prediction { offered, modes } = runs.into_iter().next().unwrap_or(Prediction {
        offered: 0,
        modes: Vec::new(),
    });
    Ok(Report {
        kind: "prediction",
        model: if scenario.event.is_some() {
            "event"
        } else {
            "reference"
        },
        scenario: scenario.clone(),
        offered,
        modes,
        replicated,
        hostile: scenario
            .hostile
            .as_ref()
            .map(|hostile| exercise(scenario, hostile)),
        sweep: swept,
    })
}
