//! Ratios of paired measurements, by a t interval on the logarithm of each block's ratio.
//!
//! `L_b = ln(a_b / b_b)`, ratio `exp(mean L)`, interval `exp(mean L +/- t * s_L / sqrt(B))`: the
//! effect-size interval of Kalibera and Jones (arXiv 2007.10899) with the block as the unit. A
//! percentile bootstrap covers too rarely at 5 to 10 blocks; Student's t on logs does not.

use crate::confidence::Confidence;
use crate::effect::Effect;
use crate::estimate::{
    Estimate, NoEstimate, require_equal_lengths, require_positive_series, require_series,
};

/// One log-ratio per block.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRatio {
    logs: Vec<f64>,
}

impl LogRatio {
    /// Pairs the blocks of two conditions, first over second.
    ///
    /// # Errors
    /// [`NoEstimate::Unequal`] when the blocks do not pair up, [`NoEstimate::NotFinite`] or
    /// [`NoEstimate::NotPositive`] for a bad value, [`NoEstimate::TooFew`] for under two blocks.
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
    ///
    /// # Errors
    /// [`NoEstimate::NotFinite`] for a bad value, [`NoEstimate::TooFew`] for under two blocks.
    pub fn from_logs(logs: Vec<f64>) -> Result<Self, NoEstimate> {
        require_series("block logs", &logs, 2)?;
        Ok(Self { logs })
    }

    /// The log-ratio of every block, in block order.
    #[must_use]
    pub fn logs(&self) -> &[f64] {
        &self.logs
    }

    /// The mean log-ratio with its standard error, `B - 1` degrees of freedom.
    ///
    /// # Errors
    /// [`NoEstimate::Overflow`] when the spread leaves the range of the float.
    pub fn effect(&self) -> Result<Effect, NoEstimate> {
        Effect::of_mean(&self.logs)
    }

    /// The ratio with its interval; `n` counts blocks.
    ///
    /// # Errors
    /// [`NoEstimate::Overflow`] when a bound leaves the range of the float.
    pub fn interval(&self, confidence: Confidence) -> Result<Estimate, NoEstimate> {
        self.effect()?.interval(confidence)?.map_increasing(f64::exp)
    }
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
    fn equal_conditions_are_exactly_one() {
        let actual = LogRatio::paired(&A, &A).unwrap().interval(Confidence::P95).unwrap();
        assert_eq!((actual.value, actual.lo, actual.hi), (1.0, 1.0, 1.0));
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
}
