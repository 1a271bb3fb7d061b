//! Exact quantiles of a sorted series: linear interpolation and nearest rank.
//!
//! No sketch and no histogram: a cell holds about ten thousand raw samples, which sort in a
//! millisecond, and a verdict must not depend on bucket edges.

use statrs::function::beta::beta_reg;

use super::estimate::Confidence;
use crate::estimate::{
    Estimate, NoEstimate, require_finite_result, require_open_unit, require_series,
};
use crate::proportion::require_trials;

/// A non-empty series of finite numbers in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub struct Sorted {
    values: Vec<f64>,
    n: u32,
}

impl Sorted {
    /// Sorts a series of any order.
    /// Fails with [`NoEstimate::TooFew`] for an empty series, [`NoEstimate::NotFinite`] for a bad
    /// value.
    pub fn new(mut values: Vec<f64>) -> Result<Self, NoEstimate> {
        let n = require_series("values", &values, 1)?;
        values.sort_unstable_by(f64::total_cmp);
        Ok(Self { values, n })
    }

    /// Sorts durations in nanoseconds; the quantiles are in nanoseconds.
    /// Fails with [`NoEstimate::TooFew`] for an empty series; [`NoEstimate::OutOfRange`] for a
    /// duration of 2^53 ns (104 days) or more, which a 64-bit float would round.
    pub fn from_ns(durations_ns: &[u64]) -> Result<Self, NoEstimate> {
        const EXACT_NS: u64 = 1 << f64::MANTISSA_DIGITS;
        if let Some(&beyond) = durations_ns.iter().find(|&&d| d >= EXACT_NS) {
            let accepted = "below 2^53 ns";
            let value = beyond as f64;
            return Err(NoEstimate::OutOfRange { what: "a duration", value, accepted });
        }
        Self::new(durations_ns.iter().map(|&d| d as f64).collect())
    }

    /// The values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// How many values there are; never zero.
    pub fn count(&self) -> u32 {
        self.n
    }

    pub fn min(&self) -> f64 {
        self.values[0]
    }

    pub fn max(&self) -> f64 {
        self.values[self.values.len() - 1]
    }

    /// The `p` quantile by linear interpolation between order statistics, NumPy's default
    /// (type 7 of Hyndman and Fan, The American Statistician 50(4), 1996).
    /// Fails with [`NoEstimate::OutOfRange`] unless `0 <= p <= 1`; [`NoEstimate::Overflow`] when
    /// two neighbours are further apart than a float can represent.
    pub fn linear(&self, p: f64) -> Result<f64, NoEstimate> {
        require_unit(p)?;
        let position = p * f64::from(self.n - 1);
        let below = position.floor();
        let fraction = position - below;
        let index = below as usize;
        let a = self.values[index];
        let b = self.values[(index + 1).min(self.values.len() - 1)];
        // NumPy's interpolation, equal to the last bit: it starts at the nearer neighbour, so both
        // ends are exact and no result leaves [a, b].
        let step = require_finite_result("distance of neighbours", b - a)?;
        Ok(if fraction < 0.5 { a + step * fraction } else { b - step * (1.0 - fraction) })
    }

    /// The `p` quantile, median-unbiased whatever the distribution (type 8 of Hyndman and Fan).
    /// Fails as for [`Sorted::linear`].
    pub fn median_unbiased(&self, p: f64) -> Result<f64, NoEstimate> {
        require_unit(p)?;
        let n = f64::from(self.n);
        let position = (p * (n + 1.0 / 3.0) + 1.0 / 3.0 - 1.0).clamp(0.0, n - 1.0);
        self.linear(if self.n > 1 { position / (n - 1.0) } else { 0.0 })
    }

    /// The `p` quantile by nearest rank: the smallest value with at least a share `p` of all values
    /// at or below it. It is always one of the values (type 1 of Hyndman and Fan).
    /// Fails with [`NoEstimate::OutOfRange`] unless `0 <= p <= 1`.
    pub fn nearest_rank(&self, p: f64) -> Result<f64, NoEstimate> {
        require_unit(p)?;
        let n = f64::from(self.n);
        // 0.07 * 100 is 7.000000000000001 in floats, and the rank must be 7.
        let exact = p * n;
        let near = exact.round();
        let rank = if (exact - near).abs() <= 4.0 * f64::EPSILON * n { near } else { exact.ceil() };
        let index = (rank as usize).max(1) - 1;
        Ok(self.values[index.min(self.values.len() - 1)])
    }

    /// The median, by linear interpolation.
    /// Fails with [`NoEstimate::Overflow`] as for [`Sorted::linear`].
    pub fn median(&self) -> Result<f64, NoEstimate> {
        self.linear(0.5)
    }
}

