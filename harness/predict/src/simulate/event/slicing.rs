//! Time-slicing with turns of finite length, and HAMi's token bucket in front of it.
//!
//! Tenants with work take turns in a ring; a change of tenant costs its price; within a turn a
//! tenant works through its own queue. HAMi lets a launch through only while the tenant's tokens
//! are not below zero, and takes the whole cost at once: one launch can overshoot without bound.

use super::traffic::Request;
use std::collections::VecDeque;

/// How turns go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    quantum_s: f64,
    switch_s: f64,
}

impl Turn {
    /// Turns of a length (infinite: each runs one request to its end), and the price of a change.
    pub fn new(quantum_ms: f64, switch_ms: f64) -> Self {
        Self {
            quantum_s: quantum_ms / 1000.0,
            switch_s: switch_ms / 1000.0,
        }
    }
}

/// One tenant's tokens, counted in seconds of the whole device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Time between refills.
    pub refill_s: f64,
    /// What a refill adds.
    pub added_s: f64,
    /// The most that can be saved up.
    pub most_s: f64,
}

/// When each request ends.
pub fn run(
    requests: &[Request],
    tenants: usize,
    turn: Turn,
    buckets: Option<Vec<Bucket>>,
) -> Vec<f64> {
    let mut ring = Ring::new(requests, tenants, turn, buckets);
    while ring.step() {}
    ring.ends_s
}

/// When each request ends that is watched; the run stops when all of those have. Requests that
/// have not ended by then end at infinity.
pub fn run_until(
    requests: &[Request],
    tenants: usize,
    turn: Turn,
    is_watched: impl Fn(&Request) -> bool,
) -> Vec<f64> {
    let mut ring = Ring::new(requests, tenants, turn, None);
    // Requests of one tenant end in order, so only the last watched of each has to be looked at.
    let mut last: Vec<Option<usize>> = vec![None; tenants];
    for (place, request) in requests
        .iter()
        .enumerate()
        .filter(|(_, request)| is_watched(request))
    {
        last[request.tenant] = Some(place);
    }
    let last: Vec<usize> = last.into_iter().flatten().collect();
    while last.iter().any(|place| ring.ends_s[*place].is_infinite()) && ring.step() {}
    ring.ends_s
}

struct Ring<'a> {
    requests: &'a [Request],
    turn: Turn,
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
        turn: Turn,
        buckets: Option<Vec<Bucket>>,
    ) -> Self {
        Self {
            requests,
            turn,
            left_s: requests.iter().map(|request| request.work_s).collect(),
            ends_s: vec![f64::INFINITY; requests.len()],
            queues: vec![VecDeque::new(); tenants],
            gate: Gate::new(buckets),
            arrived: 0,
            current: None,
            now_s: 0.0,
        }
    }

    /// One turn, or one wait; false once everything has ended.
    fn step(&mut self) -> bool {
        self.admit();
        self.gate.refill(self.now_s);
        if let Some(tenant) = self.next_tenant() {
            self.take_turn(tenant);
            return true;
        }
        let arrival_s = self
            .requests
            .get(self.arrived)
            .map(|request| request.arrival_s);
        let is_held_back = self.queues.iter().any(|queue| !queue.is_empty());
        let refill_s = is_held_back.then(|| self.gate.next_refill_s());
        let Some(next_s) = [arrival_s, refill_s]
            .into_iter()
            .flatten()
            .min_by(f64::total_cmp)
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
        (first..first + count)
            .map(|place| place % count)
            .find(|tenant| self.may_run(*tenant))
    }

    fn may_run(&self, tenant: usize) -> bool {
        let Some(&head) = self.queues[tenant].front() else {
            return false;
        };
        // What has begun was launched already; only a launch asks for tokens.
        self.left_s[head] < self.requests[head].work_s || self.gate.is_open(tenant)
    }

    /// Slices that a tenant runs in a row because no other tenant has work before the next arrival.
    fn turns_alone(&self) -> f64 {
        let with_work = self.queues.iter().filter(|queue| !queue.is_empty()).count();
        if with_work > 1 || self.turn.quantum_s.is_infinite() {
            return 1.0;
        }
        let next = self.requests.get(self.arrived);
        let gap_s = next.map_or(f64::INFINITY, |request| request.arrival_s - self.now_s);
        (gap_s / self.turn.quantum_s).floor().max(1.0)
    }

    fn take_turn(&mut self, tenant: usize) {
        if self.current.is_some_and(|current| current != tenant) {
            self.now_s += self.turn.switch_s;
        }
        self.current = Some(tenant);
        let mut budget_s = self.turn.quantum_s * self.turns_alone();
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
            // What arrives meanwhile is in time for this turn, if it is the tenant's own.
            self.admit();
            if self.left_s[head] <= 0.0 {
                self.ends_s[head] = self.now_s;
                self.queues[tenant].pop_front();
                if self.turn.quantum_s.is_infinite() {
                    return;
                }
            }
        }
    }
}

