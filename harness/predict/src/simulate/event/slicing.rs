//! Time-slicing with slices of finite length, and HAMi's token bucket in front of it.
//!
//! Tenants with work run in round-robin order. A change of tenant has a cost. In its time slice a
//! tenant serves its own queue. HAMi admits a launch if the tenant's tokens are not below zero, and
//! charges the whole cost at once: one launch can overshoot without bound.

use std::collections::VecDeque;

use super::{Bucket, Gate, Request};
use crate::simulate::scenario::{Hostile, Scenario};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeSlice {
    quantum_s: f64,
    switch_s: f64,
}

impl TimeSlice {
    /// Time slices of a length (infinite: each runs one request to its end), and the cost of a
    /// change.
    pub fn new(quantum_ms: f64, switch_ms: f64) -> Self {
        Self { quantum_s: quantum_ms / 1000.0, switch_s: switch_ms / 1000.0 }
    }
}

pub fn run_sliced(
    requests: &[Request],
    tenants: usize,
    time_slice: TimeSlice,
    buckets: Option<Vec<Bucket>>,
) -> Vec<f64> {
    let mut ring = Ring::new(requests, tenants, time_slice, buckets);
    while ring.step() {}
    ring.ends_s
}

/// The end of each watched request. The run stops at the last of them; requests that have not ended
/// by then end at infinity.
pub fn run_until(
    requests: &[Request],
    tenants: usize,
    time_slice: TimeSlice,
    is_watched: impl Fn(&Request) -> bool,
) -> Vec<f64> {
    let mut ring = Ring::new(requests, tenants, time_slice, None);
    // Requests of one tenant end in order, so the last watched request of each is sufficient.
    let mut last: Vec<Option<usize>> = vec![None; tenants];
    for (index, request) in requests.iter().enumerate().filter(|(_, request)| is_watched(request)) {
        last[request.tenant] = Some(index);
    }
    let last: Vec<usize> = last.into_iter().flatten().collect();
    while last.iter().any(|index| ring.ends_s[*index].is_infinite()) && ring.step() {}
    ring.ends_s
}

struct Ring<'a> {
    requests: &'a [Request],
    time_slice: TimeSlice,
    left_s: Vec<f64>,
    ends_s: Vec<f64>,
    queues: Vec<VecDeque<usize>>,
    gate: Gate,
    arrived: usize,
    current: Option<usize>,
    now_s: f64,
}

impl<'a> Ring<'a> {
    fn new(
        requests: &'a [Request],
        tenants: usize,
        time_slice: TimeSlice,
        buckets: Option<Vec<Bucket>>,
    ) -> Self {
        Self {
            requests,
            time_slice,
            left_s: requests.iter().map(|request| request.work_s).collect(),
            ends_s: vec![f64::INFINITY; requests.len()],
            queues: vec![VecDeque::new(); tenants],
            gate: Gate::new(buckets),
            arrived: 0,
            current: None,
            now_s: 0.0,
        }
    }

    /// One time slice or one wait; false after the last request.
    fn step(&mut self) -> bool {
        self.admit();
        self.gate.refill(self.now_s);
        if let Some(tenant) = self.next_tenant() {
            self.run_slice(tenant);
            return true;
        }
        let arrival_s = self.requests.get(self.arrived).map(|request| request.arrival_s);
        let is_held_back = self.queues.iter().any(|queue| !queue.is_empty());
        let refill_s = is_held_back.then(|| self.gate.next_refill_s());
        let Some(next_s) = [arrival_s, refill_s].into_iter().flatten().min_by(f64::total_cmp)
        else {
            return false;
        };
        self.now_s = self.now_s.max(next_s);
        true
    }

    fn admit(&mut self) {
        while let Some(request) = self.requests.get(self.arrived) {
            if request.arrival_s > self.now_s {
                break;
            }
            self.queues[request.tenant].push_back(self.arrived);
            self.arrived += 1;
        }
    }

    fn next_tenant(&self) -> Option<usize> {
        let count = self.queues.len();
        let first = self.current.map_or(0, |current| current + 1);
        (first..first + count).map(|index| index % count).find(|tenant| self.may_run(*tenant))
    }

    fn may_run(&self, tenant: usize) -> bool {
        let Some(&head) = self.queues[tenant].front() else { return false };
        // A request that has begun was launched before; only a launch needs tokens.
        self.left_s[head] < self.requests[head].work_s || self.gate.is_open(tenant)
    }

    /// Slices in a row of a tenant while no other tenant has work before the next arrival.
    fn slices_in_a_row(&self) -> f64 {
        let with_work = self.queues.iter().filter(|queue| !queue.is_empty()).count();
        if with_work > 1 || self.time_slice.quantum_s.is_infinite() {
            return 1.0;
        }
        let next = self.requests.get(self.arrived);
        let gap_s = next.map_or(f64::INFINITY, |request| request.arrival_s - self.now_s);
        (gap_s / self.time_slice.quantum_s).floor().max(1.0)
    }

