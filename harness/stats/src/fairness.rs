//! Progress and fairness of tenants that share a device: ANTT, STP, min over max, Jain.
//!
//! Eyerman and Eeckhout, "System-level performance metrics for multiprogram workloads", IEEE
//! Micro 28(3), 2008; Jain, Chiu and Hawe, DEC-TR-301, 1984. They describe the operator's view and
//! never enter the isolation level: a fair device may isolate nothing.

use crate::estimate::{
    NoEstimate, require_equal_lengths, require_finite_result, require_positive_series,
};
use crate::moments::mean;

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
    /// Number of tenants.
    pub tenants: u32,
}

/// Compares each tenant's time for its work when sharing with its time alone, in the same order.
///
/// # Errors
/// [`NoEstimate::Unequal`], [`NoEstimate::NotPositive`], [`NoEstimate::NotFinite`], or
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
///
/// # Errors
/// [`NoEstimate::TooFew`] for no share, [`NoEstimate::NotPositive`], [`NoEstimate::NotFinite`].
pub fn jain(shares: &[f64]) -> Result<f64, NoEstimate> {
    let n = require_positive_series("shares", shares, 1)?;
    // The index does not depend on the scale; dividing by the largest avoids overflow of squares.
    let largest = shares.iter().copied().fold(0.0, f64::max);
    let sum: f64 = shares.iter().map(|x| x / largest).sum();
    let squares: f64 = shares.iter().map(|x| (x / largest).powi(2)).sum();
    Ok(sum * sum / (f64::from(n) * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_equal_halves_are_fair_but_slow() {
        let actual = fairness(&[2.0, 4.0], &[1.0, 2.0]).unwrap();
        let expected = Fairness { antt: 2.0, stp: 1.0, min_over_max: 1.0, jain: 1.0, tenants: 2 };
        assert_eq!(actual, expected);
    }

    #[test]
    fn one_tenant_at_full_speed_and_one_at_a_quarter() {
        let actual = fairness(&[1.0, 4.0], &[1.0, 1.0]).unwrap();
        assert_eq!((actual.antt, actual.stp, actual.min_over_max), (2.5, 1.25, 0.25));
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
}
