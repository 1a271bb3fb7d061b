//! The discrete-event form: what the reference model leaves out.
//!
//! options -> traffic (requests with their own service times) and shares (what each tenant is
//! granted) -> a discipline (fifo, slicing, sharing) that says when each request ends -> measure.
//! Every request runs to its end, so nothing is truncated; requests of the warm-up count for
//! nothing. Arrivals and service times of every tenant come from streams of their own: two
//! scenarios under one seed share their random numbers.

pub mod fifo;
pub mod measure;
pub mod options;
pub mod shares;
pub mod sharing;
pub mod slicing;
pub mod traffic;
pub mod variates;

pub use options::EventOptions;

use super::scenario::Scenario;
use super::summary::{Mode, Prediction};
use traffic::Request;

/// The modes that the discrete-event form knows, in the order in which they are shown.
pub const MODES: [Mode; 4] = [Mode::Mig, Mode::Mps, Mode::TimeSlice, Mode::Hami];

/// Simulates one replication of a scenario in the modes of the discrete-event form.
pub fn predict(scenario: &Scenario, options: &EventOptions, replication: u64) -> Prediction {
    let requests = traffic::requests(scenario, options, replication);
    let modes = MODES.map(|mode| {
        let ends_s = ends(scenario, options, mode, &requests);
        measure::summary(scenario, options, mode, &requests, &ends_s)
    });
    Prediction {
        offered: requests.len() as u64,
        modes: modes.into(),
    }
}

/// When each request ends under a mode.
pub fn ends(
    scenario: &Scenario,
    options: &EventOptions,
    mode: Mode,
    requests: &[Request],
) -> Vec<f64> {
    let tenants = scenario.tenants as usize;
    match mode {
        Mode::Mig => fifo::slices(requests, &shares::slice_speeds(options, scenario)),
        Mode::Mps => sharing::run(requests, &shares::widths(options, scenario), scenario),
        Mode::TimeSlice => match options.quantum_ms {
            None => fifo::one_queue(requests, scenario.switch_ms / 1000.0),
            Some(quantum_ms) => {
                let turn = slicing::Turn::new(quantum_ms, scenario.switch_ms);
                slicing::run(requests, tenants, turn, None)
            }
        },
        Mode::Hami => {
            let quantum_ms = options.quantum_ms.unwrap_or(f64::INFINITY);
            let turn = slicing::Turn::new(quantum_ms, scenario.switch_ms);
            slicing::run(
                requests,
                tenants,
                turn,
                Some(shares::buckets(options, scenario)),
            )
        }
    }
}
