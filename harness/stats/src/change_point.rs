//! Where a series changes: an alarm for the last values, and change points of a history.

use statrs::distribution::{ContinuousCDF, Normal};

use super::schedule::ScheduleRng;
use super::summary::moments;
use crate::estimate::{NoEstimate, require_series};
use crate::student_t::two_sided_p;

// Self-starting CUSUM: an alarm for a series whose mean and spread are not known beforehand.
//
// Hawkins, "Self-starting CUSUM charts for location and scale", The Statistician 36(4), 1987: each
// value is standardised by the mean and the deviation of those before it, and Student's t becomes
// normal. Values of a quiet series are then independent and standard normal from the third on, so
// a chart needs no baseline period, and no baseline that is a little off raises alarms for ever.

/// Half of the smallest shift that the chart is tuned to, in standard deviations.
pub const ALLOWANCE: f64 = 0.5;
/// The sum at which it alarms. In 20,000 simulated quiet series of 60 values 0.5 % reach it, and
/// 1.4 % reach 7; the test below repeats a part of the simulation.
pub const DECISION: f64 = 8.0;

/// Which way a series went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

/// The first alarm of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    /// Position of the value that raised it, counted from 0.
    pub at: usize,
    /// Which way the series went.
    pub direction: Direction,
}

/// The first alarm; `None` for a quiet series, and for one of under three values.
///
/// Before the third value there is no deviation. Values equal to all before them count as 0, and a
/// first different one after equal ones as the largest score.
/// Fails with [`NoEstimate::NotFinite`] for a bad value.
pub fn first_alarm(values: &[f64]) -> Result<Option<Alarm>, NoEstimate> {
    require_series("values", values, 0)?;
    let (mut up, mut down) = (0.0_f64, 0.0_f64);
    for at in 2..values.len() {
        let score = score(&values[..at], values[at])?;
        up = (up + score - ALLOWANCE).max(0.0);
        down = (down - score - ALLOWANCE).max(0.0);
        let direction = if up >= DECISION {
            Direction::Up
        } else if down >= DECISION {
            Direction::Down
        } else {
            continue;
        };
        return Ok(Some(Alarm { at, direction }));
    }
    Ok(None)
}

/// The normal score of a value after those before it.
fn score(before: &[f64], value: f64) -> Result<f64, NoEstimate> {
    let known = moments(before)?;
    let n = f64::from(known.n);
    let distance = value - known.mean;
    if distance == 0.0 {
        return Ok(0.0);
    }
    // The deviation of a prediction. Without spread the quotient is infinite, and p is 0.
    let t = distance / (known.sd * (1.0 + 1.0 / n).sqrt());
    let tail = (two_sided_p(t, n - 1.0)? / 2.0).max(f64::MIN_POSITIVE);
    Ok(-Normal::standard().inverse_cdf(tail) * distance.signum())
}

// E-divisive: where the distribution of a series changes.
//
// Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate
// data", JASA 109(505), 2014, with exponent 1 and one dimension: the split with the largest energy
// distance, tested by permutation, then both parts again.

/// Energies of the same partition differ by rounding with the order of its values.
const EQUAL: f64 = 1.0 - 1e-9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    /// Fewest values of a part, at least 2.
    pub part_min: usize,
    /// Permutations of each test. A split counts where none of them has an energy as large, so the
    /// error of one test is `1 / (permutations + 1)`.
    pub permutations: u32,
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self { part_min: 5, permutations: 999, seed: 1 }
    }
}

