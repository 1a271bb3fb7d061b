//! Distribution-free intervals for a quantile, from the ranks of order statistics.
//!
//! The number of `n` independent values below the true quantile is binomial, so two ranks bracket
//! the quantile for every distribution (David and Nagaraja, "Order Statistics", 2003, section 7.1).
//! Latencies of one open-loop cell are correlated: such an interval then covers too rarely, by far
//! at high load. See [`crate::design_effect`] and [`crate::serial`].

use statrs::function::beta::beta_reg;

use crate::confidence::Confidence;
use crate::estimate::{Estimate, NoEstimate, require_open_unit};
use crate::proportion::require_trials;
use crate::quantile::Sorted;

/// Ranks, counted from 1, of the order statistics that bracket a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// The lower rank; `None` when too few values leave the interval open below.
    pub lower: Option<u32>,
    /// The upper rank; `None` when too few values leave the interval open above.
    pub upper: Option<u32>,
}

/// The ranks for the `p` quantile of `n` values, half of the error in each tail.
///
/// # Errors
/// [`NoEstimate::OutOfRange`] unless `0 < p < 1`, or for more than
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
///
/// # Errors
/// [`NoEstimate::OutOfRange`] unless `0 < p < 1`; [`NoEstimate::Unbounded`] when the number does
/// not fit 32 bits.
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
    ///
    /// # Errors
    /// [`NoEstimate::TooFew`] with the number needed when either bound does not exist.
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
