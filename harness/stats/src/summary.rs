//! Summaries of a sample: mean and deviation, fairness of tenants, the area under a dose curve.

use crate::estimate::{
    NoEstimate, require_equal_lengths, require_finite_result, require_positive_series,
    require_series,
};
use crate::quantile::Sorted;

// Mean, sample standard deviation and covariance, exact for identical values.
//
// Values are summed in sorted order, as differences from the smallest one. Sorting makes the
// result independent of the input order to the last bit. The differences make the mean of equal
// values exactly that value and their deviation exactly zero.

/// Mean and sample standard deviation (divisor `n - 1`) of at least two values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    pub mean: f64,
    pub sd: f64,
    pub n: u32,
}

/// The arithmetic mean of at least one value.
/// Fails with [`NoEstimate::TooFew`] for no value, [`NoEstimate::NotFinite`] for a bad one.
pub fn mean(values: &[f64]) -> Result<f64, NoEstimate> {
    let n = require_series("values", values, 1)?;
    shifted_mean(&sorted(values), n)
}

/// Mean and sample standard deviation of at least two values.
/// Fails with [`NoEstimate::TooFew`] for fewer than two values, [`NoEstimate::NotFinite`] for a bad
/// one.
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
/// Fails with [`NoEstimate::Unequal`], [`NoEstimate::TooFew`] or [`NoEstimate::NotFinite`].
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

// The median absolute deviation.

/// Makes the median absolute deviation of normal data equal to their standard deviation: `1 /
/// Phi^-1(3/4)` (Rousseeuw and Croux, JASA 88(424), 1993), rounded to four decimals as they do.
const NORMAL_CONSISTENCY: f64 = 1.4826;

/// The median absolute deviation, `1.4826 * median(|D - median D|)`, in the unit of the values.
/// Fails with [`NoEstimate::TooFew`] for no value, [`NoEstimate::NotFinite`] for a bad one.
pub fn median_absolute_deviation(values: &[f64]) -> Result<f64, NoEstimate> {
    let centre = Sorted::new(values.to_vec())?.median()?;
    let distances = values
        .iter()
        .map(|v| require_finite_result("distance from the median", (v - centre).abs()))
        .collect::<Result<Vec<f64>, NoEstimate>>()?;
    Ok(NORMAL_CONSISTENCY * Sorted::new(distances)?.median()?)
}

// Progress and fairness of tenants that share a device: ANTT, STP, min over max, Jain.
//
// Eyerman and Eeckhout, "System-level performance metrics for multiprogram workloads", IEEE
// Micro 28(3), 2008; Jain, Chiu and Hawe, DEC-TR-301, 1984. They describe the operator's view and
// never enter the isolation level: a fair device may isolate nothing.

/// The progress of tenants on one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// Average normalised turnaround time, the mean of `T_shared / T_alone`; 1 without slowdown.
    pub antt: f64,
    /// System throughput, the sum of `T_alone / T_shared`; the number of tenants without slowdown.
    pub stp: f64,
    /// Smallest over largest normalised progress; 1 is fair.
    pub min_over_max: f64,
    /// Jain's index of the normalised progress. It is flat near 1: two tenants that progress two to
    /// one still score 0.9, so read it together with `min_over_max`.
    pub jain: f64,
    pub tenants: u32,
}

/// Compares each tenant's time for its work when sharing with its time alone, in the same order.
/// Fails with [`NoEstimate::Unequal`], [`NoEstimate::NotPositive`], [`NoEstimate::NotFinite`], or
/// [`NoEstimate::TooFew`] for no tenant.
pub fn fairness(shared: &[f64], alone: &[f64]) -> Result<Fairness, NoEstimate> {
    require_equal_lengths(shared, alone)?;
    let tenants = require_positive_series("turnaround times when sharing", shared, 1)?;
    require_positive_series("turnaround times alone", alone, 1)?;
    let turnaround: Vec<f64> = shared.iter().zip(alone).map(|(s, a)| s / a).collect();
    let progress: Vec<f64> = shared.iter().zip(alone).map(|(s, a)| a / s).collect();
    require_positive_series("normalised turnaround times", &turnaround, 1)?;
    require_positive_series("normalised progress figures", &progress, 1)?;
    let largest = progress.iter().copied().fold(0.0, f64::max);
    let smallest = progress.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Fairness {
        antt: mean(&turnaround)?,
        stp: require_finite_result("system throughput", progress.iter().sum())?,
        min_over_max: smallest / largest,
        jain: jain(&progress)?,
        tenants,
    })
}

/// Jain's index, `(sum x)^2 / (n * sum x^2)`: 1 for equal shares, `1/n` when one tenant has all.
/// Fails with [`NoEstimate::TooFew`] for no share, [`NoEstimate::NotPositive`],
/// [`NoEstimate::NotFinite`].
pub fn jain(shares: &[f64]) -> Result<f64, NoEstimate> {
    let n = require_positive_series("shares", shares, 1)?;
    // The index does not depend on the scale; dividing by the largest avoids overflow of squares.
    let largest = shares.iter().copied().fold(0.0, f64::max);
    let sum: f64 = shares.iter().map(|x| x / largest).sum();
    let squares: f64 = shares.iter().map(|x| (x / largest).powi(2)).sum();
    Ok(sum * sum / (f64::from(n) * squares))
}

