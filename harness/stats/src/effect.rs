//! An effect with its standard error and degrees of freedom: the basis of every t interval.
//!
//! [`super::ratio`] and [`crate::two_sample`] build effects; this file turns them into
//! intervals and p values. An effect is on the scale of its input: on the log
//! scale 0.03 is a change of about 3 %.

use super::estimate::Confidence;
use super::summary::moments;
use crate::estimate::{Estimate, NoEstimate};
use crate::student_t::{two_sided_p, two_sided_quantile};

/// A mean or a difference of means, with the figures for its t interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    pub value: f64,
    /// Its standard error; zero when all units were identical.
    pub se: f64,
    /// Degrees of freedom of the standard error.
    pub df: f64,
    pub n: u32,
}

impl Effect {
    /// The mean of one number per block (or session), with `n - 1` degrees of freedom.
    /// Fails with [`NoEstimate::TooFew`] for fewer than two values, [`NoEstimate::NotFinite`] for a
    /// bad one.
    pub fn of_mean(values: &[f64]) -> Result<Self, NoEstimate> {
        let found = moments(values)?;
        let se = found.sd / f64::from(found.n).sqrt();
        Ok(Self { value: found.mean, se, df: f64::from(found.n - 1), n: found.n })
    }

    /// The two-sided t interval, `value +/- t * se`.
    /// Fails with [`NoEstimate::OutOfRange`] for impossible degrees of freedom,
    /// [`NoEstimate::Overflow`] when a bound leaves the range of the float.
    pub fn interval(&self, confidence: Confidence) -> Result<Estimate, NoEstimate> {
        let half = two_sided_quantile(confidence.alpha(), self.df)? * self.se;
        Estimate::new(self.value, self.value - half, self.value + half, self.n)
    }

    /// The two-sided p value of the hypothesis "no effect".
    ///
    /// With a standard error of zero it is 1 for an effect of zero and 0 for any other.
    /// Fails with [`NoEstimate::OutOfRange`] for impossible degrees of freedom.
    pub fn two_sided_p(&self) -> Result<f64, NoEstimate> {
        two_sided_p(t_statistic(self.value, self.se), self.df)
    }
}

fn t_statistic(distance: f64, se: f64) -> f64 {
    // 0 / 0 would be NaN: an effect of zero with no error is exactly zero.
    if distance == 0.0 { 0.0 } else { distance / se }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn identical_units_are_legal() {
        let nothing = Effect::of_mean(&[0.0; 5]).unwrap();
        assert_eq!(nothing.two_sided_p().unwrap(), 1.0);
        let something = Effect::of_mean(&[0.1; 5]).unwrap();
        let interval = something.interval(Confidence::P95).unwrap();
        assert_eq!((interval.lo, interval.value, interval.hi), (0.1, 0.1, 0.1));
        assert_eq!(something.two_sided_p().unwrap(), 0.0);
    }
}
