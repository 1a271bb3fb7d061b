//! The two kinds of result: an interval estimate, or the reason why there is none.
//!
//! This file holds no statistics, only checks of numbers.

use thiserror::Error;

/// A value with its interval and the number of independent units behind it.
///
/// The unit of measurement is that of the input. `n` counts blocks, sessions or trials, as the
/// function that makes the estimate says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// The lower end of the interval, at most `value`.
    pub lo: f64,
    /// The upper end of the interval, at least `value`.
    pub hi: f64,
    /// Number of independent units (blocks, sessions, trials).
    pub n: u32,
}

impl Estimate {
    /// Builds an estimate; refuses figures that are not finite or not in order.
    /// Fails with [`NoEstimate::Overflow`] when a figure is infinite or not a number, and
    /// [`NoEstimate::Disordered`] when the interval does not contain the value.
    pub fn new(value: f64, lo: f64, hi: f64, n: u32) -> Result<Self, NoEstimate> {
        for (what, figure) in [("value", value), ("lower bound", lo), ("upper bound", hi)] {
            require_finite_result(what, figure)?;
        }
        if lo <= value && value <= hi {
            Ok(Self { value, lo, hi, n })
        } else {
            Err(NoEstimate::Disordered { value, lo, hi })
        }
    }

    /// Whether `x` lies in the closed interval.
    pub fn contains(&self, x: f64) -> bool {
        self.lo <= x && x <= self.hi
    }

    /// Maps the interval through an increasing function, for example `exp`.
    /// Fails with those of [`Estimate::new`], on the mapped figures.
    pub fn map_increasing(&self, f: impl Fn(f64) -> f64) -> Result<Self, NoEstimate> {
        Self::new(f(self.value), f(self.lo), f(self.hi), self.n)
    }

    /// Maps the interval through a decreasing function, which swaps its ends.
    /// Fails with those of [`Estimate::new`], on the mapped figures.
    pub fn map_decreasing(&self, f: impl Fn(f64) -> f64) -> Result<Self, NoEstimate> {
        Self::new(f(self.value), f(self.hi), f(self.lo), self.n)
    }
}

/// Why there is no estimate. The text says what is wrong and what is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum NoEstimate {
    #[error("too few {what}: have {have}, need at least {need}")]
    TooFew { what: &'static str, have: u64, need: u64 },
    /// An input is infinite or not a number.
    #[error("{what} number {index} is not finite: only finite numbers are accepted")]
    NotFinite {
        what: &'static str,
        /// Position of the first such number, counted from 0.
        index: usize,
    },
    /// An input that must be above zero is not.
    #[error("{what} number {index} is {value}: only numbers above zero are accepted")]
    NotPositive {
        what: &'static str,
        /// Position of the first such number, counted from 0.
        index: usize,
        value: f64,
    },
    /// Two paired series differ in length.
    #[error("series differ in length: {left} against {right}, equal lengths are accepted")]
    Unequal { left: usize, right: usize },
    #[error("{what} is {value}: accepted is {accepted}")]
    OutOfRange { what: &'static str, value: f64, accepted: &'static str },
    /// The data are consistent with arbitrarily large figures.
    #[error("{what} has no finite bound: more blocks or a stronger effect are needed")]
    Unbounded {
        /// The quantity without a bound.
        what: &'static str,
    },
    /// The arithmetic left the range of a 64-bit float.
    #[error("{what} is not a finite number: the data leave the range of a 64-bit float")]
    Overflow { what: &'static str },
    /// The interval does not contain its point estimate (a resampling artefact, or a defect).
    #[error("interval [{lo}, {hi}] does not contain its estimate {value}")]
    Disordered { value: f64, lo: f64, hi: f64 },
}

/// Refuses a series that is too short or holds an infinity or NaN; returns its length.
pub(crate) fn require_series(
    what: &'static str,
    values: &[f64],
    need: u32,
) -> Result<u32, NoEstimate> {
    if let Some(index) = values.iter().position(|v| !v.is_finite()) {
        return Err(NoEstimate::NotFinite { what, index });
    }
    let n = u32::try_from(values.len()).map_err(|_| NoEstimate::OutOfRange {
        what: "the length of a series",
        value: values.len() as f64,
        accepted: "at most 4294967295",
    })?;
    if n < need {
        return Err(NoEstimate::TooFew { what, have: u64::from(n), need: u64::from(need) });
    }
    Ok(n)
}

/// As [`require_series`], and every value must be above zero.
pub(crate) fn require_positive_series(
    what: &'static str,
    values: &[f64],
    need: u32,
) -> Result<u32, NoEstimate> {
    let n = require_series(what, values, need)?;
    match values.iter().position(|&v| v <= 0.0) {
        Some(index) => Err(NoEstimate::NotPositive { what, index, value: values[index] }),
        None => Ok(n),
    }
}

/// Refuses series of different lengths.
pub(crate) fn require_equal_lengths(left: &[f64], right: &[f64]) -> Result<(), NoEstimate> {
    if left.len() == right.len() {
        Ok(())
    } else {
        Err(NoEstimate::Unequal { left: left.len(), right: right.len() })
    }
}

/// Refuses a probability outside the open interval (0, 1), NaN included.
pub(crate) fn require_open_unit(what: &'static str, p: f64) -> Result<f64, NoEstimate> {
    if p > 0.0 && p < 1.0 {
        Ok(p)
    } else {
        Err(NoEstimate::OutOfRange { what, value: p, accepted: "above 0 and below 1" })
    }
}

/// Refuses a parameter that is not finite or not above zero.
pub(crate) fn require_positive(what: &'static str, value: f64) -> Result<f64, NoEstimate> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(NoEstimate::OutOfRange { what, value, accepted: "a finite number above 0" })
    }
}