// The dose area: the mean retention over a range of aggressor doses.
//
// The trapezoid mean of the dose-response curve, after Krebs, Momm and Kounev (QoSA 2012), who
// integrate the impact on quality of service over the disruptive load. A single dose would miss a
// mechanism that isolates at full load and fails at a medium one.

/// The mean height of the piecewise linear curve through `(dose, response)`, in the unit of the
/// response. For an interval, compute the area of every block, then a t interval over blocks.
/// Fails with [`NoEstimate::Unequal`], [`NoEstimate::TooFew`] for under two doses,
/// [`NoEstimate::NotFinite`], and [`NoEstimate::OutOfRange`] for doses that do not rise strictly.
pub fn dose_area(doses: &[f64], responses: &[f64]) -> Result<f64, NoEstimate> {
    require_equal_lengths(doses, responses)?;
    require_series("doses", doses, 2)?;
    require_series("responses", responses, 2)?;
    if let Some(pair) = doses.windows(2).find(|pair| pair[0] >= pair[1]) {
        let accepted = "more than the dose before it";
        return Err(NoEstimate::OutOfRange { what: "a dose", value: pair[1], accepted });
    }
    let range = doses[doses.len() - 1] - doses[0];
    let mean_height = doses
        .windows(2)
        .zip(responses.windows(2))
        .map(|(d, r)| (d[1] - d[0]) / range * (r[0] / 2.0 + r[1] / 2.0))
        .sum();
    require_finite_result("dose area", mean_height)
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

    const DELAYS: [f64; 6] = [5.0, 7.0, 4.0, 4.0, 9.0, 6.0];

    #[test]
    fn deviations_equal_scipy() {
        // 1.4826 * scipy.stats.median_abs_deviation(D)
        assert!((median_absolute_deviation(&DELAYS).unwrap() - 2.223_9).abs() < 1e-14);
        assert_eq!(median_absolute_deviation(&[2.0; 5]).unwrap(), 0.0);
    }

    #[test]
    fn one_tenant_at_full_speed_and_one_at_a_quarter() {
        let actual = fairness(&[2.0, 4.0], &[2.0, 1.0]).unwrap();
        assert_eq!((actual.antt, actual.stp, actual.min_over_max), (2.5, 1.25, 0.25));
        assert_eq!(actual.tenants, 2);
        // 1.25^2 / (2 * 1.0625)
        assert!((actual.jain - 0.735_294_117_647_058_8).abs() < 1e-15);
    }

    #[test]
    fn jain_is_flat_near_one() {
        assert!((jain(&[2.0, 1.0]).unwrap() - 0.9).abs() < 1e-15);
        assert!((jain(&[1e-200, 1.0]).unwrap() - 0.5).abs() < 1e-15);
        assert_eq!(jain(&[1e300, 1e300]).unwrap(), 1.0);
    }

    #[test]
    fn refuses_missing_and_impossible_times() {
        assert!(fairness(&[], &[]).is_err());
        assert!(fairness(&[1.0, 2.0], &[1.0]).is_err());
        assert!(fairness(&[0.0], &[1.0]).is_err());
        assert!(fairness(&[1e300], &[1e-300]).is_err());
        assert!(jain(&[1.0, f64::NAN]).is_err());
    }

    const DOSES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

    #[test]
    fn equals_scipy_and_the_hand() {
        // scipy.integrate.trapezoid([1, .9, .7, .8, .6], DOSES) = 0.8
        let actual = dose_area(&DOSES, &[1.0, 0.9, 0.7, 0.8, 0.6]).unwrap();
        assert!((actual - 0.8).abs() < 1e-15);
        // Uneven doses weigh by their width: (0.2 * 0.9 + 0.8 * 0.7) over a range of 1.
        let uneven = dose_area(&[0.0, 0.2, 1.0], &[1.0, 0.8, 0.6]).unwrap();
        assert!((uneven - 0.74).abs() < 1e-15);
    }

    #[test]
    fn it_is_a_mean_for_any_range_of_doses() {
        assert!((dose_area(&[2.0, 4.0], &[0.5, 0.7]).unwrap() - 0.6).abs() < 1e-15);
        assert!((dose_area(&DOSES, &[1.0; 5]).unwrap() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn refuses_doses_that_do_not_rise() {
        assert!(dose_area(&[0.0, 0.5, 0.5], &[1.0; 3]).is_err());
        assert!(dose_area(&[1.0, 0.0], &[1.0; 2]).is_err());
        assert!(dose_area(&[0.0], &[1.0]).is_err());
        assert!(dose_area(&DOSES, &[1.0; 4]).is_err());
        assert!(dose_area(&[0.0, f64::INFINITY], &[1.0; 2]).is_err());
    }
}
