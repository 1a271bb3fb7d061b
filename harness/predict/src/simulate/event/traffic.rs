//! The requests of a replication: arrival time, tenant and work of each.

use super::options::EventOptions;
use super::variates::ArrivalTimes;
use crate::rng::FastRng;
use crate::simulate::scenario::Scenario;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Arrival time.
    pub arrival_s: f64,
    /// Service time on the whole device.
    pub work_s: f64,
    /// Index of its tenant.
    pub tenant: usize,
}

/// Streams of each tenant: gaps, bursts, work.
const STREAMS: u64 = 3;

/// The requests of a replication within the duration, in order of time, then of tenant.
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
    // The sort is stable: equal times stay in tenant order.
    all.sort_by(|a, b| a.arrival_s.total_cmp(&b.arrival_s));
    all
}