fn require_unit(p: f64) -> Result<(), NoEstimate> {
    if (0.0..=1.0).contains(&p) {
        Ok(())
    } else {
        let accepted = "0 to 1";
        Err(NoEstimate::OutOfRange { what: "a quantile's probability", value: p, accepted })
    }
}

// Distribution-free intervals for a quantile, from the ranks of order statistics.
//
// The number of `n` independent values below the true quantile is binomial, so two ranks bracket
// the quantile for every distribution (David and Nagaraja, "Order Statistics", 2003, section 7.1).
// Latencies of one open-loop cell are correlated: such an interval then covers too rarely, by far
// at high load. See [`super::serial`] and [`crate::serial`].

/// Ranks, counted from 1, of the order statistics that bracket a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// The lower rank; `None` when too few values leave the interval open below.
    pub lower: Option<u32>,
    /// The upper rank; `None` when too few values leave the interval open above.
    pub upper: Option<u32>,
}

/// The ranks for the `p` quantile of `n` values, half of the error in each tail.
/// Fails with [`NoEstimate::OutOfRange`] unless `0 < p < 1`, or for more than
/// [`crate::proportion::TRIALS_MAX`] values; [`NoEstimate::TooFew`] for no value.
pub fn ranks(n: u32, p: f64, confidence: Confidence) -> Result<Ranks, NoEstimate> {
    require_open_unit("a quantile's probability", p)?;
    if n == 0 {
        return Err(NoEstimate::TooFew { what: "values", have: 0, need: 1 });
    }
    require_trials(n)?;
    let tail = confidence.alpha() / 2.0;
    // lower: the largest l with P(fewer than l values below) = B(l - 1) <= tail.
    let lower = first_true(n, |below| 1.0 - at_least(below + 1, n, p) > tail);
    // upper: the smallest u with P(u values or more below) = 1 - B(u - 1) <= tail.
    let upper = first_true(n, |below| at_least(below + 1, n, p) <= tail);
    Ok(Ranks { lower: (lower > 0).then_some(lower), upper: (upper < n).then_some(upper + 1) })
}

/// The fewest values for which the `p` quantile has a finite upper bound: `p^n <= alpha / 2`.
/// Fails with [`NoEstimate::OutOfRange`] unless `0 < p < 1`; [`NoEstimate::Unbounded`] when the
/// number does not fit 32 bits.
pub fn smallest_n_for_upper_bound(p: f64, confidence: Confidence) -> Result<u32, NoEstimate> {
    require_open_unit("a quantile's probability", p)?;
    let n = ((confidence.alpha() / 2.0).ln() / p.ln()).ceil().max(1.0);
    if n <= f64::from(u32::MAX) {
        Ok(n as u32)
    } else {
        Err(NoEstimate::Unbounded { what: "the number of values for a finite bound" })
    }
}

impl Sorted {
    /// The `p` quantile (linear) between the order statistics that bracket it; `n` counts values.
    /// Fails with [`NoEstimate::TooFew`] with the number needed when either bound does not exist.
    pub fn order_interval(&self, p: f64, confidence: Confidence) -> Result<Estimate, NoEstimate> {
        let Ranks { lower: Some(lower), upper: Some(upper) } = ranks(self.count(), p, confidence)?
        else {
            let need = smallest_n_for_upper_bound(p.max(1.0 - p), confidence)?;
            let have = u64::from(self.count());
            return Err(NoEstimate::TooFew { what: "values", have, need: u64::from(need) });
        };
        let at = |rank: u32| self.values()[rank as usize - 1];
        Estimate::new(self.linear(p)?, at(lower), at(upper), self.count())
    }
}

/// P(X >= k) for X binomial(n, p): the incomplete beta function I_p(k, n - k + 1).
fn at_least(k: u32, n: u32, p: f64) -> f64 {
    match k {
        0 => 1.0,
        k if k > n => 0.0,
        k if k == n => p.powf(f64::from(n)),
        k => beta_reg(f64::from(k), f64::from(n - k) + 1.0, p),
    }
}

