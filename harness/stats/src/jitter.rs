//! Measures of jitter: delay variation, median absolute deviation, coefficient of variation, and
//! the tail spread that the jitter axis is scored on.
//!
//! PDV and IPDV as in RFC 5481, section 4. p99 over p50 is absent on purpose: it falls when the
//! median is inflated, so a slow mechanism would look steady.

use crate::estimate::{NoEstimate, require_finite_result, require_positive, require_series};
use crate::moments::moments;
use crate::quantile::Sorted;

/// Makes the median absolute deviation of normal data equal to their standard deviation:
/// `1 / Phi^-1(3/4)` (Rousseeuw and Croux, JASA 88(424), 1993). Their four decimals are the
/// ones in use everywhere.
const NORMAL_CONSISTENCY: f64 = 1.4826;

/// Packet delay variation, `PDV_i = D_i - D_min` (RFC 5481 section 4.2), in order of arrival.
///
/// # Errors
/// [`NoEstimate::TooFew`] for no delay, [`NoEstimate::NotFinite`] for a bad one.
pub fn pdv(delays: &[f64]) -> Result<Vec<f64>, NoEstimate> {
    require_series("delays", delays, 1)?;
    let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
    delays
        .iter()
        .map(|d| require_finite_result("delay variation", d - least))
        .collect()
}

/// Inter-packet delay variation, `IPDV_i = D_i - D_(i-1)` (RFC 5481 section 4.1); one fewer than
/// the delays, and negative where the delay fell.
///
/// # Errors
/// [`NoEstimate::TooFew`] for under two delays, [`NoEstimate::NotFinite`] for a bad one.
pub fn ipdv(delays: &[f64]) -> Result<Vec<f64>, NoEstimate> {
    require_series("delays", delays, 2)?;
    delays
        .windows(2)
        .map(|pair| require_finite_result("delay variation", pair[1] - pair[0]))
        .collect()
}

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

/// The coefficient of variation, standard deviation over mean, of values with a mean above zero.
///
/// # Errors
/// [`NoEstimate::TooFew`] for under two values, [`NoEstimate::OutOfRange`] unless the mean is
/// above zero, [`NoEstimate::NotFinite`] for a bad value.
pub fn coefficient_of_variation(values: &[f64]) -> Result<f64, NoEstimate> {
    let found = moments(values)?;
    require_positive("the mean under a coefficient of variation", found.mean)?;
    require_finite_result("coefficient of variation", found.sd / found.mean)
}

/// The tail spread that one cell has beyond another, in medians of the native cell:
/// `[(q99 - q50)_cell - (q99 - q50)_reference] / q50_native`.
///
/// With the contended cell against the native one it is J of that block; with solo against
/// native and contended against solo it is what the mechanism and the neighbour add to it. The
/// denominator is native throughout, so that a slow mechanism cannot shrink its own figure. It
/// may be negative.
///
/// # Errors
/// [`NoEstimate::OutOfRange`] unless the native median is above zero.
pub fn tail_spread_beyond(
    cell: &Sorted,
    reference: &Sorted,
    native: &Sorted,
) -> Result<f64, NoEstimate> {
    let native_median = require_positive("the native median", native.median()?)?;
    let spread = tail_spread(cell)? - tail_spread(reference)?;
    require_finite_result("tail spread", spread / native_median)
}

fn tail_spread(cell: &Sorted) -> Result<f64, NoEstimate> {
    Ok(cell.linear(0.99)? - cell.median()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYS: [f64; 6] = [5.0, 7.0, 4.0, 4.0, 9.0, 6.0];

    #[test]
    fn delay_variation_follows_the_definitions() {
        assert_eq!(pdv(&DELAYS).unwrap(), [1.0, 3.0, 0.0, 0.0, 5.0, 2.0]);
        assert_eq!(ipdv(&DELAYS).unwrap(), [2.0, -3.0, 0.0, 5.0, -3.0]);
        assert!(ipdv(&[1.0]).is_err());
        assert!(pdv(&[]).is_err());
    }

    #[test]
    fn deviations_equal_scipy() {
        // 1.4826 * scipy.stats.median_abs_deviation(D); scipy.stats.variation(D, ddof=1)
        assert!((median_absolute_deviation(&DELAYS).unwrap() - 2.223_9).abs() < 1e-14);
        assert!(
            (coefficient_of_variation(&DELAYS).unwrap() - 0.332_706_894_354_505_96).abs() < 1e-15
        );
        assert_eq!(median_absolute_deviation(&[2.0; 5]).unwrap(), 0.0);
        assert_eq!(coefficient_of_variation(&[2.0; 5]).unwrap(), 0.0);
        assert!(coefficient_of_variation(&[-1.0, 1.0]).is_err());
    }

    #[test]
    fn a_slower_mechanism_does_not_shrink_its_own_jitter() {
        let series = |scale: f64| {
            Sorted::new(
                (1..=1000)
                    .map(|i| scale * (1.0 + f64::from(i) / 1000.0))
                    .collect(),
            )
            .unwrap()
        };
        let native = series(1.0);
        let j = |cell: &Sorted| tail_spread_beyond(cell, &native, &native).unwrap();
        assert_eq!(j(&native), 0.0);
        // Twice as slow: p99 / p50 is the same, the spread in native medians doubles.
        let want =
            (native.linear(0.99).unwrap() - native.median().unwrap()) / native.median().unwrap();
        assert!((j(&series(2.0)) - want).abs() < 1e-12);
        assert!(j(&series(0.5)) < 0.0);
    }

    #[test]
    fn the_two_parts_of_jitter_add_up() {
        let n = Sorted::new(vec![1.0, 1.0, 1.2]).unwrap();
        let s = Sorted::new(vec![1.1, 1.2, 1.9]).unwrap();
        let c = Sorted::new(vec![1.1, 1.4, 4.0]).unwrap();
        let whole = tail_spread_beyond(&c, &n, &n).unwrap();
        let parts =
            tail_spread_beyond(&s, &n, &n).unwrap() + tail_spread_beyond(&c, &s, &n).unwrap();
        assert!((whole - parts).abs() < 1e-12);
        let zero = Sorted::new(vec![0.0]).unwrap();
        assert!(tail_spread_beyond(&c, &n, &zero).is_err());
    }
}
