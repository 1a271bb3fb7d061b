//! The cost of a hostile tenant to its neighbours, compared with MIG.

use super::arrivals::arrivals;
use super::scenario::{Hostile, Scenario};
use super::summary::{Collected, Mode};
use crate::percentile::percentiles;
use serde::Serialize;

/// Latency of the other tenants in one mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostileMode {
    /// The mode.
    pub mode: Mode,
    /// 99th percentile while the hostile tenant behaves like the others.
    pub p99_without_ms: Option<f64>,
    /// 99th percentile beside the hostile tenant.
    pub p99_with_ms: Option<f64>,
    /// The difference.
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
