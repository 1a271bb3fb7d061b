//! The discrete-event model, with refinements that the reference model lacks.
//!
//! options -> traffic (requests with their own service times) and shares (limits of each tenant)
//! -> a discipline (fifo, slicing, sharing), which computes the end of each request -> measure.
//! Every request runs to its end, so no latency is truncated. Requests of the warm-up do not count.
//! Each tenant has its own streams for arrivals and service times: two scenarios under one seed
//! share their random numbers.

pub mod fifo;
pub mod measure;
pub mod options;
pub mod shares;
pub mod sharing;
pub mod slicing;
pub mod token_bucket;
pub mod traffic;
pub mod variates;

pub use options::EventOptions;

use super::scenario::Scenario;
use super::summary::{Mode, Prediction};
use traffic::Request;

/// The modes of the discrete-event model, in the printed order.
pub const MODES: [Mode; 4] = [Mode::Mig, Mode::Mps, Mode::TimeSlice, Mode::Hami];

/// Simulates one replication of a scenario in each mode.
pub fn predict(scenario: &Scenario, options: &EventOptions, replication: u64) -> Prediction {
    let requests = traffic::requests(scenario, options, replication);
    let modes = MODES.map(|mode| {
        let ends_s = ends(scenario, options, mode, &requests);
        measure::summary(scenario, options, mode, &requests, &ends_s)
    });
    Prediction { offered: requests.len() as u64, modes: modes.into() }
}

/// The end of each request under a mode.
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
                let time_slice = slicing::TimeSlice::new(quantum_ms, scenario.switch_ms);
                slicing::run(requests, tenants, time_slice, None)
            }
        },
        Mode::Hami => {
            let quantum_ms = options.quantum_ms.unwrap_or(f64::INFINITY);
            let time_slice = slicing::TimeSlice::new(quantum_ms, scenario.switch_ms);
            slicing::run(requests, tenants, time_slice, Some(shares::buckets(options, scenario)))
        }
    }
}
