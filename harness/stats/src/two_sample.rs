//! Differences between sessions without common blocks: Student and Welch, prediction, and one
//! against one.
//!
//! Every effect is "second minus first" on the scale of the input; comparisons use the session mean
//! of block logs. The caller decides how many sessions suffice to attribute a change.

use statrs::function::beta::beta_reg;

use super::summary::{mean, moments};
use crate::effect::Effect;
use crate::estimate::{NoEstimate, require_finite_result, require_positive, require_series};

/// Welch's t for two groups of sessions (Welch, Biometrika 34, 1947): unequal variances, degrees
/// of freedom by Satterthwaite. `n` counts the sessions of both groups.
/// Fails with [`NoEstimate::TooFew`] for under two sessions in a group, [`NoEstimate::NotFinite`]
/// for a bad value.
pub fn welch(first: &[f64], second: &[f64]) -> Result<Effect, NoEstimate> {
    let (a, b) = (moments(first)?, moments(second)?);
    let component =
        |sd: f64, n: u32| Component { variance: sd * sd / f64::from(n), df: f64::from(n - 1) };
    combine(b.mean - a.mean, [component(a.sd, a.n), component(b.sd, b.n)], a.n.saturating_add(b.n))
}

/// Level of the test whether two groups spread differently.
const SPREADS_ALPHA: f64 = 0.10;

/// Student's t for two groups of sessions of the same size, or nearly, and [`welch`] where an F
/// test of 10 % says that they spread differently, or where one is larger.
///
/// Welch's degrees of freedom vary with the draw. Of 3 + 3 sessions, at a level of 0.05 / 20, it
/// has 0.44 times as many false alarms as the level says and finds 78 % of changes of ten
/// deviations; this has 0.89 times as many and finds 92 %. Where the deviations differ 2 and 5
/// times, this has 1.3 and 3.5 times as many, Welch's t 0.7 and 1.9, and Student's t 1.4 and 4.0
/// (simulated, 400,000 draws each).
/// Fails as [`welch`].
pub fn between_sessions(first: &[f64], second: &[f64]) -> Result<Effect, NoEstimate> {
    let (a, b) = (moments(first)?, moments(second)?);
    let unequal = welch(first, second)?;
    let (smaller, larger) = (a.sd.min(b.sd).powi(2), a.sd.max(b.sd).powi(2));
    if a.n.abs_diff(b.n) > 1 || smaller == 0.0 {
        return Ok(unequal);
    }
    let [df_of_larger, df_of_smaller] =
        if a.sd > b.sd { [a.n, b.n] } else { [b.n, a.n] }.map(|n| f64::from(n - 1));
    let p = variance_ratio_p(larger / smaller, df_of_larger, df_of_smaller)?;
    if 2.0 * p < SPREADS_ALPHA {
        return Ok(unequal);
    }
    let (n, m) = (f64::from(a.n), f64::from(b.n));
    let df = n + m - 2.0;
    let pooled = ((n - 1.0) * a.sd.powi(2) + (m - 1.0) * b.sd.powi(2)) / df;
    Ok(Effect { se: (pooled * (1.0 / n + 1.0 / m)).sqrt(), df, ..unequal })
}

/// The mean of `M` new sessions against `K` baseline sessions: `se = s * sqrt(1/M + 1/K)`,
/// `df = K - 1`.
///
/// The prediction interval of the mean of further observations (Hahn and Meeker, "Statistical
/// Intervals", 1991, ch. 4): new sessions outside it differ from the baseline, by whose spread they
/// are judged. `n` is K.
/// Fails with [`NoEstimate::TooFew`] for under two baseline sessions, [`NoEstimate::NotFinite`].
pub fn new_against_baseline(baseline: &[f64], new: &[f64]) -> Result<Effect, NoEstimate> {
    require_series("new sessions", new, 1)?;
    let base = moments(baseline)?;
    let (k, m) = (f64::from(base.n), new.len() as f64);
    let value = require_finite_result("difference", mean(new)? - base.mean)?;
    Ok(Effect { value, se: base.sd * (1.0 / m + 1.0 / k).sqrt(), df: k - 1.0, n: base.n })
}

