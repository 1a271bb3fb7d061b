//! MPS with caps: tenants side by side, squeezed where together they want more than the device has.
//!
//! A request keeps a share of the SMs busy (its width), less where the tenant's active-thread
//! percentage is lower. While the widths add up to less than the device, only contention slows
//! anybody; beyond, all are squeezed alike. Speeds change with every arrival and end, unlike in the
//! reference model, which fixes a request's service time when it arrives.

use super::traffic::Request;
use crate::simulate::scenario::{Hostile, Scenario};
use std::collections::VecDeque;

/// How much of the device one tenant's request can use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Width {
    /// The share that it could keep busy.
    pub wanted: f64,
    /// The share that the cap leaves it.
    pub granted: f64,
}

/// When each request ends.
pub fn run(requests: &[Request], widths: &[Width], scenario: &Scenario) -> Vec<f64> {
    let mut ends_s = vec![f64::INFINITY; requests.len()];
    let mut queues: Vec<VecDeque<usize>> = vec![VecDeque::new(); widths.len()];
    // Work left of every tenant's request in service, at the speed that it would have alone.
    let mut left_s = vec![0.0_f64; widths.len()];
    let mut arrivals = requests.iter().enumerate().peekable();
    let mut now_s = 0.0_f64;
    loop {
        let is_busy = |tenant: usize| !queues[tenant].is_empty();
        let speeds = speeds(widths, scenario, is_busy);
        let first_end = first_to_end(&left_s, &speeds);
        let arrival_s = arrivals
            .peek()
            .map_or(f64::INFINITY, |(_, request)| request.arrival_s);
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
            arrivals.next().and_then(|(place, request)| {
                queues[request.tenant].push_back(place);
                (queues[request.tenant].len() == 1).then_some(place)
            })
        };
        if let Some(place) = begun {
            left_s[requests[place].tenant] = requests[place].work_s;
        }
    }
}

/// How fast every tenant's request goes; zero for a tenant without one.
fn speeds(widths: &[Width], scenario: &Scenario, is_busy: impl Fn(usize) -> bool) -> Vec<f64> {
    let busy: Vec<bool> = (0..widths.len()).map(is_busy).collect();
    let count = busy.iter().filter(|is_busy| **is_busy).count();
    let wanted = widths.iter().zip(&busy).filter(|(_, is_busy)| **is_busy);
    let total: f64 = wanted.map(|(width, _)| width.granted).sum();
    let squeeze = if total > 1.0 { 1.0 / total } else { 1.0 };
    let loud = |hostile: &&Hostile| busy[hostile.tenant as usize];
    let hostile = scenario.hostile.as_ref().filter(loud);
    let speed = |(tenant, width): (usize, &Width)| {
        if !busy[tenant] {
            return 0.0;
        }
        let contention = match hostile {
            Some(hostile) if hostile.tenant as usize != tenant => hostile.contention,
            _ => scenario.contention,
        };
        let stretch = 1.0 + contention * (count - 1) as f64;
        width.granted / width.wanted * squeeze / stretch
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
        let scenario = Scenario {
            contention,
            ..Scenario::default()
        };
        let ends_s = run(requests, widths, &scenario);
        ends_s
            .into_iter()
            .map(|end_s| (end_s * 1e6).round() / 1000.0)
            .collect()
    }

    fn request(arrival_ms: f64, work_ms: f64, tenant: usize) -> Request {
        Request {
            arrival_s: arrival_ms / 1000.0,
            work_s: work_ms / 1000.0,
            tenant,
        }
    }

    #[test]
    fn small_kernels_only_contend_and_wide_ones_are_squeezed() {
        let requests = [request(0.0, 10.0, 0), request(0.0, 10.0, 1)];
        let width = |wanted: f64, granted: f64| vec![Width { wanted, granted }; 2];
        assert_eq!(ends_ms(&requests, &width(0.5, 0.5), 0.0), [10.0, 10.0]);
        assert_eq!(ends_ms(&requests, &width(0.5, 0.5), 0.2), [12.0, 12.0]);
        assert_eq!(ends_ms(&requests, &width(1.0, 1.0), 0.0), [20.0, 20.0]);
        assert_eq!(ends_ms(&requests, &width(1.0, 0.25), 0.0), [40.0, 40.0]);
    }

    #[test]
    fn speeds_follow_who_is_busy() {
        // Half speed from 5 to 15 ms, in which the second does its 5 ms.
        let requests = [
            request(0.0, 20.0, 0),
            request(5.0, 5.0, 1),
            request(6.0, 1.0, 1),
        ];
        let wide = vec![
            Width {
                wanted: 1.0,
                granted: 1.0
            };
            2
        ];
        assert_eq!(ends_ms(&requests, &wide, 0.0), [26.0, 15.0, 17.0]);
    }
}
