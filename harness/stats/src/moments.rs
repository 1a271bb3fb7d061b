//! Mean, sample standard deviation and covariance, exact for identical values.
//!
//! Values are summed in sorted order, as differences from the smallest one. Sorting makes the
//! result independent of the input order to the last bit. The differences make the mean of equal
//! values exactly that value and their deviation exactly zero.

use crate::estimate::{NoEstimate, require_equal_lengths, require_finite_result, require_series};

/// Mean and sample standard deviation (divisor `n - 1`) of at least two values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation.
    pub sd: f64,
    /// How many values.
    pub n: u32,
}

/// The arithmetic mean of at least one value.
///
/// # Errors
/// [`NoEstimate::TooFew`] for no value, [`NoEstimate::NotFinite`] for a bad one.
pub fn mean(values: &[f64]) -> Result<f64, NoEstimate> {
    let n = require_series("values", values, 1)?;
    shifted_mean(&sorted(values), n)
}

/// Mean and sample standard deviation of at least two values.
///
/// # Errors
/// [`NoEstimate::TooFew`] for fewer than two values, [`NoEstimate::NotFinite`] for a bad one.
pub fn moments(values: &[f64]) -> Result<Moments, NoEstimate> {
    let n = require_series("values", values, 2)?;
    let ordered = sorted(values);
    let mean = shifted_mean(&ordered, n)?;
    // Two passes: the one-pass formula loses all digits when sd << mean.
    let squares: f64 = ordered.iter().map(|v| (v - mean).powi(2)).sum();
    let sd = require_finite_result("standard deviation", (squares / f64::from(n - 1)).sqrt())?;
    Ok(Moments { mean, sd, n })
}

/// The sample covariance (divisor `n - 1`) of at least two pairs.
///
/// # Errors
/// [`NoEstimate::Unequal`], [`NoEstimate::TooFew`] or [`NoEstimate::NotFinite`].
pub fn covariance(left: &[f64], right: &[f64]) -> Result<f64, NoEstimate> {
    require_equal_lengths(left, right)?;
    let n = require_series("pairs", left, 2)?;
    require_series("pairs", right, 2)?;
    let (mean_left, mean_right) = (mean(left)?, mean(right)?);
    let products: f64 =
        left.iter().zip(right).map(|(l, r)| (l - mean_left) * (r - mean_right)).sum();
    require_finite_result("covariance", products / f64::from(n - 1))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    ordered
}

fn shifted_mean(ordered: &[f64], n: u32) -> Result<f64, NoEstimate> {
    let shift = ordered[0];
    let excess: f64 = ordered.iter().map(|v| v - shift).sum();
    require_finite_result("mean", shift + excess / f64::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_numpy() {
        let x = [2.1, 3.4, 1.9, 5.6, 4.2];
        let y = [1.0, 2.5, 0.7, 3.1, 2.9];
        // numpy.mean(x), numpy.std(x, ddof=1), numpy.cov(x, y)[0, 1]
        let actual = moments(&x).unwrap();
        assert!((actual.mean - 3.44).abs() < 1e-15);
        assert!((actual.sd - 1.533_949_151_699_625).abs() < 1e-15);
        assert!((covariance(&x, &y).unwrap() - 1.5955).abs() < 1e-14);
    }

    #[test]
    fn identical_values_have_a_deviation_of_zero() {
        let actual = moments(&[0.1; 7]).unwrap();
        assert_eq!((actual.mean, actual.sd), (0.1, 0.0));
    }

    #[test]
    fn a_small_spread_on_a_large_mean_survives() {
        let actual = moments(&[1e9, 1e9 + 1.0, 1e9 + 2.0]).unwrap();
        assert_eq!((actual.mean, actual.sd), (1e9 + 1.0, 1.0));
    }

    #[test]
    fn overflow_is_an_error_and_not_an_infinity() {
        assert_eq!(mean(&[-1.7e308, 1.7e308]).unwrap_err(), NoEstimate::Overflow { what: "mean" });
        assert!(mean(&[]).is_err());
        assert!(covariance(&[1.0, 2.0], &[1.0]).is_err());
    }
}
