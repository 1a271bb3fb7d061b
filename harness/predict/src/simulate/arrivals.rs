//! The arrivals of the reference model: Poisson streams, drawn tenant by tenant, merged by time.

use super::scenario::Scenario;
use crate::rng::{FastRng, Pcg64, RngKind, Stream};

/// Requests that reach the device, in order of time; equal times in order of tenant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arrivals {
    times_s: Vec<f64>,
    tenants: Vec<u16>,
}

impl Arrivals {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.times_s.len()
    }

    /// Whether nothing arrives at all.
    pub fn is_empty(&self) -> bool {
        self.times_s.is_empty()
    }

    /// Arrival time of each request since the start, and its tenant.
    pub fn iter(&self) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.times_s
            .iter()
            .copied()
            .zip(self.tenants.iter().map(|tenant| usize::from(*tenant)))
    }
}

/// All arrivals of a scenario under a seed.
pub fn arrivals(scenario: &Scenario, seed: u64) -> Arrivals {
    arrivals_and_buffer(scenario, seed).0
}

/// All arrivals, and the buffer in which they were drawn: as large as the latencies will be, and
/// its pages are there already. Fresh pages cost more than the model itself.
pub(super) fn arrivals_and_buffer(scenario: &Scenario, seed: u64) -> (Arrivals, Vec<f64>) {
    let streams = match scenario.rng {
        RngKind::Numpy => draw(scenario, &mut Pcg64::new(seed)),
        RngKind::Fast => draw(scenario, &mut FastRng::new(seed)),
    };
    (streams.merge(), streams.times_s)
}

/// The streams of all tenants, one behind the other.
struct Streams {
    times_s: Vec<f64>,
    /// Where each tenant's stream ends.
    ends: Vec<usize>,
}

fn draw<S: Stream>(scenario: &Scenario, stream: &mut S) -> Streams {
    let expected = scenario.offered_per_s() * scenario.duration_s;
    // Six standard deviations of a Poisson count above its mean: hardly ever grown.
    let mut times_s = Vec::with_capacity((expected + 6.0 * expected.sqrt()) as usize + 16);
    let mut ends = Vec::with_capacity(scenario.tenants as usize);
    for load in scenario.loads() {
        let mut time_s = 0.0;
        loop {
            time_s += load.mean_gap_s * stream.standard_exponential();
            // The draw that ends a tenant's stream is consumed: the next tenant's begins after it.
            if time_s >= scenario.duration_s {
                break;
            }
            times_s.push(time_s);
        }
        ends.push(times_s.len());
    }
    Streams { times_s, ends }
}

/// Up to this many streams, a fixed tournament among the heads is faster than a general sort.
const FEW: usize = 8;

impl Streams {
    fn merge(&self) -> Arrivals {
        if self.ends.len() <= FEW {
            self.merge_few()
        } else {
            self.merge_many()
        }
    }

    fn merge_few(&self) -> Arrivals {
        let count = self.times_s.len();
        let mut merged = Arrivals {
            times_s: Vec::with_capacity(count),
            tenants: Vec::with_capacity(count),
        };
        let mut next = [0_usize; FEW];
        let mut heads = [f64::INFINITY.to_bits(); FEW];
        for tenant in 0..self.ends.len() {
            next[tenant] = if tenant == 0 {
                0
            } else {
                self.ends[tenant - 1]
            };
            heads[tenant] = self.head(tenant, next[tenant]);
        }
        for _ in 0..count {
            let (time_bits, first) = earliest(&heads);
            merged.times_s.push(f64::from_bits(time_bits));
            merged.tenants.push(first as u16);
            next[first] += 1;
            heads[first] = self.head(first, next[first]);
        }
        merged
    }

    fn head(&self, tenant: usize, place: usize) -> u64 {
        let is_there = place < self.ends[tenant];
        if is_there {
            self.times_s[place]
        } else {
            f64::INFINITY
        }
        .to_bits()
    }

    fn merge_many(&self) -> Arrivals {
        let mut all = Vec::with_capacity(self.times_s.len());
        let mut start = 0;
        for (tenant, end) in (0_u16..).zip(&self.ends) {
            all.extend(
                self.times_s[start..*end]
                    .iter()
                    .map(|time_s| (*time_s, tenant)),
            );
            start = *end;
        }
        // Stable, so that equal times stay in tenant order; and it merges the runs it finds.
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (times_s, tenants) = all.into_iter().unzip();
        Arrivals { times_s, tenants }
    }
}

/// The smallest head and its place, the first of equal ones. Bits of floats that are not negative
/// order as the floats do. Which stream is next is as good as random, so every match is decided by
/// a select and none by a branch.
#[inline]
fn earliest(heads: &[u64; FEW]) -> (u64, usize) {
    let earlier = |a: (u64, usize), b: (u64, usize)| {
        let is_b = b.0 < a.0;
        let select = std::hint::select_unpredictable::<u64>;
        (
            select(is_b, b.0, a.0),
            std::hint::select_unpredictable(is_b, b.1, a.1),
        )
    };
    let first_round: [(u64, usize); FEW / 2] = std::array::from_fn(|pair| {
        let place = 2 * pair;
        earlier((heads[place], place), (heads[place + 1], place + 1))
    });
    let [a, b, c, d] = first_round;
    earlier(earlier(a, b), earlier(c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_merges_order_by_time_then_tenant() {
        let streams = || Streams {
            times_s: vec![1.0, 2.0, 5.0, 0.5, 2.0, 2.0, 3.0],
            ends: vec![3, 5, 5, 7],
        };
        let few = streams().merge_few();
        let expected = [
            (0.5, 1),
            (1.0, 0),
            (2.0, 0),
            (2.0, 1),
            (2.0, 3),
            (3.0, 3),
            (5.0, 0),
        ];
        assert_eq!(few.iter().collect::<Vec<_>>(), expected);
        assert_eq!(streams().merge_many(), few);
    }
}
