//! Intervals for a ratio: of paired measurements, of two means, of two independent estimates.

use super::estimate::Confidence;
use super::summary::{Moments, covariance, moments};
use crate::effect::Effect;
use crate::estimate::{
    Estimate, NoEstimate, require_equal_lengths, require_finite_result, require_positive_series,
    require_series,
};
use crate::student_t::two_sided_quantile;

// Ratios of paired measurements, by a t interval on the logarithm of each block's ratio.
//
// `L_b = ln(a_b / b_b)`, ratio `exp(mean L)`, interval `exp(mean L +/- t * s_L / sqrt(B))`: the
// effect-size interval of Kalibera and Jones (arXiv 2007.10899) with the block as the unit. A
// percentile bootstrap covers too rarely at 5 to 10 blocks; Student's t on logs does not.

#[derive(Debug, Clone, PartialEq)]
pub struct LogRatio {
    logs: Vec<f64>,
}

impl LogRatio {
    /// Pairs the blocks of two conditions, first over second.
    /// Fails with [`NoEstimate::Unequal`] when the blocks do not pair up, [`NoEstimate::NotFinite`]
    /// or [`NoEstimate::NotPositive`] for a bad value, [`NoEstimate::TooFew`] for under two blocks.
    pub fn paired(numerator: &[f64], denominator: &[f64]) -> Result<Self, NoEstimate> {
        require_equal_lengths(numerator, denominator)?;
        require_positive_series("numerator blocks", numerator, 2)?;
        require_positive_series("denominator blocks", denominator, 2)?;
        // A difference of logs, not the log of a quotient: it cannot overflow, and swapping
        // numerator and denominator mirrors the result exactly.
        let logs = numerator.iter().zip(denominator).map(|(a, b)| a.ln() - b.ln()).collect();
        Ok(Self { logs })
    }

    /// Takes existing log-ratios.
    /// Fails with [`NoEstimate::NotFinite`] for a bad value, [`NoEstimate::TooFew`] for under two
    /// blocks.
    pub fn from_logs(logs: Vec<f64>) -> Result<Self, NoEstimate> {
        require_series("block logs", &logs, 2)?;
        Ok(Self { logs })
    }

    /// The log-ratio of every block, in block order.
    pub fn logs(&self) -> &[f64] {
        &self.logs
    }

    /// The mean log-ratio with its standard error, `B - 1` degrees of freedom.
    /// Fails with [`NoEstimate::Overflow`] when the spread leaves the range of the float.
    pub fn effect(&self) -> Result<Effect, NoEstimate> {
        Effect::of_mean(&self.logs)
    }

    /// The ratio with its interval; `n` counts blocks.
    /// Fails with [`NoEstimate::Overflow`] when a bound leaves the range of the float.
    pub fn interval(&self, confidence: Confidence) -> Result<Estimate, NoEstimate> {
        self.effect()?.interval(confidence)?.map_increasing(f64::exp)
    }
}

// Fieller's interval for a ratio of two means, and the isolation index derived from it.
//
// Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 16(2), 1954. The interval
// is the set of ratios r that a t test of `mean x - r * mean y = 0` does not reject: between the
// roots of `(y^2 - t^2 s_yy) r^2 - 2 (x y - t^2 s_xy) r + (x^2 - t^2 s_xx) = 0` when y differs
// from zero, and unbounded otherwise. The type distinguishes the cases: an unbounded set written
// as two numbers would look like a result.

/// The set of ratios that the data do not reject at the confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RatioSet {
    Bounded(Estimate),
    /// Everything except the open gap between two numbers: the denominator may be zero, but the
    /// data still exclude some ratios.
    Outside {
        value: f64,
        /// Ratios at or below this one are not rejected.
        below: f64,
        /// Ratios at or above this one are not rejected.
        above: f64,
        n: u32,
    },
    /// No ratio is rejected. There is no point estimate when the denominator is exactly zero.
    Everything {
        /// The point estimate, if there is one.
        value: Option<f64>,
        n: u32,
    },
}

