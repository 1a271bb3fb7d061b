//! First come, first served: one server per tenant, or one for all with a cost per change.

use super::traffic::Request;

/// One server per tenant, each with its own speed: MIG instances of any size.
pub fn slices(requests: &[Request], speeds: &[f64]) -> Vec<f64> {
    let mut free_s = vec![0.0_f64; speeds.len()];
    let end = |request: &Request| {
        let free_s = &mut free_s[request.tenant];
        *free_s = request.arrival_s.max(*free_s) + request.work_s / speeds[request.tenant];
        *free_s
    };
    requests.iter().map(end).collect()
}

/// One server for all tenants, with a cost for each change of tenant.
pub fn one_queue(requests: &[Request], switch_s: f64) -> Vec<f64> {
    let mut free_s = 0.0_f64;
    let mut last = requests.first().map_or(0, |request| request.tenant);
    let end = |request: &Request| {
        let cost_s = if request.tenant == last { 0.0 } else { switch_s };
        last = request.tenant;
        free_s = request.arrival_s.max(free_s) + cost_s + request.work_s;
        free_s
    };
    requests.iter().map(end).collect()
}
