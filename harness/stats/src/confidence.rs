//! The confidence of an interval, checked once so that no function receives an invalid one.

use crate::estimate::{NoEstimate, require_open_unit};

/// The confidence of an interval, kept as its error probability alpha.
///
/// It stores alpha and not the coverage: `1 - 0.05 / 25` loses digits that the quantile of a small
/// tail needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    alpha: f64,
}

impl Confidence {
    /// Two-sided 95 %: the confidence of every level.
    pub const P95: Self = Self { alpha: 0.05 };
    /// Two-sided 90 %: the confidence of an equivalence test at 5 % (see [`crate::effect`]).
    pub const P90: Self = Self { alpha: 0.10 };

    /// A confidence of `1 - alpha`.
    ///
    /// # Errors
    /// [`NoEstimate::OutOfRange`] unless alpha lies above 0 and below 1.
    pub fn from_alpha(alpha: f64) -> Result<Self, NoEstimate> {
        require_open_unit("alpha", alpha).map(|alpha| Self { alpha })
    }

    /// The confidence of each of `rows` intervals that hold together with `1 - family_alpha`
    /// (Bonferroni: the error is split evenly over the rows).
    ///
    /// # Errors
    /// [`NoEstimate::OutOfRange`] for a bad alpha, [`NoEstimate::TooFew`] for zero rows.
    pub fn simultaneous(family_alpha: f64, rows: u32) -> Result<Self, NoEstimate> {
        require_open_unit("alpha", family_alpha)?;
        if rows == 0 {
            return Err(NoEstimate::TooFew { what: "rows of a family", have: 0, need: 1 });
        }
        Self::from_alpha(family_alpha / f64::from(rows))
    }

    /// The error probability.
    #[must_use]
    pub fn alpha(self) -> f64 {
        self.alpha
    }

    /// The nominal coverage, `1 - alpha`.
    #[must_use]
    pub fn coverage(self) -> f64 {
        1.0 - self.alpha
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_the_error_over_a_family() {
        let each = Confidence::simultaneous(0.05, 25).unwrap();
        assert!((each.alpha() - 0.002).abs() < 1e-18);
        assert!((each.coverage() - 0.998).abs() < 1e-15);
        assert!(Confidence::simultaneous(0.05, 0).is_err());
    }

    #[test]
    fn refuses_impossible_values() {
        for alpha in [0.0, 1.0, -0.1, f64::NAN, f64::INFINITY] {
            assert!(Confidence::from_alpha(alpha).is_err(), "{alpha} was accepted");
        }
    }
}
