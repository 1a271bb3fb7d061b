//! What a number of blocks can show: detectable effect and blocks needed.

use statrs::function::erf::erfc;
use statrs::function::gamma::ln_gamma;

use super::estimate::Confidence;
use crate::estimate::{NoEstimate, require_open_unit, require_positive};
use crate::student_t::{quantile, two_sided_quantile};

/// The power of [`mde80`].
const POWER: f64 = 0.8;

/// The smallest effect found with 80 % power:
/// `MDE80 = (t_(1 - alpha/2, n - 1) + t_(0.8, n - 1)) * sd / sqrt(n)`, in the unit of `sd`.
///
/// The usual approximation of the noncentral t (Bloom, Evaluation Review 19(5), 1995). For two
/// groups or known spreads see [`mde80_of`].
/// Fails with [`NoEstimate::TooFew`] for under two blocks, [`NoEstimate::OutOfRange`] for a bad
/// `sd`.
pub fn mde80(sd: f64, n: u32, confidence: Confidence) -> Result<f64, NoEstimate> {
    require_blocks(n)?;
    mde80_of(sd / f64::from(n).sqrt(), f64::from(n) - 1.0, confidence)
}

/// The smallest effect found with 80 % power, from a standard error and its degrees of freedom.
/// Fails with [`NoEstimate::OutOfRange`] for a negative or infinite standard error or impossible
/// degrees of freedom.
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
/// Fails with [`NoEstimate::TooFew`] for under two present blocks, [`NoEstimate::OutOfRange`] for a
/// bad `sd` or distance; [`NoEstimate::Unbounded`] on the boundary itself, or beyond 32 bits.
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

// The power of a test that asks for two things: an interval that excludes zero, and an estimate of
// at least a margin. The smallest effect that it finds with a given power.
//
// With a margin of zero this is the noncentral t (Johnson, Kotz and Balakrishnan, "Continuous
// Univariate Distributions" 2, 1995, chapter 31), without the far tail. With a margin the standard
// error has to be integrated over: the estimate must pass the larger of two bounds, and one of
// them is proportional to the estimated standard error.

/// Steps of the integral over the standard error.
const STEPS: u32 = 200;
/// How far the power of a detectable effect may be from what was asked.
const CLOSE: f64 = 1e-11;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    pub se: f64,
    pub df: f64,
    /// Confidence of the interval that must exclude zero.
    pub confidence: Confidence,
    /// The least estimate that counts; 0 for any.
    pub margin: f64,
}

impl Test {
    /// The probability that a true effect of this size, in its own direction, is found.
    ///
    /// `P(D >= max(t s, margin))` with `D ~ N(effect, se^2)` and `s^2 df / se^2 ~ chi^2(df)`,
    /// integrated over `s` by the midpoint rule.
    /// Fails with [`NoEstimate::OutOfRange`] for a bad standard error, margin, or degrees of
    /// freedom.
    pub fn power(&self, effect: f64) -> Result<f64, NoEstimate> {
        Ok(self.found(effect, &self.bounds(self.critical()?)))
    }

    /// The smallest effect that is found with this power.
    /// Fails as [`Test::power`], and [`NoEstimate::OutOfRange`] unless the power lies above 0 and
    /// below 1.
    pub fn detectable(&self, power: f64) -> Result<f64, NoEstimate> {
        require_open_unit("power", power)?;
        let t = self.critical()?;
        if self.se == 0.0 {
            return Ok(self.margin);
        }
        let bounds = self.bounds(t);
        let (mut lo, mut hi) = (0.0, self.margin + self.se * (t + 10.0));
        while self.found(hi, &bounds) < power {
            hi *= 2.0;
            if hi.is_infinite() {
                return Err(NoEstimate::Unbounded { what: "the detectable effect" });
            }
        }
        // False position with the Illinois rule (Dowell and Jarratt, BIT 11(2), 1971): a twentieth
        // of the time of halvings, which histories of 1,000 GPUs notice.
        let beyond = |effect| self.found(effect, &bounds) - power;
        let (mut below, mut above, mut moved) = (beyond(lo), beyond(hi), None);
        for _ in 0..STEPS {
            let at = (lo * above - hi * below) / (above - below);
            let value = beyond(at);
            if value.abs() < CLOSE {
                return Ok(at);
            }
            let is_above = value > 0.0;
            let (end, other) = if is_above {
                ((&mut hi, &mut above), &mut below)
            } else {
                ((&mut lo, &mut below), &mut above)
            };
            (*end.0, *end.1) = (at, value);
            if moved.replace(is_above) == Some(is_above) {
                *other /= 2.0;
            }
        }
        Ok(hi)
    }

