//! The exercise of the hostile tenant: what its neighbours pay, and what a wall would have saved.

use super::arrivals::arrivals;
use super::scenario::{Hostile, Scenario};
use super::summary::{Collected, Mode};
use crate::percentile::percentiles;
use serde::Serialize;

/// What the well-behaved tenants of one mode see.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostileMode {
    /// Which mode.
    pub mode: Mode,
    /// Their 99th percentile while the hostile tenant behaves as the others do.
    pub p99_without_ms: Option<f64>,
    /// Their 99th percentile beside it.
    pub p99_with_ms: Option<f64>,
    /// What it adds.
    pub added_ms: Option<f64>,
    /// What it adds here and does not add behind MIG's wall: the price of the missing wall.
    pub gap_to_mig_ms: Option<f64>,
}

/// Compares the well-behaved tenants with and without the hostile one, under one seed.
///
/// "Without" is the same scenario in which that tenant behaves; its own requests never count. All
/// tenants draw from one generator, so the neighbours' arrivals are other draws of the same law.
pub fn exercise(scenario: &Scenario, hostile: &Hostile) -> Vec<HostileMode> {
    let calm = Scenario {
        hostile: None,
        ..scenario.clone()
    };
    let stormy = Scenario {
        hostile: Some(hostile.clone()),
        ..scenario.clone()
    };
    let without = neighbours_p99_ms(&calm, hostile.tenant);
    let with = neighbours_p99_ms(&stormy, hostile.tenant);
    let added = |mode: usize| {
        with[mode]
            .zip(without[mode])
            .map(|(with, without)| with - without)
    };
    // MIG is the first mode of the reference model.
    let behind_the_wall = added(0);
    let of_mode = |(index, mode): (usize, Mode)| HostileMode {
        mode,
        p99_without_ms: without[index],
        p99_with_ms: with[index],
        added_ms: added(index),
        gap_to_mig_ms: added(index)
            .zip(behind_the_wall)
            .map(|(here, there)| here - there),
    };
    Mode::REFERENCE
        .into_iter()
        .enumerate()
        .map(of_mode)
        .collect()
}

fn neighbours_p99_ms(scenario: &Scenario, hostile: u32) -> [Option<f64>; 3] {
    let arrivals = arrivals(scenario, scenario.seed);
    Mode::REFERENCE.map(|mode| {
        let is_neighbour = |tenant| tenant != hostile as usize;
        let mut run = Collected::run(scenario, &arrivals, mode, Vec::new(), is_neighbour);
        percentiles(&mut run.latencies_s, [99.0]).map(|[p99_s]| p99_s * 1000.0)
    })
}