/// The spread between sessions of one machine, estimated from A/A sessions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionSpread {
    /// The standard deviation between sessions.
    pub sd: f64,
    /// How many A/A sessions it was computed from.
    pub sessions: u32,
}

impl SessionSpread {
    /// The spread of the session means of A/A sessions.
    /// Fails with [`NoEstimate::TooFew`] for under two sessions, [`NoEstimate::NotFinite`] for a
    /// bad value.
    pub fn of_sessions(session_means: &[f64]) -> Result<Self, NoEstimate> {
        let found = moments(session_means)?;
        Ok(Self { sd: found.sd, sessions: found.n })
    }
}

/// One session against one, with the spread between sessions known from earlier sessions: `se^2 =
/// s_w^2 (1/B_A + 1/B_B) + 2 sigma_s^2`, degrees of freedom by Satterthwaite (Biometrics Bulletin
/// 2(6), 1946). `s_w` pools the block logs of both sessions. `n` counts sessions: it is 2, whatever
/// the number of blocks.
/// Fails with [`NoEstimate::TooFew`] for under two blocks a side or two sessions of history,
/// [`NoEstimate::NotFinite`], or [`NoEstimate::OutOfRange`] for a bad spread.
pub fn one_against_one(
    first_blocks: &[f64],
    second_blocks: &[f64],
    history: SessionSpread,
) -> Result<Effect, NoEstimate> {
    if history.sessions < 2 {
        let have = u64::from(history.sessions);
        return Err(NoEstimate::TooFew { what: "sessions of history", have, need: 2 });
    }
    if !(history.sd >= 0.0 && history.sd.is_finite()) {
        let accepted = "a finite number, 0 or above";
        return Err(NoEstimate::OutOfRange { what: "session spread", value: history.sd, accepted });
    }
    let (a, b) = (moments(first_blocks)?, moments(second_blocks)?);
    let (blocks_a, blocks_b) = (f64::from(a.n), f64::from(b.n));
    let within_df = blocks_a + blocks_b - 2.0;
    let squares = a.sd * a.sd * (blocks_a - 1.0) + b.sd * b.sd * (blocks_b - 1.0);
    let within = Component {
        variance: squares / within_df * (1.0 / blocks_a + 1.0 / blocks_b),
        df: within_df,
    };
    let between = Component {
        variance: 2.0 * history.sd * history.sd,
        df: f64::from(history.sessions) - 1.0,
    };
    combine(b.mean - a.mean, [within, between], 2)
}

/// The probability that the first of two estimates of one variance, with these degrees of freedom,
/// is at least `ratio` times the second: the upper tail of F (NIST DLMF 8.17).
/// Fails with [`NoEstimate::OutOfRange`] unless the degrees of freedom are finite and above 0, or
/// for a ratio that is negative or NaN.
pub fn variance_ratio_p(ratio: f64, first_df: f64, second_df: f64) -> Result<f64, NoEstimate> {
    require_positive("degrees of freedom", first_df)?;
    require_positive("degrees of freedom", second_df)?;
    if ratio.is_nan() || ratio < 0.0 {
        let (what, accepted) = ("a ratio of variances", "0 or above");
        return Err(NoEstimate::OutOfRange { what, value: ratio, accepted });
    }
    let rest = second_df / (second_df + first_df * ratio);
    require_finite_result("tail of F", beta_reg(second_df / 2.0, first_df / 2.0, rest))
}

/// One component of a variance, with its degrees of freedom.
struct Component {
    variance: f64,
    df: f64,
}

/// Adds two variances; `df = (v1 + v2)^2 / (v1^2 / df1 + v2^2 / df2)`.
fn combine(value: f64, components: [Component; 2], n: u32) -> Result<Effect, NoEstimate> {
    let total: f64 = components.iter().map(|component| component.variance).sum();
    let df = if total == 0.0 {
        // The formula is 0 / 0; every df gives the same interval of width zero.
        components.iter().map(|component| component.df).sum()
    } else {
        // Shares instead of squared variances: a tiny variance must not underflow to 0 / 0.
        1.0 / components
            .iter()
            .map(|component| (component.variance / total).powi(2) / component.df)
            .sum::<f64>()
    };
    require_finite_result("difference", value)?;
    require_finite_result("standard error", total)?;
    Ok(Effect { value, se: total.sqrt(), df, n })
}

