//! The dose area: the mean retention over a range of aggressor doses.
//!
//! The trapezoid mean of the dose-response curve, after Krebs, Momm and Kounev (QoSA 2012), who
//! integrate the impact on quality of service over the disruptive load. A single dose would miss a
//! mechanism that isolates at full load and fails at a medium one.

use crate::estimate::{NoEstimate, require_equal_lengths, require_finite_result, require_series};

/// The mean height of the piecewise linear curve through `(dose, response)`, in the unit of the
/// response. For an interval, compute the area of every block, then a t interval over blocks.
///
/// # Errors
/// [`NoEstimate::Unequal`], [`NoEstimate::TooFew`] for under two doses, [`NoEstimate::NotFinite`],
/// and [`NoEstimate::OutOfRange`] for doses that do not rise strictly.
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
