//! Fieller's interval for a ratio of two means, and the isolation index derived from it.
//!
//! Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 16(2), 1954. The interval
//! is the set of ratios r that a t test of `mean x - r * mean y = 0` does not reject: between the
//! roots of `(y^2 - t^2 s_yy) r^2 - 2 (x y - t^2 s_xy) r + (x^2 - t^2 s_xx) = 0` when y differs
//! from zero, and unbounded otherwise. The type distinguishes the cases: an unbounded set written
//! as two numbers would look like a result.

use crate::confidence::Confidence;
use crate::estimate::{
    Estimate, NoEstimate, require_equal_lengths, require_finite_result, require_series,
};
use crate::moments::{Moments, covariance, moments};
use crate::student_t::two_sided_quantile;

/// The set of ratios that the data do not reject at the confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RatioSet {
    /// An ordinary interval.
    Bounded(Estimate),
    /// Everything except the open gap between two numbers: the denominator may be zero, but the
    /// data still exclude some ratios.
    Outside {
        /// The point estimate.
        value: f64,
        /// Ratios at or below this one are not rejected.
        below: f64,
        /// Ratios at or above this one are not rejected.
        above: f64,
        /// Number of blocks.
        n: u32,
    },
    /// No ratio is rejected. There is no point estimate when the denominator is exactly zero.
    Everything {
        /// The point estimate, if there is one.
        value: Option<f64>,
        /// Number of blocks.
        n: u32,
    },
}

impl RatioSet {
    /// The ordinary interval, or the reason why there is none.
    ///
    /// # Errors
    /// [`NoEstimate::Unbounded`] unless the set is an ordinary interval.
    pub fn bounded(self) -> Result<Estimate, NoEstimate> {
        match self {
            Self::Bounded(estimate) => Ok(estimate),
            Self::Outside { .. } | Self::Everything { .. } => {
                Err(NoEstimate::Unbounded { what: "the ratio of means" })
            }
        }
    }
}

/// Mean of `x` over mean of `y`, measured in the same blocks: uses their covariance and `B - 1`
/// degrees of freedom.
///
/// # Errors
/// [`NoEstimate::Unequal`], [`NoEstimate::TooFew`] for under two blocks, [`NoEstimate::NotFinite`].
pub fn paired(x: &[f64], y: &[f64], confidence: Confidence) -> Result<RatioSet, NoEstimate> {
    require_equal_lengths(x, y)?;
    let n = require_series("blocks", x, 2)?;
    let shared = covariance(x, y)? / f64::from(n);
    let df = f64::from(n - 1);
    solve(moments(x)?, moments(y)?, shared, df, confidence)
}

/// Mean of `x` over mean of `y`, measured in different blocks: no covariance, and the degrees of
/// freedom of the shorter series, which makes the set wider, never narrower.
///
/// # Errors
/// [`NoEstimate::TooFew`] for under two blocks in either series, [`NoEstimate::NotFinite`].
pub fn independent(x: &[f64], y: &[f64], confidence: Confidence) -> Result<RatioSet, NoEstimate> {
    let (of_x, of_y) = (moments(x)?, moments(y)?);
    let df = f64::from(of_x.n.min(of_y.n) - 1);
    solve(of_x, of_y, 0.0, df, confidence)
}

/// The isolation index `I = 1 - ln R / ln U` from the set of `ln R / ln U`: 1 when the neighbour
/// has no effect, 0 when the mechanism prevents nothing, below 0 when it makes the effect worse.
///
/// # Errors
/// [`NoEstimate::Overflow`] when the set leaves the range of the float.
pub fn isolation_index(retention_over_effectiveness: RatioSet) -> Result<RatioSet, NoEstimate> {
    let mirror = |ratio: f64| 1.0 - ratio;
    Ok(match retention_over_effectiveness {
        RatioSet::Bounded(estimate) => RatioSet::Bounded(estimate.map_decreasing(mirror)?),
        RatioSet::Outside { value, below, above, n } => RatioSet::Outside {
            value: mirror(value),
            below: mirror(above),
            above: mirror(below),
            n,
        },
        RatioSet::Everything { value, n } => RatioSet::Everything { value: value.map(mirror), n },
    })
}

