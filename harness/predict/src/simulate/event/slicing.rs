//! Time-slicing with slices of finite length, and HAMi's token bucket in front of it.
//!
//! Tenants with work run in round-robin order. A change of tenant has a cost. In its time slice a
//! tenant serves its own queue. HAMi admits a launch if the tenant's tokens are not below zero, and
//! charges the whole cost at once: one launch can overshoot without bound.

use super::token_bucket::{Bucket, Gate};
use super::traffic::Request;
use std::collections::VecDeque;

/// Length of time slices and cost of a change.
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

/// The end of each request.
pub fn run(
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
        let Some(&head) = self.queues[tenant].front() else {
            return false;
        };
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
            let Some(&head) = self.queues[tenant].front() else {
                return;
            };
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
        let ends_s = run(requests, 2, time_slice, buckets);
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
}