// Adjusted p values for many rows at once: Holm and Benjamini-Hochberg.
//
// Adjusted values are returned in the order of the input and are compared directly with the
// nominal error (5 %). [`crate::Confidence::simultaneous`] gives the matching simultaneous
// intervals.

/// Holm, Scand. J. Statist. 6(2), 1979: as strict about false alarms as Bonferroni, never less
/// able to find a change. Step-down from the smallest p.
/// Fails with [`NoEstimate::OutOfRange`] unless every p lies in 0 to 1.
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, NoEstimate> {
    require_p_values(p_values)?;
    let rows = p_values.len();
    let mut adjusted = vec![0.0; rows];
    let mut at_least = 0.0_f64;
    for (rank, row) in ascending(p_values).into_iter().enumerate() {
        at_least = at_least.max((p_values[row] * (rows - rank) as f64).min(1.0));
        adjusted[row] = at_least;
    }
    Ok(adjusted)
}

/// Benjamini and Hochberg, J. R. Stat. Soc. B 57(1), 1995: holds the expected share of false
/// alarms among the alarms. Step-up from the largest p.
/// Fails with [`NoEstimate::OutOfRange`] unless every p lies in 0 to 1.
pub fn benjamini_hochberg(p_values: &[f64]) -> Result<Vec<f64>, NoEstimate> {
    require_p_values(p_values)?;
    let rows = p_values.len() as f64;
    let mut adjusted = vec![0.0; p_values.len()];
    let mut at_most = 1.0_f64;
    for (rank, row) in ascending(p_values).into_iter().enumerate().rev() {
        at_most = at_most.min(p_values[row] * rows / (rank + 1) as f64);
        adjusted[row] = at_most;
    }
    Ok(adjusted)
}

/// Row numbers by ascending p; equal ones keep their order.
fn ascending(p_values: &[f64]) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..p_values.len()).collect();
    rows.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    rows
}