/// The tenants that may launch: all of them, or those with tokens.
struct Gate {
    buckets: Vec<Bucket>,
    tokens_s: Vec<f64>,
    refills: f64,
}

impl Gate {
    fn new(buckets: Option<Vec<Bucket>>) -> Self {
        let buckets = buckets.unwrap_or_default();
        let tokens_s = buckets.iter().map(|bucket| bucket.most_s).collect();
        Self {
            buckets,
            tokens_s,
            refills: 0.0,
        }
    }

    fn is_open(&self, tenant: usize) -> bool {
        self.tokens_s
            .get(tenant)
            .is_none_or(|tokens_s| *tokens_s >= 0.0)
    }

    fn launch(&mut self, tenant: usize, work_s: f64) {
        if let Some(tokens_s) = self.tokens_s.get_mut(tenant) {
            *tokens_s -= work_s;
        }
    }

    fn next_refill_s(&self) -> f64 {
        self.buckets
            .first()
            .map_or(0.0, |bucket| (self.refills + 1.0) * bucket.refill_s)
    }

    fn refill(&mut self, now_s: f64) {
        let Some(refill_s) = self.buckets.first().map(|bucket| bucket.refill_s) else {
            return;
        };
        // The next tick is waited for exactly, so the comparison must use the same product.
        let mut passed = 0.0;
        while (self.refills + passed + 1.0) * refill_s <= now_s {
            passed += 1.0;
        }
        self.refills += passed;
        for (tokens_s, bucket) in self.tokens_s.iter_mut().zip(&self.buckets) {
            *tokens_s = (*tokens_s + passed * bucket.added_s).min(bucket.most_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arrival_ms: f64, work_ms: f64, tenant: usize) -> Request {
        Request {
            arrival_s: arrival_ms / 1000.0,
            work_s: work_ms / 1000.0,
            tenant,
        }
    }

    fn ends_ms(requests: &[Request], turn: Turn, buckets: Option<Vec<Bucket>>) -> Vec<f64> {
        let ends_s = run(requests, 2, turn, buckets);
        ends_s
            .into_iter()
            .map(|end_s| (end_s * 1e6).round() / 1000.0)
            .collect()
    }

    #[test]
    fn turns_alternate_and_changes_are_paid() {
        // 2 ms each for A, B, A, B with 1 ms before every change: A ends at 8, B at 11.
        let requests = [request(0.0, 4.0, 0), request(0.0, 4.0, 1)];
        assert_eq!(ends_ms(&requests, Turn::new(2.0, 1.0), None), [8.0, 11.0]);
        // Alone, a tenant keeps the device and pays nothing.
        let alone = [request(0.0, 4.0, 0), request(1.0, 4.0, 0)];
        assert_eq!(ends_ms(&alone, Turn::new(2.0, 1.0), None), [4.0, 8.0]);
        // Turns without end run one request each.
        assert_eq!(
            ends_ms(&requests, Turn::new(f64::INFINITY, 1.0), None),
            [4.0, 9.0]
        );
    }

    #[test]
    fn a_turn_serves_what_arrives_during_it() {
        // B has 4 ms to do. A's second request arrives in A's turn of 2 ms, and ends in it.
        let requests = [
            request(0.0, 1.0, 0),
            request(0.0, 4.0, 1),
            request(0.5, 1.0, 0),
        ];
        assert_eq!(
            ends_ms(&requests, Turn::new(2.0, 0.0), None),
            [1.0, 6.0, 2.0]
        );
    }

    #[test]
    fn tokens_hold_a_launch_back_until_they_are_repaid() {
        // 50 ms at the start and 50 ms every 100 ms. The first launch overshoots to -70 ms, so the
        // second waits for two refills and starts at 200 ms.
        let bucket = Bucket {
            refill_s: 0.1,
            added_s: 0.05,
            most_s: 0.05,
        };
        let requests = [request(0.0, 120.0, 0), request(1.0, 10.0, 0)];
        let found = ends_ms(
            &requests,
            Turn::new(f64::INFINITY, 0.0),
            Some(vec![bucket; 2]),
        );
        assert_eq!(found, [120.0, 210.0]);
    }
}
