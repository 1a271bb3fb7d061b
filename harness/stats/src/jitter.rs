//! The median absolute deviation.

use crate::estimate::{NoEstimate, require_finite_result};
use crate::quantile::Sorted;

/// Makes the median absolute deviation of normal data equal to their standard deviation: `1 /
/// Phi^-1(3/4)` (Rousseeuw and Croux, JASA 88(424), 1993), rounded to four decimals as they do.
const NORMAL_CONSISTENCY: f64 = 1.4826;

/// The median absolute deviation, `1.4826 * median(|D - median D|)`, in the unit of the values.
///
/// # Errors
/// [`NoEstimate::TooFew`] for no value, [`NoEstimate::NotFinite`] for a bad one.
pub fn median_absolute_deviation(values: &[f64]) -> Result<f64, NoEstimate> {
    let centre = Sorted::new(values.to_vec())?.median()?;
    let distances = values
        .iter()
        .map(|v| require_finite_result("distance from the median", (v - centre).abs()))
        .collect::<Result<Vec<f64>, NoEstimate>>()?;
    Ok(NORMAL_CONSISTENCY * Sorted::new(distances)?.median()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYS: [f64; 6] = [5.0, 7.0, 4.0, 4.0, 9.0, 6.0];

    #[test]
    fn deviations_equal_scipy() {
        // 1.4826 * scipy.stats.median_abs_deviation(D)
        assert!((median_absolute_deviation(&DELAYS).unwrap() - 2.223_9).abs() < 1e-14);
        assert_eq!(median_absolute_deviation(&[2.0; 5]).unwrap(), 0.0);
    }
}
