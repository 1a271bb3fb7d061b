//! Intervals for proportions: Clopper-Pearson, two-sided.
//!
//! Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
//! binomial", Biometrika 26(4), 1934. Exact: the coverage is never below the nominal one, as a
//! claim about survival needs.

use statrs::function::beta::beta_reg;
use statrs::function::gamma::ln_gamma;

use super::estimate::Confidence;
use crate::estimate::{Estimate, NoEstimate, require_open_unit};

/// Largest number of trials. The continued fraction of statrs' incomplete beta function stops after
/// 140 terms: its bounds are wrong from three million trials on and right at a million.
pub const TRIALS_MAX: u32 = 1_000_000;

/// The two-sided interval for `successes` out of `trials`; `n` counts trials.
/// Fails with [`NoEstimate::TooFew`] for no trial, [`NoEstimate::OutOfRange`] for more successes
/// than trials or more than [`TRIALS_MAX`] trials.
pub fn clopper_pearson(
    successes: u32,
    trials: u32,
    confidence: Confidence,
) -> Result<Estimate, NoEstimate> {
    require_counts(successes, trials)?;
    let tail = confidence.alpha() / 2.0;
    let lo = lower_limit(successes, trials, tail);
    let hi = 1.0 - lower_limit(trials - successes, trials, tail);
    Estimate::new(f64::from(successes) / f64::from(trials), lo, hi, trials)
}

/// How many trials without a single failure put the lower end of the two-sided interval at `bound`
/// or above.
/// Fails with [`NoEstimate::OutOfRange`] unless `0 < bound < 1`; [`NoEstimate::Unbounded`] when the
/// number does not fit 32 bits.
pub fn trials_for_lower_limit(bound: f64, confidence: Confidence) -> Result<u32, NoEstimate> {
    require_open_unit("bound", bound)?;
    let trials = ((confidence.alpha() / 2.0).ln() / bound.ln()).ceil();
    if trials <= f64::from(u32::MAX) {
        Ok(trials as u32)
    } else {
        Err(NoEstimate::Unbounded { what: "the number of trials" })
    }
}

fn require_counts(successes: u32, trials: u32) -> Result<(), NoEstimate> {
    if trials == 0 {
        return Err(NoEstimate::TooFew { what: "trials", have: 0, need: 1 });
    }
    require_trials(trials)?;
    if successes > trials {
        let (value, accepted) = (f64::from(successes), "at most the number of trials");
        return Err(NoEstimate::OutOfRange { what: "the number of successes", value, accepted });
    }
    Ok(())
}

/// Refuses more trials than the incomplete beta function supports.
pub(crate) fn require_trials(trials: u32) -> Result<(), NoEstimate> {
    if trials <= TRIALS_MAX {
        return Ok(());
    }
    let (value, accepted) = (f64::from(trials), "at most 1000000");
    Err(NoEstimate::OutOfRange { what: "the number of trials", value, accepted })
}

/// The proportion at which `successes` or more have probability `tail`: the `tail` quantile of
/// Beta(k, n - k + 1).
fn lower_limit(successes: u32, trials: u32, tail: f64) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    if successes == trials {
        return tail.powf(1.0 / f64::from(trials));
    }
    let (a, b) = (f64::from(successes), f64::from(trials - successes) + 1.0);
    // Bisection on the forward function, for the reason given in `student_t`.
    let (mut lo, mut hi) = (0.0_f64, 1.0_f64);
    loop {
        let middle = lo + (hi - lo) / 2.0;
        if middle <= lo || middle >= hi {
            return lo;
        }
        if beta_reg(a, b, middle) <= tail {
            lo = middle;
        } else {
            hi = middle;
        }
    }
}

// The change of a proportion between two groups of trials: its interval, and Fisher's exact test.
//
// The interval is Newcombe's hybrid score method (Statistics in Medicine 17, 1998, method 10) with
// the limits of Clopper and Pearson in place of Wilson's: a verdict rests on it, and with few
// trials Wilson's limits cover too rarely.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trials {
    /// Trials with the outcome that is counted.
    pub successes: u32,
    pub trials: u32,
}

