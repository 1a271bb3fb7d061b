//! First come, first served: one server per tenant, or one for all that pays for changes.

use super::traffic::Request;

/// A server per tenant, each with its speed: MIG instances of any sizes.
pub fn slices(requests: &[Request], speeds: &[f64]) -> Vec<f64> {
    let mut free_s = vec![0.0_f64; speeds.len()];
    let end = |request: &Request| {
        let free_s = &mut free_s[request.tenant];
        *free_s = request.arrival_s.max(*free_s) + request.work_s / speeds[request.tenant];
        *free_s
    };
    requests.iter().map(end).collect()
}

/// One server for all, which pays for every change of tenant.
pub fn one_queue(requests: &[Request], switch_s: f64) -> Vec<f64> {
    let mut free_s = 0.0_f64;
    let mut last = requests.first().map_or(0, |request| request.tenant);
    let end = |request: &Request| {
        let paid_s = if request.tenant == last {
            0.0
        } else {
            switch_s
        };
        last = request.tenant;
        free_s = request.arrival_s.max(free_s) + paid_s + request.work_s;
        free_s
    };
    requests.iter().map(end).collect()
}