/// The smallest number in `0..n` for which a monotone predicate holds, or `n`.
fn first_true(n: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut lo, mut hi) = (0, n);
    while lo < hi {
        let middle = lo + (hi - lo) / 2;
        if holds(middle) {
            hi = middle;
        } else {
            lo = middle + 1;
        }
    }
    lo
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Sorted {
        Sorted::new(vec![15.0, 20.0, 35.0, 40.0, 50.0, 12.5, 80.25, 33.0]).unwrap()
    }

    /// `numpy.quantile(x, p)` and `numpy.quantile(x, p, method='inverted_cdf')`, NumPy 2.4.6.
    #[test]
    fn equals_numpy() {
        for (p, linear, nearest) in [
            (0.0, 12.5, 12.5),
            (0.1, 14.25, 12.5),
            (0.25, 18.75, 15.0),
            (0.3, 21.3, 20.0),
            (0.5, 34.0, 33.0),
            (0.75, 42.5, 40.0),
            (0.9, 59.074_999_999_999_996, 80.25),
            (0.99, 78.132_5, 80.25),
            (1.0, 80.25, 80.25),
        ] {
            assert_eq!(series().linear(p).unwrap(), linear, "linear at {p}");
            assert_eq!(series().nearest_rank(p).unwrap(), nearest, "nearest rank at {p}");
        }
    }

    /// `numpy.quantile([0.1, 1.3], 0.6)`; from the far neighbour it would be 0.82.
    #[test]
    fn equals_numpy_in_the_last_digit() {
        let two = Sorted::new(vec![0.1, 1.3]).unwrap();
        assert_eq!(two.linear(0.6).unwrap(), 0.820_000_000_000_000_1);
    }

    #[test]
    fn nearest_rank_is_not_pushed_up_by_rounding() {
        let hundred = Sorted::new((1..=100).map(f64::from).collect()).unwrap();
        for percent in 1..=100_u32 {
            let p = f64::from(percent) / 100.0;
            assert_eq!(hundred.nearest_rank(p).unwrap(), f64::from(percent), "p = {p}");
        }
    }

    #[test]
    fn refuses_empty_series_bad_probabilities_and_long_durations() {
        assert!(Sorted::new(vec![]).is_err());
        assert!(Sorted::new(vec![1.0, f64::NAN]).is_err());
        for p in [-0.01, 1.01, f64::NAN] {
            assert!(series().linear(p).is_err() && series().nearest_rank(p).is_err(), "{p}");
        }
        assert!(Sorted::from_ns(&[1 << 53]).is_err());
        assert_eq!(Sorted::from_ns(&[(1 << 53) - 1, 7]).unwrap().min(), 7.0);
        let wide = Sorted::new(vec![-1.7e308, 1.7e308]).unwrap();
        assert!(matches!(wide.linear(0.5), Err(NoEstimate::Overflow { .. })));
    }

    /// `l = binom.ppf(.025, n, p)`, `u = binom.ppf(.975, n, p) + 1` (SciPy 1.17.1): the smallest
    /// k with cdf(k) >= .025 is the largest l with cdf(l - 1) < .025.
    #[test]
    fn ranks_equal_scipy() {
        for (n, p, lower, upper) in [
            (40000, 0.99, 39561, 39640),
            (20, 0.5, 6, 15),
            (100, 0.9, 84, 96),
            (6, 0.5, 1, 6),
            (368, 0.99, 360, 368),
            (15000, 0.99, 14826, 14874),
            (15000, 0.5, 7380, 7621),
            (1_000_000, 0.5, 499_020, 500_981),
            (1_000_000, 0.99, 989_805, 990_196),
            (50000, 0.999, 49936, 49964),
        ] {
            let actual = ranks(n, p, Confidence::P95).unwrap();
            let expected = Ranks { lower: Some(lower), upper: Some(upper) };
            assert_eq!(actual, expected, "n = {n}, p = {p}");
        }
    }

    #[test]
    fn a_finite_upper_bound_needs_this_many_values() {
        for (p, expected) in [(0.5, 6), (0.9, 36), (0.99, 368), (0.999, 3688), (0.9999, 36_887)] {
            assert_eq!(smallest_n_for_upper_bound(p, Confidence::P95).unwrap(), expected);
            assert!(ranks(expected, p, Confidence::P95).unwrap().upper.is_some());
            assert!(ranks(expected - 1, p, Confidence::P95).unwrap().upper.is_none());
        }
    }

    #[test]
    fn a_short_series_reports_how_many_values_it_needs() {
        let few = Sorted::new((0..367).map(f64::from).collect()).unwrap();
        assert_eq!(
            few.order_interval(0.99, Confidence::P95).unwrap_err(),
            NoEstimate::TooFew { what: "values", have: 367, need: 368 }
        );
        assert_eq!(
            few.order_interval(0.01, Confidence::P95).unwrap_err(),
            NoEstimate::TooFew { what: "values", have: 367, need: 368 }
        );
        let enough = Sorted::new((1..=40_000).map(f64::from).collect()).unwrap();
        let actual = enough.order_interval(0.99, Confidence::P95).unwrap();
        assert_eq!((actual.lo, actual.hi, actual.n), (39_561.0, 39_640.0, 40_000));
    }

    #[test]
    fn a_single_value_has_no_interval() {
        let actual = ranks(1, 0.5, Confidence::P95).unwrap();
        assert_eq!(actual, Ranks { lower: None, upper: None });
        assert!(ranks(0, 0.5, Confidence::P95).is_err());
        assert!(ranks(1_000_001, 0.5, Confidence::P95).is_err());
        assert!(ranks(10, 1.0, Confidence::P95).is_err());
    }
}