/// The proportion of `second` minus that of `first`; `n` counts the trials of both.
/// Fails as [`clopper_pearson`], for either group.
pub fn difference(
    first: Trials,
    second: Trials,
    confidence: Confidence,
) -> Result<Estimate, NoEstimate> {
    let of = |group: Trials| clopper_pearson(group.successes, group.trials, confidence);
    let (one, two) = (of(first)?, of(second)?);
    let value = two.value - one.value;
    let down = (two.value - two.lo).hypot(one.hi - one.value);
    let up = (two.hi - two.value).hypot(one.value - one.lo);
    let n = first.trials.saturating_add(second.trials);
    Estimate::new(value, value - down, value + up, n)
}

/// The two-sided p value of equal proportions: the probability, with the margins of the table as
/// they are, of all tables that are at most as probable as this one (Fisher, 1935).
/// Fails as [`clopper_pearson`], for either group.
pub fn fisher_p(first: Trials, second: Trials) -> Result<f64, NoEstimate> {
    for group in [first, second] {
        clopper_pearson(group.successes, group.trials, Confidence::P95)?;
    }
    let (n1, n2) = (first.trials, second.trials);
    let all = first.successes + second.successes;
    let ln_table = |k: u32| ln_choose(n1, k) + ln_choose(n2, all - k) - ln_choose(n1 + n2, all);
    // Equal tables may differ in the last places of their logarithms.
    let observed = ln_table(first.successes) + 1e-9;
    let tables = all.saturating_sub(n2)..=all.min(n1);
    let p: f64 = tables.map(ln_table).filter(|ln_p| *ln_p <= observed).map(f64::exp).sum();
    Ok(p.min(1.0))
}