impl RatioSet {
    /// The ordinary interval, or the reason why there is none.
    /// Fails with [`NoEstimate::Unbounded`] unless the set is an ordinary interval.
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
/// Fails with [`NoEstimate::Unequal`], [`NoEstimate::TooFew`] for under two blocks,
/// [`NoEstimate::NotFinite`].
pub fn paired(x: &[f64], y: &[f64], confidence: Confidence) -> Result<RatioSet, NoEstimate> {
    require_equal_lengths(x, y)?;
    let n = require_series("blocks", x, 2)?;
    let shared = covariance(x, y)? / f64::from(n);
    let df = f64::from(n - 1);
    solve(moments(x)?, moments(y)?, shared, df, confidence)
}

/// Mean of `x` over mean of `y`, measured in different blocks: no covariance, and the degrees of
/// freedom of the shorter series, which makes the set wider, never narrower.
/// Fails with [`NoEstimate::TooFew`] for under two blocks in either series,
/// [`NoEstimate::NotFinite`].
pub fn independent(x: &[f64], y: &[f64], confidence: Confidence) -> Result<RatioSet, NoEstimate> {
    let (of_x, of_y) = (moments(x)?, moments(y)?);
    let df = f64::from(of_x.n.min(of_y.n) - 1);
    solve(of_x, of_y, 0.0, df, confidence)
}

/// The isolation index `I = 1 - ln R / ln U` from the set of `ln R / ln U`: 1 when the neighbour
/// has no effect, 0 when the mechanism prevents nothing, below 0 when it makes the effect worse.
/// Fails with [`NoEstimate::Overflow`] when the set leaves the range of the float.
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

// The interval of a ratio of two independent estimates, from their intervals alone.
//
// MOVER-R (Newcombe, Stat. Methods Med. Res. 25(5), 2016): the method of variance estimates
// recovery applied to `x - r * y = 0`. Intervals may be asymmetric, such as those of quantiles;
// for two symmetric t intervals the result is Fieller's ([`crate::fieller`]).

/// The ratio `x / y`; `n` is that of `x`.
/// Fails with [`NoEstimate::Unbounded`] unless the interval of `y` lies above 0 and ends below
/// twice its value, [`NoEstimate::Overflow`] when a bound leaves the range of the float.
pub fn ratio(x: Estimate, y: Estimate) -> Result<Estimate, NoEstimate> {
    if !(y.lo > 0.0 && y.hi < 2.0 * y.value) {
        let what = "the denominator of a ratio";
        return Err(NoEstimate::Unbounded { what });
    }
    let value = x.value / y.value;
    // Each end of x is combined with the end of y that moves the ratio in the same direction.
    let lo = end(x.value, x.lo, y.value, y.hi);
    let hi = end(x.value, x.hi, y.value, y.lo);
    Estimate::new(value, lo.min(value), hi.max(value), x.n)
}

/// The root of the quadratic at an end of `x` and an end of `y`.
fn end(x: f64, x_end: f64, y: f64, y_end: f64) -> f64 {
    let (of_x, of_y) = (x_end - x, y_end - y);
    if of_y == 0.0 {
        return x_end / y;
    }
    // (x y)^2 - x_end (2 x - x_end) y_end (2 y - y_end), expanded so that nothing large cancels.
    let spread = (x * of_y).powi(2) + (of_x * y).powi(2) - (of_x * of_y).powi(2);
    let root = spread.max(0.0).sqrt().copysign(-of_y);
    (x * y + root) / (y_end * (2.0 * y - y_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 8] = [612.0, 598.0, 605.0, 640.0, 611.0, 590.0, 602.0, 615.0];
    const B: [f64; 8] = [1000.0, 1010.0, 985.0, 1024.0, 1003.0, 998.0, 1001.0, 1007.0];

    #[test]
    fn equals_a_paired_t_of_scipy_on_logs() {
        let ratio = LogRatio::paired(&A, &B).unwrap();
        // r = scipy.stats.ttest_rel(log(A), log(B)); c = r.confidence_interval(.95)
        // exp(mean(log(A) - log(B))), exp(c.low), exp(c.high), r.pvalue
        let actual = ratio.interval(Confidence::P95).unwrap();
        for (actual, expected) in [
            (actual.value, 0.606_876_086_886_063),
            (actual.lo, 0.597_338_233_505_269_4),
            (actual.hi, 0.616_566_233_627_654_3),
            (ratio.effect().unwrap().two_sided_p().unwrap(), 2.055_486_917_686_253_3e-11),
        ] {
            assert!(
                (actual - expected).abs() < 1e-11 * expected,
                "actual {actual}, expected {expected}"
            );
        }
        assert_eq!(actual.n, 8);
    }

    #[test]
    fn refuses_values_without_a_logarithm_or_a_partner() {
        assert_eq!(
            LogRatio::paired(&[1.0, 0.0], &[1.0, 1.0]).unwrap_err(),
            NoEstimate::NotPositive { what: "numerator blocks", index: 1, value: 0.0 }
        );
        assert!(LogRatio::paired(&[1.0, 2.0], &[1.0]).is_err());
        assert!(LogRatio::paired(&[1.0], &[1.0]).is_err());
        assert!(LogRatio::from_logs(vec![0.1, f64::NAN]).is_err());
        let huge = LogRatio::from_logs(vec![800.0, 801.0]).unwrap();
        assert!(matches!(huge.interval(Confidence::P95), Err(NoEstimate::Overflow { .. })));
    }

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

#[cfg(test)]
mod mover_tests {
    use super::ratio;
    use crate::effect::Effect;
    use crate::estimate::{Confidence, Estimate};

    const A: [f64; 6] = [0.61, 0.59, 0.60, 0.64, 0.62, 0.58];
    const B: [f64; 6] = [1.02, 0.97, 1.01, 1.05, 0.96, 0.99];

    fn of(values: &[f64]) -> Estimate {
        let mean = Effect::of_mean(values).unwrap();
        mean.interval(Confidence::P95).unwrap()
    }

    #[test]
    fn symmetric_intervals_give_that_of_fieller() {
        let found = ratio(of(&A), of(&B)).unwrap();
        let fieller = super::independent(&A, &B, Confidence::P95).unwrap();
        let fieller = fieller.bounded().unwrap();
        for (found, fieller) in [(found.lo, fieller.lo), (found.hi, fieller.hi)] {
            assert!((found - fieller).abs() < 1e-12, "{found} {fieller}");
        }
    }

    #[test]
    fn doubt_of_the_denominator_widens_and_none_leaves_the_interval() {
        let share = Estimate::new(0.5, 0.45, 0.6, 6).unwrap();
        let exact = Estimate::new(1.0, 1.0, 1.0, 6).unwrap();
        assert_eq!(ratio(share, exact), Ok(share));
        let doubtful = Estimate::new(1.0, 0.9, 1.1, 6).unwrap();
        let wide = ratio(share, doubtful).unwrap();
        assert!(wide.lo < 0.44 && wide.hi > 0.61, "{wide:?}");
        let only_below = ratio(exact, doubtful).unwrap();
        assert!((only_below.lo - 1.0 / 1.1).abs() < 1e-12, "{only_below:?}");
        assert!((only_below.hi - 1.0 / 0.9).abs() < 1e-12, "{only_below:?}");
        let nothing = Estimate::new(0.0, 0.0, 0.0, 6).unwrap();
        assert_eq!(ratio(nothing, doubtful), Ok(nothing));
    }

    #[test]
    fn a_denominator_that_may_be_zero_has_no_ratio() {
        let x = Estimate::new(0.5, 0.4, 0.6, 6).unwrap();
        for (value, lo, hi) in [(0.1, -0.1, 0.15), (0.0, 0.0, 0.0), (1.0, 0.5, 2.0)] {
            assert!(ratio(x, Estimate::new(value, lo, hi, 6).unwrap()).is_err());
        }
    }
}
