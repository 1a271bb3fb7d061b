//! E-divisive: where the distribution of a series changes.
//!
//! Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate
//! data", JASA 109(505), 2014, with exponent 1 and one dimension: the split with the largest energy
//! distance, tested by permutation, then both parts again.

#[cfg(test)]
mod tests;

use crate::estimate::{NoEstimate, require_series};
use crate::rng::ScheduleRng;

/// Energies of the same partition differ by rounding with the order of its values.
const EQUAL: f64 = 1.0 - 1e-9;

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    /// Fewest values of a part, at least 2.
    pub part_min: usize,
    /// Permutations of each test. A split counts where none of them has an energy as large, so the
    /// error of one test is `1 / (permutations + 1)`.
    pub permutations: u32,
    /// Seed of the permutations.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self { part_min: 5, permutations: 999, seed: 1 }
    }
}

/// The positions at which a new part begins, rising; empty for a series without a change.
///
/// # Errors
/// [`NoEstimate::NotFinite`] for a bad value.
pub fn change_points(values: &[f64], search: Search) -> Result<Vec<usize>, NoEstimate> {
    require_series("values", values, 0)?;
    let mut found = Vec::new();
    let mut rng = ScheduleRng::new(search.seed);
    let part_min = search.part_min.max(2);
    let mut parts = vec![(0, values.len())];
    while let Some((start, end)) = parts.pop() {
        let part = Ranked::of(&values[start..end]);
        let Some((split, energy)) = best_split(&part, part_min) else {
            continue;
        };
        if !is_significant(&part, energy, part_min, search, &mut rng) {
            continue;
        }
        let middle = start + split;
        found.push(middle);
        parts.extend([(start, middle), (middle, end)]);
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether no permutation has an energy as large; the first one that has ends the test.
fn is_significant(
    part: &Ranked,
    energy: f64,
    part_min: usize,
    search: Search,
    rng: &mut ScheduleRng,
) -> bool {
    let mut permuted = part.clone();
    (0..search.permutations).all(|_| {
        rng.shuffle(&mut permuted.values);
        best_split(&permuted, part_min).is_none_or(|(_, other)| other < energy * EQUAL)
    })
}

/// Values with what a permutation keeps.
#[derive(Clone)]
struct Ranked {
    values: Vec<Value>,
    /// The sum of the distances of all pairs.
    pairs: f64,
}

#[derive(Clone, Copy)]
struct Value {
    value: f64,
    /// Its position in the order of values, from 0.
    rank: usize,
    /// The sum of its distances to all values.
    to_all: f64,
}

impl Ranked {
    fn of(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
        // Sums of values that are all far from zero would cancel; distances have no origin.
        let origin = values.first().copied().unwrap_or(0.0);
        let mut ranked: Vec<Value> = values
            .iter()
            .map(|value| Value {
                value: value - origin,
                rank: 0,
                to_all: values.iter().map(|other| (value - other).abs()).sum(),
            })
            .collect();
        for (rank, at) in order.into_iter().enumerate() {
            ranked[at].rank = rank;
        }
        let twice: f64 = ranked.iter().map(|one| one.to_all).sum();
        Self { values: ranked, pairs: twice / 2.0 }
    }
}

/// Counts and sums of values by rank (Fenwick, Software: Practice and Experience 24(3), 1994).
struct Sums(Vec<(f64, f64)>);

impl Sums {
    fn add(&mut self, one: Value) {
        let mut at = one.rank + 1;
        while at <= self.0.len() {
            let (count, sum) = &mut self.0[at - 1];
            (*count, *sum) = (*count + 1.0, *sum + one.value);
            at += at & at.wrapping_neg();
        }
    }

    /// The number and the sum of the values up to a rank.
    fn up_to(&self, rank: usize) -> (f64, f64) {
        let (mut count, mut sum) = (0.0, 0.0);
        let mut at = rank + 1;
        while at > 0 {
            let (more, value) = self.0[at - 1];
            (count, sum) = (count + more, sum + value);
            at &= at - 1;
        }
        (count, sum)
    }
}

/// The split with the largest energy; `None` where a part would be too short or nothing differs.
///
/// Sums of distances follow from those of the split before: the value that moves from the right to
/// the left takes its distances with it. Those to the left follow from counts and sums of smaller
/// and larger values.
fn best_split(part: &Ranked, part_min: usize) -> Option<(usize, f64)> {
    let n = part.values.len();
    let mut sums = Sums(vec![(0.0, 0.0); n]);
    let (mut left, mut right, mut between) = (0.0, part.pairs, 0.0);
    let mut total = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for (at, one) in part.values.iter().enumerate() {
        let (count, sum) = sums.up_to(one.rank);
        let smaller = one.value * count - sum;
        let larger = (total - sum) - one.value * (at as f64 - count);
        let to_left = smaller + larger;
        let to_right = one.to_all - to_left;
        sums.add(*one);
        total += one.value;
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        let split = at + 1;
        if split < part_min || n - split < part_min {
            continue;
        }
        let energy = energy(left, between, right, split, n - split);
        if energy > best.map_or(0.0, |(_, best)| best) {
            best = Some((split, energy));
        }
    }
    best
}

/// `m n / (m + n) * (2 B / (m n) - A / C(m, 2) - C / C(n, 2))`, with the sums of distances between
/// the parts and over the pairs within each.
fn energy(within_m: f64, between: f64, within_n: f64, m: usize, n: usize) -> f64 {
    let (m, n) = (m as f64, n as f64);
    let pairs = |n: f64| n * (n - 1.0) / 2.0;
    m * n / (m + n) * (2.0 * between / (m * n) - within_m / pairs(m) - within_n / pairs(n))
}