fn ln_choose(n: u32, k: u32) -> f64 {
    let ln_factorial = |n: u32| ln_gamma(f64::from(n) + 1.0);
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

// The exceedance test: whether new values are larger than old ones, whatever their distribution.

/// The probability that `above` or more of `new` values are above the `rank`-th largest of `old`
/// values, where all are exchangeable: none is larger than another for its place. That rank divides
/// the probability by Beta(rank, old - rank + 1), so the count is beta-binomial.
/// Fails with [`NoEstimate::OutOfRange`] for a rank that is not from 1 to `old`, and for more
/// values above than new ones.
pub fn exceedance_p(old: u32, rank: u32, new: u32, above: u32) -> Result<f64, NoEstimate> {
    require_counts(above, new)?;
    require_counts(rank, old)?;
    if rank == 0 {
        return Err(NoEstimate::OutOfRange {
            what: "the rank",
            value: 0.0,
            accepted: "at least 1",
        });
    }
    let ln_beta = |a: u32, b: u32| {
        let (a, b) = (f64::from(a), f64::from(b));
        ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
    };
    let below = old - rank + 1;
    let ln_p = |k: u32| ln_choose(new, k) + ln_beta(rank + k, below + new - k);
    let sum: f64 = (above..=new).map(|k| (ln_p(k) - ln_beta(rank, below)).exp()).sum();
    Ok(sum.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.stats.binomtest(k, n).proportion_ci(.95, method='exact')`, SciPy 1.17.1.
    #[test]
    fn two_sided_equals_scipy() {
        for (k, n, lo, hi) in [
            (10, 10, 0.691_502_892_181_237_1, 1.0),
            (0, 10, 0.0, 0.308_497_107_818_762_94),
            (7, 10, 0.347_547_149_939_992_1, 0.933_260_488_822_265_5),
            (1, 14, 0.001_806_780_659_127_629, 0.338_684_489_931_821_2),
            (13, 14, 0.661_315_510_068_178_8, 0.998_193_219_340_872_4),
            (58, 59, 0.909_144_067_113_350_7, 0.999_570_976_667_159_7),
            (500_000, 1_000_000, 0.499_019_519_195_311_8, 0.500_980_480_804_688_2),
            (150, 299, 0.443_554_685_974_165_7, 0.559_756_338_323_237_5),
            (1, 100000, 2.531_784_274_393_282_6e-07, 5.571_516_034_432_556e-05),
        ] {
            let actual = clopper_pearson(k, n, Confidence::P95).unwrap();
            assert!((actual.lo - lo).abs() < 1e-12, "{k}/{n}: {} {lo}", actual.lo);
            assert!((actual.hi - hi).abs() < 1e-12, "{k}/{n}: {} {hi}", actual.hi);
            assert_eq!(actual.n, n);
        }
    }

    #[test]
    fn trials_needed_are_the_fewest_that_reach_the_bound() {
        for (bound, trials) in [(0.80, 17), (0.90, 36), (0.95, 72), (0.99, 368)] {
            assert_eq!(trials_for_lower_limit(bound, Confidence::P95).unwrap(), trials);
            assert!(clopper_pearson(trials, trials, Confidence::P95).unwrap().lo >= bound);
            assert!(clopper_pearson(trials - 1, trials - 1, Confidence::P95).unwrap().lo < bound);
        }
        assert!(trials_for_lower_limit(1.0, Confidence::P95).is_err());
    }

    #[test]
    fn impossible_counts_are_refused() {
        assert!(clopper_pearson(0, 0, Confidence::P95).is_err());
        assert!(clopper_pearson(4, 3, Confidence::P95).is_err());
        assert!(clopper_pearson(0, TRIALS_MAX + 1, Confidence::P95).is_err());
        let none = clopper_pearson(0, 5, Confidence::P95).unwrap();
        assert_eq!((none.value, none.lo), (0.0, 0.0));
    }

    const fn group(successes: u32, trials: u32) -> Trials {
        Trials { successes, trials }
    }

    #[test]
    fn fisher_equals_scipy() {
        // scipy.stats.fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue
        for (one, two, expected) in [
            (group(14, 14), group(0, 14), 4.985_467_362_637_911e-8),
            (group(14, 14), group(11, 14), 0.222_222_222_222_222_2),
            (group(8, 10), group(1, 6), 0.034_965_034_965_034_97),
            (group(5, 5), group(5, 5), 1.0),
        ] {
            let actual = fisher_p(one, two).unwrap();
            assert!((actual / expected - 1.0).abs() < 1e-9, "{actual}");
            assert_eq!(fisher_p(two, one).map(|p| (p / actual - 1.0).abs() < 1e-9), Ok(true));
        }
        assert!(fisher_p(group(2, 1), group(1, 1)).is_err());
    }

    #[test]
    fn exceedances_are_counted_over_all_orders() {
        // Of five values in any order the two new ones are the largest in 2! 3! / 5! of all orders.
        for ((old, rank, new, above), expected) in
            [((1, 1, 1, 1), 0.5), ((3, 1, 2, 2), 0.1), ((3, 1, 2, 1), 0.4), ((3, 3, 2, 0), 1.0)]
        {
            let p = exceedance_p(old, rank, new, above).unwrap();
            assert!((p - expected).abs() < 1e-9, "{old} {rank} {new} {above}: {p}");
        }
        for (old, rank, new, above) in [(3, 0, 2, 1), (3, 4, 2, 1), (3, 1, 2, 3), (0, 0, 2, 1)] {
            assert!(exceedance_p(old, rank, new, above).is_err());
        }
    }

    /// Every proportion of a grid, every outcome of both groups: the interval excludes 0 without a
    /// change no more often than its confidence allows.
    #[test]
    fn an_interval_without_a_change_excludes_zero_no_more_often_than_allowed() {
        for (n1, n2, alpha) in [(14, 14, 0.05), (14, 56, 0.05), (12, 12, 0.002), (40, 4, 0.1)] {
            let confidence = Confidence::from_alpha(alpha).unwrap();
            for step in 1..20 {
                let share = f64::from(step) / 20.0;
                let mut error = 0.0;
                for k1 in 0..=n1 {
                    for k2 in 0..=n2 {
                        let found = difference(group(k1, n1), group(k2, n2), confidence).unwrap();
                        if found.lo > 0.0 || found.hi < 0.0 {
                            error += binomial(k1, n1, share) * binomial(k2, n2, share);
                        }
                    }
                }
                assert!(error <= alpha, "{n1} {n2} {share}: {error} above {alpha}");
            }
        }
    }

    fn binomial(k: u32, n: u32, share: f64) -> f64 {
        let (successes, failures) = (f64::from(k), f64::from(n - k));
        (ln_choose(n, k) + successes * share.ln() + failures * (1.0 - share).ln()).exp()
    }

    #[test]
    fn swapping_the_groups_mirrors_the_interval() {
        let (one, two) = (group(14, 14), group(3, 20));
        let there = difference(one, two, Confidence::P95).unwrap();
        let back = difference(two, one, Confidence::P95).unwrap();
        assert!(there.hi < 0.0);
        assert_eq!((there.value, there.lo, there.hi), (-back.value, -back.hi, -back.lo));
        let same = difference(one, one, Confidence::P95).unwrap();
        assert!(same.lo < 0.0 && same.hi > 0.0);
    }
}
