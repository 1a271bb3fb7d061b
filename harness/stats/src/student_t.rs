//! Student's t distribution: quantile and two-sided p.
//!
//! Student, "The probable error of a mean", Biometrika 6(1), 1908. Degrees of freedom may be
//! fractional, as in the Welch-Satterthwaite formula.

use std::cell::RefCell;
use std::collections::BTreeMap;

use statrs::function::beta::beta_reg;

use crate::estimate::{NoEstimate, require_finite_result, require_open_unit, require_positive};

/// The `p` quantile with `df` degrees of freedom.
/// Fails with [`NoEstimate::OutOfRange`] unless `0 < p < 1` and `df` is finite and above 0.
pub fn quantile(p: f64, df: f64) -> Result<f64, NoEstimate> {
    require_open_unit("probability", p)?;
    require_positive("degrees of freedom", df)?;
    // Both tails use the smaller one, so that opposite quantiles are equal to the last bit.
    let tail = p.min(1.0 - p);
    let magnitude = if tail == 0.5 { 0.0 } else { upper_quantile(tail, df)? };
    Ok(if p < 0.5 { -magnitude } else { magnitude })
}

/// The value that |T| exceeds with probability `alpha`: the t of a two-sided interval.
/// Fails with [`NoEstimate::OutOfRange`] unless `0 < alpha < 1` and `df` is finite and above 0.
pub fn two_sided_quantile(alpha: f64, df: f64) -> Result<f64, NoEstimate> {
    require_open_unit("alpha", alpha)?;
    require_positive("degrees of freedom", df)?;
    upper_quantile(alpha / 2.0, df)
}

/// The probability of a value at least as far from zero as `t`.
/// Fails with [`NoEstimate::OutOfRange`] for a `t` that is NaN or a `df` that is not finite and
/// above 0.
pub fn two_sided_p(t: f64, df: f64) -> Result<f64, NoEstimate> {
    Ok((2.0 * upper_tail(t.abs(), df)?).min(1.0))
}

/// P(T > t) for `t >= 0`, by the incomplete beta function (NIST DLMF 8.17; Abramowitz and Stegun
/// 26.7.1), which keeps its relative precision far out in the tail where `1 - cdf` has none.
fn upper_tail(t: f64, df: f64) -> Result<f64, NoEstimate> {
    require_positive("degrees of freedom", df)?;
    if t.is_nan() {
        let accepted = "any number";
        return Err(NoEstimate::OutOfRange { what: "t", value: t, accepted });
    }
    if t == 0.0 {
        return Ok(0.5);
    }
    let square = t * t;
    if square.is_infinite() {
        return Ok(0.0);
    }
    // Near the centre df / (df + t^2) is close to 1 and loses digits; its complement does not.
    let half_mass = if square < df {
        1.0 - beta_reg(0.5, df / 2.0, square / (df + square))
    } else {
        beta_reg(df / 2.0, 0.5, df / (df + square))
    };
    require_finite_result("tail of Student's t", 0.5 * half_mass)
}

thread_local! {
    /// Quantiles of whole degrees of freedom, by the bits of the tail and of the degrees.
    static KNOWN: RefCell<BTreeMap<(u64, u64), f64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Most quantiles that a thread keeps.
const KNOWN_MAX: usize = 4096;

/// The t whose upper tail is `tail < 0.5`.
///
/// A record has few counts of blocks and thousands of intervals, so those of whole degrees of
/// freedom are kept.
fn upper_quantile(tail: f64, df: f64) -> Result<f64, NoEstimate> {
    let key = (tail.to_bits(), df.to_bits());
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&key).copied()) {
        return Ok(known);
    }
    let found = bisected_quantile(tail, df)?;
    if df.fract() == 0.0 {
        KNOWN.with_borrow_mut(|known| {
            if known.len() < KNOWN_MAX {
                known.insert(key, found);
            }
        });
    }
    Ok(found)
}

/// As [`upper_quantile`], by bracketing and bisection on [`upper_tail`].
///
/// The inverse of statrs inverts the beta function and loses digits near the centre. Bisection has
/// the precision of the forward function.
fn bisected_quantile(tail: f64, df: f64) -> Result<f64, NoEstimate> {
    let (mut lo, mut hi) = (0.0_f64, 1.0_f64);
    while upper_tail(hi, df)? > tail {
        lo = hi;
        hi *= 2.0;
        if hi.is_infinite() {
            return Err(NoEstimate::Overflow { what: "quantile of Student's t" });
        }
    }
    loop {
        let middle = lo + (hi - lo) / 2.0;
        if middle <= lo || middle >= hi {
            return Ok(hi);
        }
        if upper_tail(middle, df)? > tail {
            lo = middle;
        } else {
            hi = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The incomplete beta function of statrs keeps 11 digits up to thousands of degrees of
    /// freedom, and 9 at a million.
    fn close(df: f64, actual: f64, expected: f64) {
        let error = (actual - expected).abs() / expected.abs();
        let accepted = if df > 1e4 { 1e-9 } else { 1e-11 };
        assert!(
            error < accepted,
            "actual {actual}, expected {expected}, df {df}, relative error {error:e}"
        );
    }

    /// `scipy.stats.t.ppf(p, df)`, SciPy 1.17.1.
    #[test]
    fn quantiles_equal_scipy() {
        for (p, df, expected) in [
            (0.975, 1.0, 12.706_204_736_174_694),
            (0.975, 2.0, 4.302_652_729_749_462),
            (0.975, 7.0, 2.364_624_251_592_784),
            (0.975, 9.0, 2.262_157_162_798_205),
            (0.95, 7.0, 1.894_578_605_090_006_2),
            (0.8, 7.0, 0.896_029_644_313_765_3),
            (0.999, 7.0, 4.785_289_628_638_333),
            (0.999, 5.0, 5.893_429_531_356_009),
            (0.6, 5.0, 0.267_180_865_704_145_1),
            (0.975, 3.7, 2.867_520_707_191_189_5),
            (0.975, 5000.0, 1.960_438_551_706_507_3),
            (0.975, 1e6, 1.959_966_356_814_107),
        ] {
            close(df, quantile(p, df).unwrap(), expected);
            close(df, quantile(1.0 - p, df).unwrap(), -expected);
            close(df, two_sided_quantile(2.0 * (1.0 - p), df).unwrap(), expected);
        }
        assert_eq!(quantile(0.5, 3.0).unwrap(), 0.0);
    }

    /// `2 * scipy.stats.t.sf(abs(t), df)`, SciPy 1.17.1.
    #[test]
    fn probabilities_equal_scipy() {
        for (t, df, expected_p) in [
            (1.0, 1.0, 0.5),
            (-2.0, 7.0, 0.085_619_328_562_976_05),
            (2.5, 3.7, 0.071_822_022_911_826_78),
            (-1.96, 5000.0, 0.050_051_252_291_819_504),
            (0.01, 10.0, 0.992_217_974_990_971_4),
            (40.0, 9.0, 1.898_299_844_933_982_6e-11),
            (-1.96, 1e6, 0.049_996_067_585_269_85),
        ] {
            close(df, two_sided_p(t, df).unwrap(), expected_p);
        }
    }

    #[test]
    fn infinite_t_has_no_tail_and_impossible_values_are_refused() {
        assert_eq!(two_sided_p(f64::INFINITY, 7.0).unwrap(), 0.0);
        assert!(two_sided_p(f64::NAN, 7.0).is_err());
        assert!(quantile(1.0, 7.0).is_err());
        assert!(quantile(0.5, 0.0).is_err());
        assert!(quantile(0.975, f64::INFINITY).is_err());
    }
}
