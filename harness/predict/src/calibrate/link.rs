//! The host link: one queue in order of submission, which a busy neighbour keeps filled.
//!
//! A copy engine serves the copies of all tenants in order of submission and does not preempt. A
//! neighbour with `depth` outstanding copies has one in service and the others queued at every
//! instant; a request of the victim waits for all of them. A request can consist of several copies,
//! submitted together. Each copy starts after the one before and lasts at least its pace; copies of
//! the neighbour are served in between.

use std::collections::VecDeque;

const CLOSED_REQUESTS: usize = 400;
/// The largest depth that is tried.
const MAX_DEPTH: u32 = 64;
/// Accepted relative difference between the simulated and the measured closed loop.
const TOLERANCE: f64 = 0.1;

/// The copies of a request of the victim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Copies {
    pub count: u32,
    pub copy_s: f64,
    /// Shortest time between the starts of two copies.
    pub pace_s: f64,
}

impl Copies {
    /// Copies of a request that natively takes `service_s` and moves `work` at the link's
    /// `work_per_s`.
    pub fn new(count: u32, service_s: f64, work: f64, work_per_s: f64) -> Self {
        let count = count.max(1);
        let pace_s = service_s / f64::from(count);
        let copy_s = work / work_per_s / f64::from(count);
        // A copy is natively no longer than its pace; a longer one has other units than the link.
        let copy_s = if copy_s > 0.0 { copy_s.min(pace_s) } else { pace_s };
        Self { count, copy_s, pace_s }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Neighbour {
    pub copy_s: f64,
    /// Number of outstanding copies.
    pub depth: u32,
}

impl Neighbour {
    /// Finds the depth with the closed loop nearest to the measured one; `None` if none is within
    /// the tolerance.
    pub fn from_closed_loop(copies: Copies, contended_s: f64, copy_s: f64) -> Option<Self> {
        if !(copy_s > 0.0 && contended_s.is_finite()) {
            return None;
        }
        let miss = |depth: u32| {
            let neighbour = Self { copy_s, depth };
            let mut begun_s = 0.0;
            let mut cycles_s = Vec::with_capacity(CLOSED_REQUESTS);
            let mut issue = |_, ended_s: f64| {
                begun_s = ended_s;
                begun_s
            };
            let ends_s = neighbour.run(copies, CLOSED_REQUESTS, &mut issue);
            cycles_s.extend(ends_s.windows(2).map(|pair| pair[1] - pair[0]));
            let median = crate::parallel::percentiles(&mut cycles_s, [50.0]);
            median.map_or(f64::INFINITY, |[median_s]| (median_s / contended_s - 1.0).abs())
        };
        let depths = (1..=MAX_DEPTH).map(|depth| (miss(depth), depth));
        let (miss, depth) = depths.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (miss <= TOLERANCE).then_some(Self { copy_s, depth })
    }

    /// The end of each request of the victim. Arrivals are in order.
    pub fn ends_s(&self, copies: Copies, arrivals_s: &[f64]) -> Vec<f64> {
        self.run(copies, arrivals_s.len(), &mut |index, _| arrivals_s[index])
    }

    /// As `ends_s`, with arrivals that can depend on the end of the request before.
    fn run(
        &self,
        copies: Copies,
        requests: usize,
        arrival_s: &mut impl FnMut(usize, f64) -> f64,
    ) -> Vec<f64> {
        let mut engine = Engine {
            copy_s: self.copy_s,
            submitted_s: (0..self.depth).map(|_| 0.0).collect(),
            now_s: 0.0,
        };
        let mut ends_s = Vec::with_capacity(requests);
        let mut ended_s = 0.0_f64;
        for index in 0..requests {
            let submitted_s = arrival_s(index, ended_s);
            for _ in 0..copies.count {
                let begins_s = ended_s.max(submitted_s);
                let copied_s = engine.serve(submitted_s, begins_s, copies.copy_s);
                ended_s =
                    copied_s.max(begins_s + if copies.count > 1 { copies.pace_s } else { 0.0 });
            }
            ends_s.push(ended_s);
        }
        ends_s
    }
}

/// The copy engine, and the submission times of the queued copies of the neighbour.
struct Engine {
    copy_s: f64,
    submitted_s: VecDeque<f64>,
    now_s: f64,
}

impl Engine {
    /// The end of a copy of the victim that can start at `ready_s`.
    fn serve(&mut self, submitted_s: f64, ready_s: f64, copy_s: f64) -> f64 {
        // The neighbour's copies go first until `ready_s`, and those submitted before this copy.
        while let Some(&first_s) = self.submitted_s.front()
            && (self.now_s < ready_s || first_s < submitted_s)
        {
            self.submitted_s.pop_front();
            self.now_s += self.copy_s;
            self.submitted_s.push_back(self.now_s);
        }
        self.now_s += copy_s;
        self.now_s
    }
}

#[cfg(test)]
mod tests {
    use super::{Copies, Neighbour};

    fn whole() -> Copies {
        Copies::new(1, 1.0, 1.0, 1.0)
    }

    #[test]
    fn a_request_waits_for_outstanding_copies() {
        let neighbour = Neighbour { copy_s: 1.0, depth: 2 };
        // It arrives in the middle of the second copy, when the first one's successor is queued:
        // half a copy and a whole one, then its own time.
        assert_eq!(neighbour.ends_s(whole(), &[1.5]), [4.0]);
        // The second request waits for the first as well, and for the copy submitted between.
        assert_eq!(neighbour.ends_s(whole(), &[1.5, 1.6]), [4.0, 5.0]);
    }

    #[test]
    fn copies_of_the_neighbour_pass_while_a_copy_keeps_its_pace() {
        let neighbour = Neighbour { copy_s: 1.0, depth: 2 };
        // A quarter of a request is copied in 0.125 and lasts 0.25. The first part waits for 1.5
        // and ends at 3.125; the second, submitted with it, follows at once and ends at 3.25, but
        // lasts until 3.375. A copy passes; the third ends at 4.375 and the fourth right behind it,
        // at 4.5, and lasts until 4.625.
        let copies = Copies::new(4, 1.0, 0.5, 1.0);
        assert_eq!((copies.copy_s, copies.pace_s), (0.125, 0.25));
        assert_eq!(neighbour.ends_s(copies, &[1.5]), [4.625]);
    }

    #[test]
    fn the_depth_follows_from_the_closed_loop() {
        let found = |contended_s, copy_s| {
            Neighbour::from_closed_loop(whole(), contended_s, copy_s).map(|n| n.depth)
        };
        assert_eq!(found(3.02, 1.0), Some(2));
        assert_eq!(found(5.0, 1.0), Some(4));
        for (contended_s, copy_s) in [(1.0, 1.0), (3.0, 0.0), (f64::NAN, 1.0), (200.0, 1.0)] {
            assert_eq!(found(contended_s, copy_s), None);
        }
    }
}