    fn run_slice(&mut self, tenant: usize) {
        if self.current.is_some_and(|current| current != tenant) {
            self.now_s += self.time_slice.switch_s;
        }
        self.current = Some(tenant);
        let mut budget_s = self.time_slice.quantum_s * self.slices_in_a_row();
        while budget_s > 0.0 && self.may_run(tenant) {
            let Some(&head) = self.queues[tenant].front() else { return };
            let work_s = self.requests[head].work_s;
            if self.left_s[head] >= work_s {
                self.gate.launch(tenant, work_s);
            }
            let spent_s = self.left_s[head].min(budget_s);
            self.now_s += spent_s;
            budget_s -= spent_s;
            self.left_s[head] -= spent_s;
            // Requests of this tenant that arrive meanwhile are served in this slice.
            self.admit();
            if self.left_s[head] <= 0.0 {
                self.ends_s[head] = self.now_s;
                self.queues[tenant].pop_front();
                if self.time_slice.quantum_s.is_infinite() {
                    return;
                }
            }
        }
    }
}

// MPS with active-thread percentages: tenants run side by side.
//
// A request occupies a share of the SMs (its width), at most the active-thread percentage of its
// tenant. If the widths add up to more than the device, all requests slow down by the same factor;
// below, only contention slows them. Speeds change with every arrival and end; the reference model
// fixes a service time at the arrival.

/// Share of the device for one request of a tenant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Width {
    pub wanted: f64,
    /// The share within the active-thread percentage.
    pub granted: f64,
}

pub fn run_shared(requests: &[Request], widths: &[Width], scenario: &Scenario) -> Vec<f64> {
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

    fn request(arrival_ms: f64, work_ms: f64, tenant: usize) -> Request {
        Request { arrival_s: arrival_ms / 1000.0, work_s: work_ms / 1000.0, tenant }
    }

    fn ends_ms(
        requests: &[Request],
        time_slice: TimeSlice,
        buckets: Option<Vec<Bucket>>,
    ) -> Vec<f64> {
        let ends_s = run_sliced(requests, 2, time_slice, buckets);
        ends_s.into_iter().map(|end_s| (end_s * 1e6).round() / 1000.0).collect()
    }

    #[test]
    fn slices_alternate_and_changes_have_a_cost() {
        // 2 ms each for A, B, A, B with 1 ms before every change: A ends at 8, B at 11.
        let requests = [request(0.0, 4.0, 0), request(0.0, 4.0, 1)];
        assert_eq!(ends_ms(&requests, TimeSlice::new(2.0, 1.0), None), [8.0, 11.0]);
        // A single tenant keeps the device without cost.
        let alone = [request(0.0, 4.0, 0), request(1.0, 4.0, 0)];
        assert_eq!(ends_ms(&alone, TimeSlice::new(2.0, 1.0), None), [4.0, 8.0]);
        // Infinite slices run one request each.
        assert_eq!(ends_ms(&requests, TimeSlice::new(f64::INFINITY, 1.0), None), [4.0, 9.0]);
    }

    #[test]
    fn a_slice_serves_requests_that_arrive_in_it() {
        // B has 4 ms of work. A's second request arrives in A's slice of 2 ms and ends in it.
        let requests = [request(0.0, 1.0, 0), request(0.0, 4.0, 1), request(0.5, 1.0, 0)];
        assert_eq!(ends_ms(&requests, TimeSlice::new(2.0, 0.0), None), [1.0, 6.0, 2.0]);
    }

    #[test]
    fn a_launch_waits_until_the_tokens_are_repaid() {
        // 50 ms at the start and 50 ms every 100 ms. The first launch overshoots to -70 ms, so the
        // second waits for two refills and starts at 200 ms.
        let bucket = Bucket { refill_s: 0.1, added_s: 0.05, max_s: 0.05 };
        let requests = [request(0.0, 120.0, 0), request(1.0, 10.0, 0)];
        let found = ends_ms(&requests, TimeSlice::new(f64::INFINITY, 0.0), Some(vec![bucket; 2]));
        assert_eq!(found, [120.0, 210.0]);
    }

    fn shared_ends_ms(requests: &[Request], widths: &[Width], contention: f64) -> Vec<f64> {
        let scenario = Scenario { contention, ..Scenario::default() };
        let ends_s = run_shared(requests, widths, &scenario);
        ends_s.into_iter().map(|end_s| (end_s * 1e6).round() / 1000.0).collect()
    }

    #[test]
    fn narrow_requests_contend_and_wide_ones_share_the_sms() {
        let requests = [request(0.0, 10.0, 0), request(0.0, 10.0, 1)];
        let width = |wanted: f64, granted: f64| vec![Width { wanted, granted }; 2];
        assert_eq!(shared_ends_ms(&requests, &width(0.5, 0.5), 0.0), [10.0, 10.0]);
        assert_eq!(shared_ends_ms(&requests, &width(0.5, 0.5), 0.2), [12.0, 12.0]);
        assert_eq!(shared_ends_ms(&requests, &width(1.0, 1.0), 0.0), [20.0, 20.0]);
        assert_eq!(shared_ends_ms(&requests, &width(1.0, 0.25), 0.0), [40.0, 40.0]);
    }

    #[test]
    fn speeds_change_with_the_busy_tenants() {
        // Half speed from 5 to 15 ms, while the second tenant runs its 5 ms.
        let requests = [request(0.0, 20.0, 0), request(5.0, 5.0, 1), request(6.0, 1.0, 1)];
        let wide = vec![Width { wanted: 1.0, granted: 1.0 }; 2];
        assert_eq!(shared_ends_ms(&requests, &wide, 0.0), [26.0, 15.0, 17.0]);
    }
}
