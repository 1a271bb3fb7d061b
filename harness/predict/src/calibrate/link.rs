//! The host link: one queue, first submitted first served, that a busy neighbour never lets run
//! empty.
//!
//! A copy engine serves copies in the order of their submission, of any tenant, and does
//! not preempt. A neighbour that keeps `depth` copies outstanding has one under way and the others
//! queued at every instant: a request of the victim that finds them there waits for all of them. A
//! request may be cut into parts, submitted together, each of which waits for the one before it and
//! lasts its pace at least: while it waits, the neighbour's copies pass.

use std::collections::VecDeque;

/// Requests of the closed loop from which the depth is found.
const CLOSED_REQUESTS: usize = 400;
/// The deepest queue of a neighbour that is looked for.
const DEEPEST: u32 = 64;
/// By how much the closed loop of the depth may differ from the measured one.
const TOLERANCE: f64 = 0.1;

/// A request of the victim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parts {
    /// How many copies it is.
    pub count: u32,
    /// How long one of them takes.
    pub copy_s: f64,
    /// How long a part lasts at least, from its beginning.
    pub pace_s: f64,
}

impl Parts {
    /// Natively a request of `service_s` is its parts, one after another; they move `work` at the
    /// link's `work_per_s`.
    pub fn new(count: u32, service_s: f64, work: f64, work_per_s: f64) -> Self {
        let count = count.max(1);
        let pace_s = service_s / f64::from(count);
        let copy_s = work / work_per_s / f64::from(count);
        // A part natively is at least its copy, so a longer one is a link in other units.
        let copy_s = if copy_s > 0.0 {
            copy_s.min(pace_s)
        } else {
            pace_s
        };
        Self {
            count,
            copy_s,
            pace_s,
        }
    }
}

/// A neighbour's copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Neighbour {
    /// How long one copy takes.
    pub copy_s: f64,
    /// How many it keeps outstanding.
    pub depth: u32,
}

impl Neighbour {
    /// Finds the depth whose closed loop is nearest to the measured one, if any comes near it.
    pub fn from_closed_loop(parts: Parts, contended_s: f64, copy_s: f64) -> Option<Self> {
        if !(copy_s > 0.0 && contended_s.is_finite()) {
            return None;
        }
        let miss = |depth: u32| {
            let neighbour = Self { copy_s, depth };
            let mut begun_s = 0.0;
            let mut took_s = Vec::with_capacity(CLOSED_REQUESTS);
            let mut issue = |_, ended_s: f64| {
                begun_s = ended_s;
                begun_s
            };
            let ends_s = neighbour.run(parts, CLOSED_REQUESTS, &mut issue);
            took_s.extend(ends_s.windows(2).map(|pair| pair[1] - pair[0]));
            let median = crate::percentile::percentiles(&mut took_s, [50.0]);
            median.map_or(f64::INFINITY, |[took_s]| (took_s / contended_s - 1.0).abs())
        };
        let depths = (1..=DEEPEST).map(|depth| (miss(depth), depth));
        let (miss, depth) = depths.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (miss <= TOLERANCE).then_some(Self { copy_s, depth })
    }

    /// When each of the victim's requests ends. Arrivals are in order.
    pub fn ends_s(&self, parts: Parts, arrivals_s: &[f64]) -> Vec<f64> {
        self.run(parts, arrivals_s.len(), &mut |place, _| arrivals_s[place])
    }

    /// The same, with arrivals that may follow from the end of the request before.
    fn run(
        &self,
        parts: Parts,
        requests: usize,
        arrival_s: &mut impl FnMut(usize, f64) -> f64,
    ) -> Vec<f64> {
        let mut line = Line {
            copy_s: self.copy_s,
            submitted_s: (0..self.depth).map(|_| 0.0).collect(),
            now_s: 0.0,
        };
        let mut ends_s = Vec::with_capacity(requests);
        let mut ended_s = 0.0_f64;
        for place in 0..requests {
            let submitted_s = arrival_s(place, ended_s);
            for _ in 0..parts.count {
                let begins_s = ended_s.max(submitted_s);
                let copied_s = line.serve(submitted_s, begins_s, parts.copy_s);
                ended_s = copied_s.max(begins_s + if parts.count > 1 { parts.pace_s } else { 0.0 });
            }
            ends_s.push(ended_s);
        }
        ends_s
    }
}

/// The engine, and when the neighbour submitted the copies that wait for it.
struct Line {
    copy_s: f64,
    submitted_s: VecDeque<f64>,
    now_s: f64,
}

impl Line {
    /// When a copy of the victim ends that may begin at a time.
    fn serve(&mut self, submitted_s: f64, ready_s: f64, copy_s: f64) -> f64 {
        // The neighbour's go first until the victim's is there, and those submitted before it.
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
    use super::{Neighbour, Parts};

    fn whole() -> Parts {
        Parts::new(1, 1.0, 1.0, 1.0)
    }

    #[test]
    fn a_request_waits_for_what_is_outstanding() {
        let neighbour = Neighbour {
            copy_s: 1.0,
            depth: 2,
        };
        // It arrives in the middle of the second copy, when the first one's successor is queued:
        // half a copy and a whole one, then its own time.
        assert_eq!(neighbour.ends_s(whole(), &[1.5]), [4.0]);
        // The second request waits for the first as well, and for the copy submitted between.
        assert_eq!(neighbour.ends_s(whole(), &[1.5, 1.6]), [4.0, 5.0]);
    }

    #[test]
    fn copies_pass_while_a_part_keeps_its_pace() {
        let neighbour = Neighbour {
            copy_s: 1.0,
            depth: 2,
        };
        // A quarter of a request is copied in 0.125 and lasts 0.25. The first part waits for 1.5
        // and ends at 3.125; the second, submitted with it, follows at once and ends at 3.25, but
        // lasts until 3.375. A copy passes; the third ends at 4.375 and the fourth right behind it,
        // at 4.5, and lasts until 4.625.
        let parts = Parts::new(4, 1.0, 0.5, 1.0);
        assert_eq!((parts.copy_s, parts.pace_s), (0.125, 0.25));
        assert_eq!(neighbour.ends_s(parts, &[1.5]), [4.625]);
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
