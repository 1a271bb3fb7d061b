//! The rotation of expensive measurements over the runs of a profile, and the cells with open
//! loops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::within;
use super::error::Fault;
use super::{Profile, Span};

/// Most runs of a cycle.
const RUNS_MAX: u32 = 31;

/// `[rotation]`: what one run leaves to the others of its cycle. `--rotation N` selects the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotationOptions {
    /// Runs of a cycle, 1 to 31. In each run one pair in this many has the doses below 1; 1 gives
    /// every pair every dose in each run.
    pub runs: u32,
    /// Service times that runs have in turn in place of `service`; empty for `service` in each run.
    pub services: Vec<Span>,
}

/// Which cells have an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpenLoops {
    /// Every cell, as far as time allows.
    All,
    /// The cells that jitter is scored from.
    Jitter,
}

impl Profile {
    /// The profile with the service time of its run.
    #[must_use]
    pub fn of_run(&self) -> Self {
        let services = &self.rotation.services;
        let index = self.run as usize % services.len().max(1);
        Self { service: services.get(index).copied().unwrap_or(self.service), ..self.clone() }
    }
}

/// Reports the first rule that the rotation or the open loops break.
pub(super) fn check(profile: &Profile) -> Result<(), Fault> {
    within("rotation.runs", profile.rotation.runs, 1, RUNS_MAX)?;
    if profile.open_loops == OpenLoops::Jitter && profile.slo.ns > 0 {
        let fault =
            Fault::at("open_loops", "a promised latency needs the open loop of every cell", "all");
        return Err(fault.bound_by("slo"));
    }
    Ok(())
}

/// A rule that a service time of the rotation breaks, at that time and not at the key whose floor
/// follows from it.
pub(super) fn conflict(service: Span, fault: &Fault) -> Fault {
    const KEY: &str = "rotation.services";
    let (key, accepted) = (fault.dotted(), &fault.accepted);
    if key == "service" {
        return Fault::at(KEY, &*fault.problem, &**accepted);
    }
    let problem = format!("{service} is too long for `{key}`");
    Fault::at(KEY, problem, format!("a shorter one, or for {key}: {accepted}")).bound_by(&key)
}

/// Every profile of a cycle with another service time, with the index of that time.
pub(super) fn services(profile: &Profile) -> impl Iterator<Item = (usize, Profile)> {
    let services = profile.rotation.services.iter().enumerate();
    services.map(|(index, &service)| {
        let of_run = Profile { service, ..profile.clone() };
        (index, of_run)
    })
}
