//! The requests of a simulated open loop.

use crate::rng::{FastRng, Stream};
use crate::simulate::event::fifo;
use crate::simulate::event::traffic::Request;

/// Requests of the simulated open loop, many more than in a measurement.
pub(super) const REQUESTS: usize = 60_000;
/// Steps of one simulated loop: those of every measured record are far below it.
const STEPS_MAX: f64 = 2e8;

/// Whether the time between two requests has so few steps that the loop ends. The figures are those
/// of a record, which another person may have written.
pub(super) fn can_simulate(gap: f64, step: f64) -> bool {
    gap.is_finite() && step > 0.0 && gap / step * REQUESTS as f64 <= STEPS_MAX
}

/// One queue with a fixed service time.
pub(super) fn open_loop_ms(service_ms: f64, offered_per_s: f64, seed: u64) -> Vec<f64> {
    let requests = poisson(service_ms, offered_per_s, seed);
    let ends_s = fifo::one_queue(&requests, 0.0);
    latencies_ms(&requests, &ends_s)
}

/// Requests of one tenant at random instants.
pub(super) fn poisson(service_ms: f64, offered_per_s: f64, seed: u64) -> Vec<Request> {
    let mut stream = FastRng::new(seed);
    let mut arrival_s = 0.0;
    let request = |_| {
        arrival_s += stream.standard_exponential() / offered_per_s;
        Request { arrival_s, work_s: service_ms / 1000.0, tenant: 0 }
    };
    (0..REQUESTS).map(request).collect()
}

/// From the arrival of each request to its end.
pub(super) fn latencies_ms(requests: &[Request], ends_s: &[f64]) -> Vec<f64> {
    let pairs = requests.iter().zip(ends_s);
    pairs.map(|(request, end_s)| (end_s - request.arrival_s) * 1000.0).collect()
}
