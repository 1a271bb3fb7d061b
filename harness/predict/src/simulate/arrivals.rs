//! Arrivals of the reference model: Poisson streams, drawn by tenant, merged by time.

use super::scenario::Scenario;
use crate::rng::{FastRng, Pcg64, RngKind, Stream};

/// Requests in order of time; equal times in order of tenant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arrivals {
    times_s: Vec<f64>,
    tenants: Vec<u16>,
}

impl Arrivals {
    pub fn len(&self) -> usize {
        self.times_s.len()
    }

    /// Whether no request arrives.
    pub fn is_empty(&self) -> bool {
        self.times_s.is_empty()
    }

    /// Arrival time since the start and tenant of each request.
    pub fn iter(&self) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.times_s.iter().copied().zip(self.tenants.iter().map(|tenant| usize::from(*tenant)))
    }
}

pub fn arrivals(scenario: &Scenario, seed: u64) -> Arrivals {
    arrivals_and_buffer(scenario, seed).0
}

/// All arrivals, and the buffer in which they were drawn. The caller reuses it for latencies:
/// page faults of a new buffer cost more than the model itself.
pub(super) fn arrivals_and_buffer(scenario: &Scenario, seed: u64) -> (Arrivals, Vec<f64>) {
    let streams = match scenario.rng {
        RngKind::Numpy => draw(scenario, &mut Pcg64::new(seed)),
        RngKind::Fast => draw(scenario, &mut FastRng::new(seed)),
    };
    (streams.merge(), streams.times_s)
}

struct Streams {
    times_s: Vec<f64>,
    /// End index of each tenant's stream.
    ends: Vec<usize>,
}

fn draw<S: Stream>(scenario: &Scenario, stream: &mut S) -> Streams {
    let expected = scenario.offered_per_s() * scenario.duration_s;
    // Six standard deviations of a Poisson count above its mean: almost never reallocated.
    let mut times_s = Vec::with_capacity((expected + 6.0 * expected.sqrt()) as usize + 16);
    let mut ends = Vec::with_capacity(scenario.tenants as usize);
    for load in scenario.loads() {
        let mut time_s = 0.0;
        loop {
            time_s += load.mean_gap_s * stream.standard_exponential();
            // The draw past the end is consumed: the next tenant draws the number after it.
            if time_s >= scenario.duration_s {
                break;
            }
            times_s.push(time_s);
        }
        ends.push(times_s.len());
    }
    Streams { times_s, ends }
}

/// Up to this number of streams, a fixed tournament of the heads is faster than a general sort.
const FEW: usize = 8;

impl Streams {
    fn merge(&self) -> Arrivals {
        if self.ends.len() <= FEW { self.merge_few() } else { self.merge_many() }
    }

    fn merge_few(&self) -> Arrivals {
        let count = self.times_s.len();
        let mut merged =
            Arrivals { times_s: Vec::with_capacity(count), tenants: Vec::with_capacity(count) };
        let mut next = [0_usize; FEW];
        let mut heads = [f64::INFINITY.to_bits(); FEW];
        for tenant in 0..self.ends.len() {
            next[tenant] = if tenant == 0 { 0 } else { self.ends[tenant - 1] };
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

    fn head(&self, tenant: usize, index: usize) -> u64 {
        if index < self.ends[tenant] { self.times_s[index] } else { f64::INFINITY }.to_bits()
    }

    fn merge_many(&self) -> Arrivals {
        let mut all = Vec::with_capacity(self.times_s.len());
        let mut start = 0;
        for (tenant, end) in (0_u16..).zip(&self.ends) {
            all.extend(self.times_s[start..*end].iter().map(|time_s| (*time_s, tenant)));
            start = *end;
        }
        // The sort is stable, so equal times stay in tenant order, and it merges sorted runs.
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (times_s, tenants) = all.into_iter().unzip();
        Arrivals { times_s, tenants }
    }
}

/// The smallest head and its index, the first of equal ones. Bits of non-negative floats are
/// ordered like the floats. The next stream is unpredictable, so each match is a select and not a
/// branch.
#[inline]
fn earliest(heads: &[u64; FEW]) -> (u64, usize) {
    let earlier = |a: (u64, usize), b: (u64, usize)| {
        let is_b = b.0 < a.0;
        let select = std::hint::select_unpredictable::<u64>;
        (select(is_b, b.0, a.0), std::hint::select_unpredictable(is_b, b.1, a.1))
    };
    let first_round: [(u64, usize); FEW / 2] = std::array::from_fn(|pair| {
        let index = 2 * pair;
        earlier((heads[index], index), (heads[index + 1], index + 1))
    });
    let [a, b, c, d] = first_round;
    earlier(earlier(a, b), earlier(c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_merges_order_by_time_then_tenant() {
        let streams =
            || Streams { times_s: vec![1.0, 2.0, 5.0, 0.5, 2.0, 2.0, 3.0], ends: vec![3, 5, 5, 7] };
        let few = streams().merge_few();
        let expected = [(0.5, 1), (1.0, 0), (2.0, 0), (2.0, 1), (2.0, 3), (3.0, 3), (5.0, 0)];
        assert_eq!(few.iter().collect::<Vec<_>>(), expected);
        assert_eq!(streams().merge_many(), few);
    }
}
