//! The requests of a replication: arrival time, tenant and amount of work of each.

use super::options::EventOptions;
use super::variates::ArrivalTimes;
use crate::rng::FastRng;
use crate::simulate::scenario::Scenario;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// When it arrives.
    pub arrival_s: f64,
    /// Its service time on the whole device.
    pub work_s: f64,
    /// Whose it is.
    pub tenant: usize,
}

/// Streams that each tenant has: gaps, bursts, work.
const STREAMS: u64 = 3;

/// All requests of a replication that arrive within the duration, in order of time, then tenant.
pub fn requests(scenario: &Scenario, options: &EventOptions, replication: u64) -> Vec<Request> {
    let mut all = Vec::new();
    for (tenant, load) in scenario.loads().into_iter().enumerate() {
        let stream = |number: u64| {
            FastRng::stream(scenario.seed, replication, tenant as u64 * STREAMS + number)
        };
        let arrivals = ArrivalTimes::new(options.arrivals, load.mean_gap_s, stream(0), stream(1));
        let mut work = stream(2);
        let within = arrivals.take_while(|arrival_s| *arrival_s < scenario.duration_s);
        all.extend(within.map(|arrival_s| Request {
            arrival_s,
            work_s: load.service_s * options.service.draw(&mut work),
            tenant,
        }));
    }
    // Stable: equal times stay in tenant order.
    all.sort_by(|a, b| a.arrival_s.total_cmp(&b.arrival_s));
    all
}