fn require_p_values(p_values: &[f64]) -> Result<(), NoEstimate> {
    match p_values.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        Some(&value) => {
            Err(NoEstimate::OutOfRange { what: "a p value", value, accepted: "0 to 1" })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Confidence;

    const A: [f64; 4] = [0.010, -0.004, 0.002, 0.007];
    const B: [f64; 5] = [-0.121, -0.139, -0.128, -0.118, -0.133];

    fn close(actual: f64, expected: f64) {
        assert!(
            (actual - expected).abs() < 1e-11 * expected.abs(),
            "actual {actual}, expected {expected}"
        );
    }

    #[test]
    fn welch_equals_scipy() {
        let actual = welch(&A, &B).unwrap();
        // r = scipy.stats.ttest_ind(B, A, equal_var=False); r.df, r.pvalue,
        // r.confidence_interval(.95)
        close(actual.df, 6.956_170_713_605_561_5);
        close(actual.two_sided_p().unwrap(), 2.820_574_793_210_043_3e-08);
        let interval = actual.interval(Confidence::P95).unwrap();
        close(interval.lo, -0.143_181_835_885_024_53);
        close(interval.hi, -0.119_918_164_114_975_48);
        assert_eq!(actual.n, 9);
    }

    #[test]
    fn groups_of_one_size_share_their_spread_unless_it_differs() {
        // r = scipy.stats.ttest_ind(B, A); r.df, r.pvalue
        let actual = between_sessions(&A, &B).unwrap();
        assert_eq!((actual.df, actual.n), (7.0, 9));
        close(actual.two_sided_p().unwrap(), 3.450_864_409_938_394e-08);
        let noisy: Vec<f64> = A.iter().map(|x| 20.0 * x).collect();
        for (one, two) in [(&noisy[..], &B[..]), (&A[..2], &B[..]), (&[0.1; 3], &B[..3])] {
            assert_eq!(between_sessions(one, two), welch(one, two));
        }
    }

    #[test]
    fn a_new_session_uses_the_prediction_interval() {
        let actual = new_against_baseline(&B, &[-0.10]).unwrap();
        close(actual.value, 0.0278);
        // B.std(ddof=1) * sqrt(1 + 1/5); half width t.ppf(.975, 4) * that
        close(actual.se, 0.009_404_254_356_407_005);
        let interval = actual.interval(Confidence::P95).unwrap();
        close(interval.hi - actual.value, 0.026_110_395_975_881_256);
        assert_eq!((actual.df, actual.n), (4.0, 5));
        // B.std(ddof=1) * sqrt(1/2 + 1/5)
        let two = new_against_baseline(&B, &[-0.11, -0.09]).unwrap();
        close(two.value, 0.0278);
        close(two.se, actual.se * (0.7_f64 / 1.2).sqrt());
    }

    #[test]
    fn one_against_one_adds_the_known_spread() {
        let history = SessionSpread { sd: 0.01, sessions: 10 };
        let actual = one_against_one(&A, &B, history).unwrap();
        // sw2 = (3*var(A) + 4*var(B)) / 7; v = sw2*(1/4 + 1/5), w = 2*.01**2
        // sqrt(v + w), (v + w)**2 / (v*v/7 + w*w/9)
        close(actual.se, 0.015_039_934_935_269_597);
        close(actual.df, 11.263_891_314_887_525);
        let unknown = SessionSpread { sd: 0.01, sessions: 1 };
        assert!(one_against_one(&A, &B, unknown).is_err());
        let impossible = SessionSpread { sd: f64::NAN, sessions: 10 };
        assert!(one_against_one(&A, &B, impossible).is_err());
    }

    #[test]
    fn the_tail_of_a_variance_ratio_equals_scipy() {
        // scipy.stats.f.sf(ratio, first_df, second_df)
        for (ratio, first_df, second_df, expected) in [
            (1.5, 6.0, 4.0, 0.361_892_090_613_073_8),
            (9.0, 6.0, 4.0, 0.025_981_187_109_508_1),
            (15.3, 6.0, 3.2, 0.019_768_232_725_334_914),
            (0.4, 12.0, 10.0, 0.932_293_225_523_977),
        ] {
            close(variance_ratio_p(ratio, first_df, second_df).unwrap(), expected);
        }
        assert_eq!(variance_ratio_p(f64::INFINITY, 6.0, 4.0), Ok(0.0));
        assert_eq!(variance_ratio_p(0.0, 6.0, 4.0), Ok(1.0));
        assert!(variance_ratio_p(f64::NAN, 6.0, 4.0).is_err());
        assert!(variance_ratio_p(1.0, 0.0, 4.0).is_err());
    }

    #[test]
    fn identical_sessions_are_legal() {
        let actual = welch(&[0.1; 3], &[0.1; 3]).unwrap();
        assert_eq!((actual.value, actual.se, actual.df), (0.0, 0.0, 4.0));
        assert_eq!(actual.two_sided_p().unwrap(), 1.0);
        // Variances whose squares underflow still have degrees of freedom.
        let tiny = welch(&[0.0, 1e-100], &[0.0, 1e-100]).unwrap();
        close(tiny.df, 2.0);
    }
}

#[cfg(test)]
mod multiplicity_tests {
    use super::*;

    const P: [f64; 6] = [0.035, 0.001, 0.2, 0.012, 0.03, 0.9];

    fn close(actual: &[f64], expected: &[f64]) {
        assert_eq!(actual.len(), expected.len());
        for (g, w) in actual.iter().zip(expected) {
            assert!((g - w).abs() < 1e-14, "actual {actual:?}, expected {expected:?}");
        }
    }

    #[test]
    fn false_discovery_rate_equals_scipy() {
        // scipy.stats.false_discovery_control(P, method='bh')
        close(&benjamini_hochberg(&P).unwrap(), &[0.0525, 0.006, 0.24, 0.036, 0.0525, 0.9]);
    }

    #[test]
    fn family_wise_corrections_equal_the_hand() {
        // Ascending .001 .012 .03 .035 .2 .9 times 6 5 4 3 2 1, then the running maximum.
        close(&holm(&P).unwrap(), &[0.12, 0.006, 0.4, 0.06, 0.12, 0.9]);
    }

    #[test]
    fn an_empty_family_is_empty_and_bad_p_values_are_refused() {
        assert!(holm(&[]).unwrap().is_empty());
        for bad in [f64::NAN, -0.1, 1.1] {
            assert!(holm(&[0.5, bad]).is_err());
            assert!(benjamini_hochberg(&[0.5, bad]).is_err());
        }
    }
}