    /// What an estimate must reach, with its weight, for each estimated standard error.
    fn bounds(&self, t: f64) -> Vec<(f64, f64)> {
        let (half, widest) = (self.df / 2.0, 1.0 + 8.0 / (2.0 * self.df).sqrt());
        let constant = std::f64::consts::LN_2 + half * half.ln() - ln_gamma(half);
        let step = widest / f64::from(STEPS);
        let at = |index: u32| {
            // The ratio of the estimated standard error to the true one, and its density.
            let c = (f64::from(index) + 0.5) * step;
            let density = (constant + (self.df - 1.0) * c.ln() - half * c * c).exp();
            ((t * c * self.se).max(self.margin), density)
        };
        let all: Vec<(f64, f64)> = (0..STEPS).map(at).collect();
        // Most of the steps of many degrees of freedom weigh less than the sum can hold.
        let most = all.iter().fold(0.0, |most: f64, (_, density)| most.max(*density));
        all.into_iter().filter(|(_, density)| *density > most * f64::EPSILON / 16.0).collect()
    }

    fn found(&self, effect: f64, bounds: &[(f64, f64)]) -> f64 {
        if self.se == 0.0 {
            return f64::from(effect >= self.margin && effect > 0.0);
        }
        let (mut mass, mut found) = (0.0, 0.0);
        for (bound, density) in bounds {
            mass += density;
            found += density * upper_normal((bound - effect) / self.se);
        }
        // The mass is 1 up to the error of the rule; dividing removes most of that error.
        (found / mass).clamp(0.0, 1.0)
    }

    fn critical(&self) -> Result<f64, NoEstimate> {
        for (what, value) in [("standard error", self.se), ("margin", self.margin)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(NoEstimate::OutOfRange {
                    what,
                    value,
                    accepted: "a finite number, 0 or above",
                });
            }
        }
        require_positive("degrees of freedom", self.df)?;
        two_sided_quantile(self.confidence.alpha(), self.df)
    }
}

/// P(Z > z) of the normal distribution.
fn upper_normal(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
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

    fn test(df: f64, rows: u32, margin: f64) -> Test {
        Test { se: 1.0, df, confidence: Confidence::simultaneous(0.05, rows).unwrap(), margin }
    }

    /// `scipy.stats.nct.sf(t.ppf(1 - a/2, df), df, effect)`.
    #[test]
    fn without_a_margin_the_power_is_that_of_the_noncentral_t() {
        for (df, rows, effect, expected) in NONCENTRAL {
            let actual = test(df, rows, 0.0).power(effect).unwrap();
            assert!((actual - expected).abs() < 1e-4, "df {df}: {actual}");
        }
    }

    #[test]
    fn the_detectable_effect_has_the_power() {
        for (df, rows, margin) in [(6.0, 27, 0.0), (6.0, 27, 9.0), (3.2, 1, 2.0), (14.0, 27, 1.0)] {
            let test = test(df, rows, margin);
            let effect = test.detectable(0.8).unwrap();
            assert!((test.power(effect).unwrap() - 0.8).abs() < 1e-6);
            // Below a margin that decides, half of the estimates pass at the margin itself.
            assert!(test.power(margin).unwrap() <= 0.5 + 1e-12);
        }
        // A margin far beyond the noise decides alone: z of 0.8 above it.
        let effect = test(6.0, 1, 100.0).detectable(0.8).unwrap();
        assert!((effect - 100.0 - 0.841_621).abs() < 1e-4, "{effect}");
    }

    #[test]
    fn without_noise_the_margin_is_detectable() {
        let exact = Test { se: 0.0, ..test(6.0, 1, 0.03) };
        assert_eq!(exact.detectable(0.8).unwrap(), 0.03);
        assert_eq!(exact.power(0.02).unwrap(), 0.0);
        assert_eq!(exact.power(0.03).unwrap(), 1.0);
        assert!(test(0.0, 1, 0.0).power(1.0).is_err());
        assert!(test(6.0, 1, 0.0).detectable(1.0).is_err());
    }

    /// Degrees of freedom, rows of the family, effect in standard errors, power (SciPy 1.17.1).
    const NONCENTRAL: [(f64, u32, f64, f64); 6] = [
        (3.2, 1, 2.0, 0.299_584_788_357),
        (6.0, 1, 3.0, 0.706_709_825_250),
        (6.0, 27, 5.0, 0.496_279_302_683),
        (6.0, 27, 8.0, 0.943_345_098_139),
        (14.0, 27, 4.5, 0.727_956_896_203),
        (14.0, 1, 2.5, 0.642_929_499_882),
    ];
}
