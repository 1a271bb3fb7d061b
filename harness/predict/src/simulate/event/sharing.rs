//! MPS with active-thread percentages: tenants run side by side.
//!
//! A request occupies a share of the SMs (its width), at most the active-thread percentage of its
//! tenant. If the widths add up to more than the device, all requests slow down by the same factor;
//! below, only contention slows them. Speeds change with every arrival and end; the reference model
//! fixes a service time at the arrival.

use super::traffic::Request;
use crate::simulate::scenario::{Hostile, Scenario};
use std::collections::VecDeque;

/// Share of the device for one request of a tenant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Width {
    /// The share that it can occupy.
    pub wanted: f64,
    /// The share within the active-thread percentage.
    pub granted: f64,
}

/// The end of each request.
pub fn run(requests: &[Request], widths: &[Width], scenario: &Scenario) -> Vec<f64> {
    let mut ends_s = vec![f64::INFINITY; requests.len()];
    let mut queues: Vec<VecDeque<usize>> = vec![VecDeque::new(); widths.len()];
    // Remaining work of each tenant's request in service, at full speed.
    let mut left_s = vec![0.0_f64; widths.len()];
    let mut arrivals = requests.iter().enumerate().peekable();
    let mut now_s = 0.0_f64;
    loop {
        let is_busy = |tenant: usize| !queues[tenant].is_empty();
        let speeds = speeds(widths, scenario, is_busy);
        let first_end = first_to_end(&left_s, &speeds);
        let arrival_s = arrivals.peek().map_or(f64::INFINITY, |(_, request)| request.arrival_s);
        let end_s = first_end.map_or(f64::INFINITY, |(_, after_s)| now_s + after_s);
        if arrival_s.is_infinite() && end_s.is_infinite() {
            return ends_s;
        }
        let next_s = arrival_s.min(end_s);
        for (left_s, speed) in left_s.iter_mut().zip(&speeds) {
            *left_s -= (next_s - now_s) * speed;
        }
        now_s = next_s;
        let begun = if end_s <= arrival_s {
            first_end.and_then(|(tenant, _)| {
                let ended = queues[tenant].pop_front()?;
                ends_s[ended] = now_s;
                queues[tenant].front().copied()
            })
        } else {
            arrivals.next().and_then(|(index, request)| {
                queues[request.tenant].push_back(index);
                (queues[request.tenant].len() == 1).then_some(index)
            })
        };
        if let Some(index) = begun {
            left_s[requests[index].tenant] = requests[index].work_s;
        }
    }
}

/// Speed of each tenant's request in service; 0 without one.
fn speeds(widths: &[Width], scenario: &Scenario, is_busy: impl Fn(usize) -> bool) -> Vec<f64> {
    let busy: Vec<bool> = (0..widths.len()).map(is_busy).collect();
    let count = busy.iter().filter(|is_busy| **is_busy).count();
    let wanted = widths.iter().zip(&busy).filter(|(_, is_busy)| **is_busy);
    let total: f64 = wanted.map(|(width, _)| width.granted).sum();
    let slowdown = if total > 1.0 { 1.0 / total } else { 1.0 };
    let is_busy = |hostile: &&Hostile| busy[hostile.tenant as usize];
    let hostile = scenario.hostile.as_ref().filter(is_busy);
    let speed = |(tenant, width): (usize, &Width)| {
        if !busy[tenant] {
            return 0.0;
        }
        let contention = match hostile {
            Some(hostile) if hostile.tenant as usize != tenant => hostile.contention,
            _ => scenario.contention,
        };
        let stretch = 1.0 + contention * (count - 1) as f64;
        width.granted / width.wanted * slowdown / stretch
    };
    widths.iter().enumerate().map(speed).collect()
}

fn first_to_end(left_s: &[f64], speeds: &[f64]) -> Option<(usize, f64)> {
    let after = |(tenant, (left_s, speed)): (usize, (&f64, &f64))| {
        (*speed > 0.0).then(|| (tenant, (left_s / speed).max(0.0)))
    };
    let all = left_s.iter().zip(speeds).enumerate().filter_map(after);
    all.min_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends_ms(requests: &[Request], widths: &[Width], contention: f64) -> Vec<f64> {
        let scenario = Scenario { contention, ..Scenario::default() };
        let ends_s = run(requests, widths, &scenario);
        ends_s.into_iter().map(|end_s| (end_s * 1e6).round() / 1000.0).collect()
    }

    fn request(arrival_ms: f64, work_ms: f64, tenant: usize) -> Request {
        Request { arrival_s: arrival_ms / 1000.0, work_s: work_ms / 1000.0, tenant }
    }

    #[test]
    fn narrow_requests_contend_and_wide_ones_share_the_sms() {
        let requests = [request(0.0, 10.0, 0), request(0.0, 10.0, 1)];
        let width = |wanted: f64, granted: f64| vec![Width { wanted, granted }; 2];
        assert_eq!(ends_ms(&requests, &width(0.5, 0.5), 0.0), [10.0, 10.0]);
        assert_eq!(ends_ms(&requests, &width(0.5, 0.5), 0.2), [12.0, 12.0]);
        assert_eq!(ends_ms(&requests, &width(1.0, 1.0), 0.0), [20.0, 20.0]);
        assert_eq!(ends_ms(&requests, &width(1.0, 0.25), 0.0), [40.0, 40.0]);
    }

    #[test]
    fn speeds_change_with_the_busy_tenants() {
        // Half speed from 5 to 15 ms, while the second tenant runs its 5 ms.
        let requests = [request(0.0, 20.0, 0), request(5.0, 5.0, 1), request(6.0, 1.0, 1)];
        let wide = vec![Width { wanted: 1.0, granted: 1.0 }; 2];
        assert_eq!(ends_ms(&requests, &wide, 0.0), [26.0, 15.0, 17.0]);
    }
}
