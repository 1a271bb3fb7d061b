//! What a number of blocks can show: detectable effect and blocks needed.

use crate::confidence::Confidence;
use crate::estimate::{NoEstimate, require_positive};
use crate::student_t::{quantile, two_sided_quantile};

/// The power of [`mde80`].
const POWER: f64 = 0.8;

/// The smallest effect found with 80 % power:
/// `MDE80 = (t_(1 - alpha/2, n - 1) + t_(0.8, n - 1)) * sd / sqrt(n)`, in the unit of `sd`.
///
/// The usual approximation of the noncentral t (Bloom, Evaluation Review 19(5), 1995). For two
/// groups or known spreads see [`mde80_of`].
///
/// # Errors
/// [`NoEstimate::TooFew`] for under two blocks, [`NoEstimate::OutOfRange`] for a bad `sd`.
pub fn mde80(sd: f64, n: u32, confidence: Confidence) -> Result<f64, NoEstimate> {
    require_blocks(n)?;
    mde80_of(sd / f64::from(n).sqrt(), f64::from(n) - 1.0, confidence)
}

/// The smallest effect found with 80 % power, from a standard error and its degrees of freedom.
///
/// # Errors
/// [`NoEstimate::OutOfRange`] for a negative or infinite standard error or impossible degrees of
/// freedom.
pub fn mde80_of(se: f64, df: f64, confidence: Confidence) -> Result<f64, NoEstimate> {
    require_spread("the spread under a detectable effect", se)?;
    Ok((two_sided_quantile(confidence.alpha(), df)? + quantile(POWER, df)?) * se)
}

/// How many blocks would move an interval clear of a boundary at `distance` from its estimate,
/// `n* = ceil((t * sd / distance)^2)`, at least two (Cochran, "Sampling Techniques", 1977,
/// chapter 4).
///
/// `t` is that of the present `n` blocks. More blocks have a smaller t, so the result is an upper
/// estimate as long as the point estimate does not move.
///
/// # Errors
/// [`NoEstimate::TooFew`] for under two present blocks, [`NoEstimate::OutOfRange`] for a bad `sd`
/// or distance; [`NoEstimate::Unbounded`] on the boundary itself, or beyond 32 bits.
pub fn blocks_needed(
    sd: f64,
    n: u32,
    distance: f64,
    confidence: Confidence,
) -> Result<u32, NoEstimate> {
    const UNBOUNDED: NoEstimate = NoEstimate::Unbounded { what: "the number of blocks needed" };
    require_blocks(n)?;
    require_spread("the spread between blocks", sd)?;
    if distance == 0.0 {
        return Err(UNBOUNDED);
    }
    require_positive("the distance to the boundary", distance)?;
    let t = two_sided_quantile(confidence.alpha(), f64::from(n) - 1.0)?;
    let needed = (t * sd / distance).powi(2).ceil().max(2.0);
    if needed <= f64::from(u32::MAX) { Ok(needed as u32) } else { Err(UNBOUNDED) }
}

fn require_blocks(n: u32) -> Result<(), NoEstimate> {
    if n < 2 {
        return Err(NoEstimate::TooFew { what: "blocks", have: u64::from(n), need: 2 });
    }
    Ok(())
}

fn require_spread(what: &'static str, spread: f64) -> Result<(), NoEstimate> {
    if spread >= 0.0 && spread.is_finite() {
        return Ok(());
    }
    Err(NoEstimate::OutOfRange { what, value: spread, accepted: "a finite number, 0 or above" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(t.ppf(1 - a/2, n-1) + t.ppf(.8, n-1)) / sqrt(n)` for a = .05 and a = .05/25, SciPy 1.17.1.
    #[test]
    fn detectable_effects_equal_scipy() {
        let family = Confidence::simultaneous(0.05, 25).unwrap();
        for (n, single, one_of_25) in [
            (6, 1.424_837_816_185_980_3, 2.781_384_707_435_332),
            (8, 1.152_815_240_448_928, 2.008_649_691_995_127),
            (10, 0.994_713_735_009_673_4, 1.638_126_084_772_589_4),
            (12, 0.888_113_421_592_911_1, 1.414_574_848_004_207_7),
            (16, 0.749_423_629_688_681_9, 1.149_769_849_626_463),
            (20, 0.660_528_801_986_637, 0.992_892_600_740_279),
        ] {
            let actual = mde80(1.0, n, Confidence::P95).unwrap();
            assert!((actual - single).abs() < 1e-11, "n = {n}: {actual}");
            let actual = mde80(1.0, n, family).unwrap();
            assert!((actual - one_of_25).abs() < 1e-11, "n = {n}: {actual}");
        }
        assert_eq!(mde80(0.0, 8, Confidence::P95).unwrap(), 0.0);
        assert!(mde80(1.0, 1, Confidence::P95).is_err());
        assert!(mde80(f64::NAN, 8, Confidence::P95).is_err());
    }

    #[test]
    fn blocks_needed_are_rounded_up() {
        // (t.ppf(.975, 7) * .02 / .01)**2 = 22.37
        assert_eq!(blocks_needed(0.02, 8, 0.01, Confidence::P95).unwrap(), 23);
        assert_eq!(blocks_needed(0.0, 8, 0.01, Confidence::P95).unwrap(), 2);
        assert!(matches!(
            blocks_needed(0.02, 8, 0.0, Confidence::P95),
            Err(NoEstimate::Unbounded { .. })
        ));
        assert!(matches!(
            blocks_needed(1.0, 8, 1e-9, Confidence::P95),
            Err(NoEstimate::Unbounded { .. })
        ));
        assert!(blocks_needed(0.02, 8, f64::NAN, Confidence::P95).is_err());
        assert!(blocks_needed(0.02, 1, 0.01, Confidence::P95).is_err());
    }
}
