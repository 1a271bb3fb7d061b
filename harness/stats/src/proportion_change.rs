//! The change of a proportion between two groups of trials: its interval, and Fisher's exact test.
//!
//! The interval is Newcombe's hybrid score method (Statistics in Medicine 17, 1998, method 10) with
//! the limits of Clopper and Pearson in place of Wilson's: a verdict rests on it, and with few
//! trials Wilson's limits cover too rarely.

use statrs::function::gamma::ln_gamma;

use crate::confidence::Confidence;
use crate::estimate::{Estimate, NoEstimate};
use crate::proportion::clopper_pearson;

/// Trials of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trials {
    /// Trials with the outcome that is counted.
    pub successes: u32,
    /// All trials.
    pub trials: u32,
}

/// The proportion of `second` minus that of `first`; `n` counts the trials of both.
///
/// # Errors
/// As [`clopper_pearson`], for either group.
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
///
/// # Errors
/// As [`clopper_pearson`], for either group.
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

#[cfg(test)]
mod tests {
    use super::*;

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
