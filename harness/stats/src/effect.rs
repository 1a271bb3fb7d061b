//! An effect with its standard error and degrees of freedom: the basis of every t interval.
//!
//! [`crate::log_ratio`] and [`crate::two_sample`] build effects; this file turns them into
//! intervals, p values and equivalence tests. An effect is on the scale of its input: on the log
//! scale 0.03 is a change of about 3 %.

use crate::confidence::Confidence;
use crate::estimate::{Estimate, NoEstimate, require_finite_result, require_positive};
use crate::moments::moments;
use crate::student_t::{two_sided_p, two_sided_quantile};

/// A mean or a difference of means, with the figures for its t interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The point estimate.
    pub value: f64,
    /// Its standard error; zero when all units were identical.
    pub se: f64,
    /// Degrees of freedom of the standard error.
    pub df: f64,
    /// Number of independent units.
    pub n: u32,
}

/// The result of two one-sided tests at 5 %: does the effect lie within a margin?
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equivalence {
    /// The 90 % interval of the effect.
    pub interval: Estimate,
    /// The larger of the two one-sided p values.
    pub p: f64,
    /// True when the interval lies strictly inside the margin. False proves nothing: the effect may
    /// be large or small.
    pub shown: bool,
}

impl Effect {
    /// The mean of one number per block (or session), with `n - 1` degrees of freedom.
    ///
    /// # Errors
    /// [`NoEstimate::TooFew`] for fewer than two values, [`NoEstimate::NotFinite`] for a bad one.
    pub fn of_mean(values: &[f64]) -> Result<Self, NoEstimate> {
        let found = moments(values)?;
        let se = found.sd / f64::from(found.n).sqrt();
        Ok(Self {
            value: found.mean,
            se,
            df: f64::from(found.n - 1),
            n: found.n,
        })
    }

    /// The two-sided t interval, `value +/- t * se`.
    ///
    /// # Errors
    /// [`NoEstimate::OutOfRange`] for impossible degrees of freedom, [`NoEstimate::Overflow`]
    /// when a bound leaves the range of the float.
    pub fn interval(&self, confidence: Confidence) -> Result<Estimate, NoEstimate> {
        let half = two_sided_quantile(confidence.alpha(), self.df)? * self.se;
        Estimate::new(self.value, self.value - half, self.value + half, self.n)
    }

    /// The two-sided p value of the hypothesis "no effect".
    ///
    /// With a standard error of zero it is 1 for an effect of zero and 0 for any other.
    ///
    /// # Errors
    /// [`NoEstimate::OutOfRange`] for impossible degrees of freedom.
    ///
    /// Wanted by: diff
    pub fn two_sided_p(&self) -> Result<f64, NoEstimate> {
        two_sided_p(t_statistic(self.value, self.se), self.df)
    }

    /// Two one-sided tests (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987): equivalence at 5 %
    /// is shown when the 90 % interval lies strictly inside `(-margin, +margin)`.
    ///
    /// # Errors
    /// [`NoEstimate::OutOfRange`] unless the margin is finite and above 0; those of
    /// [`Effect::interval`].
    ///
    /// Wanted by: diff
    pub fn equivalence(&self, margin: f64) -> Result<Equivalence, NoEstimate> {
        require_positive("equivalence margin", margin)?;
        let interval = self.interval(Confidence::P90)?;
        // The nearer margin decides; beyond it the one-sided p exceeds one half.
        let to_margin = require_finite_result("distance to the margin", margin - self.value.abs())?;
        let half_p = two_sided_p(t_statistic(to_margin, self.se), self.df)? / 2.0;
        let p = if to_margin > 0.0 {
            half_p
        } else {
            1.0 - half_p
        };
        let shown = -margin < interval.lo && interval.hi < margin;
        Ok(Equivalence { interval, p, shown })
    }
}

fn t_statistic(distance: f64, se: f64) -> f64 {
    // 0 / 0 would be NaN: an effect of zero with no error is exactly zero.
    if distance == 0.0 { 0.0 } else { distance / se }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invented numbers.
    const X: [f64; 8] = [-0.51, -0.48, -0.55, -0.47, -0.50, -0.53, -0.46, -0.52];

    #[test]
    fn interval_and_p_equal_scipy() {
        let effect = Effect::of_mean(&X).unwrap();
        // m = X.mean(); h = t.ppf(.975, 7) * X.std(ddof=1) / 8**.5
        let actual = effect.interval(Confidence::P95).unwrap();
        for (actual, expected) in [
            (actual.value, -0.502_5),
            (actual.lo, -0.528_460_916_020_784_3),
            (actual.hi, -0.476_539_083_979_215_7),
            // scipy.stats.ttest_1samp(X, 0).pvalue
            (effect.two_sided_p().unwrap(), 6.211_841_883_550_3e-10),
        ] {
            assert!(
                (actual - expected).abs() < 1e-12 * expected.abs(),
                "actual {actual}, expected {expected}"
            );
        }
        assert_eq!(actual.n, 8);
    }

    #[test]
    fn equivalence_equals_two_one_sided_tests_of_scipy() {
        let shifted: Vec<f64> = X.iter().map(|x| x + 0.49).collect();
        let effect = Effect::of_mean(&shifted).unwrap();
        // max(ttest_1samp(Y, -m, alternative='greater').pvalue,
        //     ttest_1samp(Y, m, alternative='less').pvalue) for m in (0.03, 0.04, 0.01)
        for (margin, expected, shown) in [
            (0.03, 0.077_485_852_237_122_37, false),
            (0.04, 0.020_352_373_152_458_275, true),
            (0.01, 0.586_810_088_406_698, false),
        ] {
            let actual = effect.equivalence(margin).unwrap();
            assert!(
                (actual.p - expected).abs() < 1e-10 * expected,
                "margin {margin}: {} {expected}",
                actual.p
            );
            assert_eq!(actual.shown, shown, "margin {margin}");
            assert_eq!(
                actual.shown,
                actual.p < 0.05,
                "the two forms of the test disagree"
            );
        }
    }

    #[test]
    fn identical_units_are_legal() {
        let nothing = Effect::of_mean(&[0.0; 5]).unwrap();
        assert_eq!(nothing.two_sided_p().unwrap(), 1.0);
        assert!(nothing.equivalence(0.03).unwrap().shown);
        let something = Effect::of_mean(&[0.1; 5]).unwrap();
        let interval = something.interval(Confidence::P95).unwrap();
        assert_eq!((interval.lo, interval.value, interval.hi), (0.1, 0.1, 0.1));
        assert_eq!(something.two_sided_p().unwrap(), 0.0);
        let far = something.equivalence(0.03).unwrap();
        assert_eq!((far.p, far.shown), (1.0, false));
        // On the margin is not inside it.
        assert!(!something.equivalence(0.1).unwrap().shown);
    }

    #[test]
    fn margins_must_be_above_zero() {
        let effect = Effect::of_mean(&X).unwrap();
        for margin in [0.0, -0.1, f64::NAN, f64::INFINITY] {
            assert!(effect.equivalence(margin).is_err(), "{margin} was accepted");
        }
    }
}