fn solve(
    x: Moments,
    y: Moments,
    s_xy: f64,
    df: f64,
    confidence: Confidence,
) -> Result<RatioSet, NoEstimate> {
    let n = x.n.min(y.n);
    let t2 = two_sided_quantile(confidence.alpha(), df)?.powi(2);
    let (s_xx, s_yy) = (x.sd.powi(2) / f64::from(x.n), y.sd.powi(2) / f64::from(y.n));
    let square = y.mean.powi(2) - t2 * s_yy;
    let linear = x.mean * y.mean - t2 * s_xy;
    // A quarter of the discriminant, expanded so that the large terms x^2 y^2 cancel in algebra and
    // not in floats. It is not negative when `square` is positive, except by rounding.
    let spread = x.mean.powi(2) * s_yy - 2.0 * x.mean * y.mean * s_xy + y.mean.powi(2) * s_xx;
    let quarter = t2 * (spread - t2 * (s_xx * s_yy - s_xy.powi(2)));
    for (what, figure) in [("Fieller's quadratic", square), ("Fieller's discriminant", quarter)] {
        require_finite_result(what, figure)?;
    }
    let value = x.mean / y.mean;
    if y.mean == 0.0 {
        return Ok(RatioSet::Everything { value: None, n });
    }
    require_finite_result("ratio of means", value)?;
    if square > 0.0 {
        let root = quarter.max(0.0).sqrt();
        let (lo, hi) = ((linear - root) / square, (linear + root) / square);
        // The estimate lies between the roots; rounding must not move it outside where they
        // coincide.
        return Estimate::new(value, lo.min(value), hi.max(value), n).map(RatioSet::Bounded);
    }
    if square < 0.0 && quarter > 0.0 {
        let root = quarter.sqrt();
        let (below, above) = ((linear + root) / square, (linear - root) / square);
        require_finite_result("ratio of means", below)?;
        require_finite_result("ratio of means", above)?;
        return Ok(RatioSet::Outside { value, below, above, n });
    }
    Ok(RatioSet::Everything { value: Some(value), n })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invented logs of a retention near 0.9 and an effectiveness near 0.5.
    const LN_R: [f64; 8] = [-0.105, -0.112, -0.098, -0.120, -0.101, -0.108, -0.095, -0.110];
    const LN_U: [f64; 8] = [-0.690, -0.702, -0.671, -0.715, -0.688, -0.699, -0.665, -0.705];

    fn close(actual: f64, expected: f64) {
        assert!(
            (actual - expected).abs() < 1e-9 * expected.abs(),
            "actual {actual}, expected {expected}"
        );
    }

    /// The ends are where `scipy.stats.ttest_1samp(x - r * y, 0).pvalue` is 0.05, by
    /// `scipy.optimize.brentq`: the definition of the set, without the quadratic.
    #[test]
    fn paired_bounds_are_where_the_t_test_rejects() {
        let actual = paired(&LN_R, &LN_U, Confidence::P95).unwrap().bounded().unwrap();
        close(actual.lo, 0.146_420_642_804_756_45);
        close(actual.hi, 0.160_094_546_630_523_86);
        let index = isolation_index(RatioSet::Bounded(actual)).unwrap().bounded().unwrap();
        assert_eq!((index.lo, index.hi, index.n), (1.0 - actual.hi, 1.0 - actual.lo, 8));
    }

    /// As above with `abs(mean(x) - r * mean(y)) / sqrt(var(x)/8 + r*r*var(y)/8) = t.ppf(.975, 7)`.
    #[test]
    fn independent_bounds_are_where_the_t_test_rejects() {
        let actual = independent(&LN_R, &LN_U, Confidence::P95).unwrap().bounded().unwrap();
        close(actual.lo, 0.143_128_300_742_325_83);
        close(actual.hi, 0.163_777_158_714_254_25);
    }

    #[test]
    fn the_unprotected_condition_has_index_zero_and_no_width() {
        let set = isolation_index(paired(&LN_U, &LN_U, Confidence::P95).unwrap()).unwrap();
        let actual = set.bounded().unwrap();
        assert!(
            actual.value == 0.0 && actual.lo.abs() < 1e-7 && actual.hi.abs() < 1e-7,
            "{actual:?}"
        );
    }

    #[test]
    fn an_ineffective_aggressor_leaves_the_set_unbounded() {
        let weak = [-0.02, 0.03, -0.01, 0.02, -0.03, 0.01, 0.02, -0.01];
        let set = independent(&LN_R, &weak, Confidence::P95).unwrap();
        let RatioSet::Outside { below, above, .. } = set else { panic!("{set:?}") };
        // Both ends satisfy the definition: |mean x - r mean y| = t * se.
        let t = two_sided_quantile(0.05, 7.0).unwrap();
        let (x, y) = (moments(&LN_R).unwrap(), moments(&weak).unwrap());
        for r in [below, above] {
            let se = ((x.sd.powi(2) + (r * y.sd).powi(2)) / 8.0).sqrt();
            close((x.mean - r * y.mean).abs(), t * se);
        }
        assert!(below < above);
        let mirrored = isolation_index(set).unwrap();
        assert!(matches!(mirrored, RatioSet::Outside { below: b, above: a, .. }
            if b == 1.0 - above && a == 1.0 - below));
        assert!(matches!(set.bounded(), Err(NoEstimate::Unbounded { .. })));
    }

    #[test]
    fn two_zero_effects_reject_no_ratio() {
        let flat = [-0.02, 0.03, -0.01, 0.02];
        let other = [0.02, -0.03, 0.02, -0.02];
        let set = independent(&flat, &other, Confidence::P95).unwrap();
        assert!(matches!(set, RatioSet::Everything { value: Some(_), n: 4 }), "{set:?}");
        let zero = paired(&LN_R, &[0.0; 8], Confidence::P95).unwrap();
        assert_eq!(zero, RatioSet::Everything { value: None, n: 8 });
    }

    #[test]
    fn identical_blocks_give_an_interval_of_width_zero() {
        let actual = paired(&[-0.1; 6], &[-0.5; 6], Confidence::P95).unwrap().bounded().unwrap();
        assert_eq!((actual.lo, actual.hi), (actual.value, actual.value));
        assert!(paired(&[1.0], &[1.0], Confidence::P95).is_err());
        assert!(paired(&[1.0; 3], &[1.0; 2], Confidence::P95).is_err());
    }
}