/// Refuses a result that left the range of the float.
pub(crate) fn require_finite_result(what: &'static str, value: f64) -> Result<f64, NoEstimate> {
    if value.is_finite() { Ok(value) } else { Err(NoEstimate::Overflow { what }) }
}

// The confidence of an interval, checked once so that no function receives an invalid one.

/// The confidence of an interval, kept as its error probability alpha.
///
/// It stores alpha and not the coverage: `1 - 0.05 / 25` loses digits that the quantile of a small
/// tail needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    alpha: f64,
}

impl Default for Confidence {
    fn default() -> Self {
        Self::P95
    }
}

impl Confidence {
    /// Two-sided 95 %: the confidence of every level.
    pub const P95: Self = Self { alpha: 0.05 };
    /// Two-sided 90 %: the confidence of an equivalence test at 5 % (see [`crate::effect`]).
    pub const P90: Self = Self { alpha: 0.10 };

    /// A confidence of `1 - alpha`.
    /// Fails with [`NoEstimate::OutOfRange`] unless alpha lies above 0 and below 1.
    pub fn from_alpha(alpha: f64) -> Result<Self, NoEstimate> {
        require_open_unit("alpha", alpha).map(|alpha| Self { alpha })
    }

    /// The confidence of each of `rows` intervals that hold together with `1 - family_alpha`
    /// (Bonferroni: the error is split evenly over the rows).
    /// Fails with [`NoEstimate::OutOfRange`] for a bad alpha, [`NoEstimate::TooFew`] for zero rows.
    pub fn simultaneous(family_alpha: f64, rows: u32) -> Result<Self, NoEstimate> {
        require_open_unit("alpha", family_alpha)?;
        if rows == 0 {
            return Err(NoEstimate::TooFew { what: "rows of a family", have: 0, need: 1 });
        }
        Self::from_alpha(family_alpha / f64::from(rows))
    }

    /// The confidence of each of so many looks at one row, any of which may decide (Bonferroni).
    pub fn of_looks(looks: u32) -> Self {
        Self { alpha: Self::P95.alpha / f64::from(looks.max(1)) }
    }

    pub fn alpha(self) -> f64 {
        self.alpha
    }

    /// The nominal coverage, `1 - alpha`.
    pub fn coverage(self) -> f64 {
        1.0 - self.alpha
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_not_finite_or_not_in_order() {
        assert!(Estimate::new(1.0, 1.0, 1.0, 3).is_ok());
        assert_eq!(
            Estimate::new(f64::NAN, 0.0, 1.0, 3),
            Err(NoEstimate::Overflow { what: "value" })
        );
        assert_eq!(
            Estimate::new(0.5, f64::NEG_INFINITY, 1.0, 3),
            Err(NoEstimate::Overflow { what: "lower bound" })
        );
        assert_eq!(
            Estimate::new(2.0, 0.0, 1.0, 3),
            Err(NoEstimate::Disordered { value: 2.0, lo: 0.0, hi: 1.0 })
        );
    }

    #[test]
    fn names_the_first_bad_value_and_what_is_missing() {
        let too_few = require_series("block logs", &[1.0], 2).unwrap_err();
        assert_eq!(too_few.to_string(), "too few block logs: have 1, need at least 2");
        assert_eq!(
            require_series("rates", &[1.0, f64::NAN, f64::INFINITY], 1),
            Err(NoEstimate::NotFinite { what: "rates", index: 1 })
        );
        assert_eq!(
            require_positive_series("rates", &[1.0, 2.0, 0.0], 1),
            Err(NoEstimate::NotPositive { what: "rates", index: 2, value: 0.0 })
        );
    }

    #[test]
    fn decreasing_maps_swap_the_ends() {
        let estimate = Estimate::new(0.5, 0.25, 0.75, 4).unwrap();
        let mirrored = estimate.map_decreasing(|x| 1.0 - x).unwrap();
        assert_eq!((mirrored.lo, mirrored.value, mirrored.hi), (0.25, 0.5, 0.75));
        assert!(estimate.contains(0.75) && !estimate.contains(0.76));
    }

    #[test]
    fn splits_the_error_over_a_family() {
        let each = Confidence::simultaneous(0.05, 25).unwrap();
        assert!((each.alpha() - 0.002).abs() < 1e-18);
        assert!((each.coverage() - 0.998).abs() < 1e-15);
        assert!(Confidence::simultaneous(0.05, 0).is_err());
        assert_eq!(Confidence::of_looks(1), Confidence::P95);
        assert_eq!(Confidence::of_looks(2).alpha(), 0.025);
    }

    #[test]
    fn refuses_impossible_values() {
        for alpha in [0.0, 1.0, -0.1, f64::NAN, f64::INFINITY] {
            assert!(Confidence::from_alpha(alpha).is_err(), "{alpha} was accepted");
        }
    }
}