/// The positions at which a new part begins, rising; empty for a series without a change.
/// Fails with [`NoEstimate::NotFinite`] for a bad value.
pub fn change_points(values: &[f64], search: Search) -> Result<Vec<usize>, NoEstimate> {
    require_series("values", values, 0)?;
    let mut found = Vec::new();
    let mut rng = ScheduleRng::new(search.seed);
    let part_min = search.part_min.max(2);
    let mut parts = vec![(0, values.len())];
    while let Some((start, end)) = parts.pop() {
        let part = Ranked::of(&values[start..end]);
        let Some((split, energy)) = best_split(&part, part_min) else { continue };
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
    pairs: f64,
}

#[derive(Clone, Copy)]
struct Value {
    value: f64,
    /// Its position in the order of values, from 0.
    rank: usize,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScheduleRng;

    fn normal(rng: &mut ScheduleRng) -> f64 {
        (2.0 * rng.exponential()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
    }

    #[test]
    fn at_most_one_quiet_series_in_a_hundred_alarms() {
        let mut rng = ScheduleRng::new(1);
        let alarms = (0..1000)
            .filter(|_| {
                let series: Vec<f64> = (0..60).map(|_| 5.0 + 0.01 * normal(&mut rng)).collect();
                first_alarm(&series).unwrap().is_some()
            })
            .count();
        assert!(alarms <= 10, "{alarms} of 1000");
    }

    #[test]
    fn a_step_of_three_deviations_alarms_within_a_few_values() {
        let mut rng = ScheduleRng::new(2);
        let mut late = 0;
        for _ in 0..200 {
            let series: Vec<f64> =
                (0..60).map(|at| normal(&mut rng) - if at < 30 { 0.0 } else { 3.0 }).collect();
            let alarm = first_alarm(&series).unwrap();
            let is_soon =
                alarm.is_some_and(|a| (30..38).contains(&a.at) && a.direction == Direction::Down);
            late += u32::from(!is_soon);
        }
        assert!(late <= 10, "{late} of 200");
    }

    #[test]
    fn constant_series_are_quiet_and_short_ones_have_no_alarm() {
        assert_eq!(first_alarm(&[1.0; 20]).unwrap(), None);
        assert_eq!(first_alarm(&[1.0, 9.0]).unwrap(), None);
        assert_eq!(first_alarm(&[]).unwrap(), None);
        let stepped = [1.0, 1.0, 1.0, 2.0];
        let alarm = first_alarm(&stepped).unwrap().unwrap();
        assert_eq!((alarm.at, alarm.direction), (3, Direction::Up));
        assert!(first_alarm(&[1.0, f64::NAN, 1.0]).is_err());
    }

    /// `scipy.stats.norm.isf(scipy.stats.t.sf(t, 3))` with mean and deviation of 1 to 4.
    #[test]
    fn scores_equal_scipy() {
        let actual = score(&[1.0, 2.0, 3.0, 4.0], 6.0).unwrap();
        assert!((actual - SCORE).abs() < 1e-8, "{actual}");
        assert!((score(&[1.0, 2.0, 3.0, 4.0], -1.0).unwrap() + SCORE).abs() < 1e-8);
    }

    const SCORE: f64 = 1.675_893_065_906_225_9;

    fn found(values: &[f64]) -> Vec<usize> {
        change_points(values, Search::default()).unwrap()
    }

    /// The published fixtures of MongoDB's signal-processing-algorithms (tests of `e_divisive`):
    /// as many zeros as ones. Of under 13 each, 999 permutations can repeat the step by chance.
    #[test]
    fn steps_without_noise_are_found_exactly() {
        for length in (13..100).step_by(7).chain([100]) {
            let mut values = vec![0.0; length];
            values.extend(vec![1.0; length]);
            assert_eq!(found(&values), [length]);
        }
        assert_eq!(found(&[3.0; 50]), []);
        assert_eq!(found(&[0.1; 50]), []);
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[0.0, 1.0]), []);
    }

    /// The values 50 with others from some positions on.
    fn fifties(length: usize, changes: &[(std::ops::Range<usize>, f64)]) -> Vec<f64> {
        let mut values = vec![50.0; length];
        for (range, value) in changes {
            values[range.clone()].fill(*value);
        }
        values
    }

    /// Change points and, where it is published, the energy of the first split, of the tests of the
    /// same package (`tests/test_detection.py`).
    #[test]
    fn published_change_points_and_energies_are_found() {
        // As many permutations as there.
        let published = Search { permutations: 100, ..Search::default() };
        let three_ranges = [
            41, 18, 23, 3, 32, 11, 40, 13, 29, 48, 47, 35, 18, 21, 6, 2, 23, 3, 4, 7, 120, 103,
            102, 81, 71, 62, 115, 61, 108, 63, 70, 98, 65, 96, 64, 74, 70, 113, 90, 114, 208, 196,
            153, 150, 225, 179, 206, 165, 177, 151, 218, 217, 244, 245, 229, 195, 225, 229, 176,
            250,
        ];
        let outliers = [(2..3, 100.0), (15..30, 100.0), (32..33, 100.0)];
        let two = [(2..3, 100.0), (15..30, 100.0), (30..45, 150.0)];
        for (values, points, energy) in [
            (three_ranges.map(f64::from).to_vec(), vec![20, 40], Some(2_848.116_959_064_327_6)),
            (fifties(30, &[(15..30, 100.0)]), vec![15], None),
            (fifties(30, &[(14..15, 74.0), (15..30, 100.0)]), vec![15], None),
            (fifties(30, &[(14..15, 76.0), (15..30, 100.0)]), vec![14], None),
            (fifties(30, &[(2..3, 100.0), (15..30, 100.0)]), vec![15], Some(650.0)),
            (fifties(45, &outliers), vec![15, 33], None),
            (fifties(45, &two), vec![15, 30], Some(1_209.195_402_298_850_5)),
            (fifties(30, &[]), vec![], None),
        ] {
            assert_eq!(change_points(&values, published).unwrap(), points, "{values:?}");
            if let Some(energy) = energy {
                let first = best_split(&Ranked::of(&values), 5).map(|(_, energy)| energy);
                let close = first.is_some_and(|first| (first / energy - 1.0).abs() < 1e-12);
                assert!(close, "{first:?}, published {energy}");
            }
        }
    }

    #[test]
    fn two_steps_are_both_found() {
        let mut rng = ScheduleRng::new(4);
        let values: Vec<f64> = (0..90)
            .map(|at| 0.1 * normal(&mut rng) + f64::from(at >= 30) - 2.0 * f64::from(at >= 60))
            .collect();
        assert_eq!(found(&values), [30, 60]);
    }

    #[test]
    fn a_step_of_three_deviations_is_located_within_one_value() {
        const SEEDS: u64 = 1000;
        let is_located = |seed: u64| {
            let mut rng = ScheduleRng::new(seed);
            let values: Vec<f64> =
                (0..60).map(|at| normal(&mut rng) + 3.0 * f64::from(at >= 33)).collect();
            matches!(found(&values).as_slice(), [at] if (32..=34).contains(at))
        };
        let located = (0..SEEDS).filter(|seed| is_located(*seed)).count();
        assert!(located >= 900, "{located} of {SEEDS}");
    }

    #[test]
    fn quiet_series_are_left_whole() {
        let alarms = (0..1000_u64)
            .filter(|seed| {
                let mut rng = ScheduleRng::new(1_000 + seed);
                let values: Vec<f64> = (0..60).map(|_| normal(&mut rng)).collect();
                !found(&values).is_empty()
            })
            .count();
        assert!(alarms <= 10, "{alarms} of 1000");
    }
}
