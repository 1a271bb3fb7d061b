//! Controls that repeat a measurement (A/A pairs) and must find no difference.
//!
//! One interval in twenty excludes 1 by chance, so that alone is a warning. A pair is in doubt
//! where its whole interval lies more than 1 % from 1, or where more pairs exclude 1 than chance
//! allows.

use gpubench_record::Estimate;

use super::row::Row;
use crate::figures::in_words;

/// Smallest A/A difference that is reported. A device without noise has smaller ones.
const REPORTED_MIN: f64 = 0.001;
/// Difference that a repetition may have. It is small against the distances between levels.
const ACCEPTED: f64 = 0.01;
/// Probability with which an interval excludes the true value.
const ALPHA: f64 = 0.05;
/// Probability below which a number of such intervals is no chance.
const FAMILY_ALPHA: f64 = 0.01;

/// An A/A pair.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Repetition {
    /// Rows of one victim under one variant share a pair.
    pub of: (String, String),
    /// Whether its interval excludes 1.
    pub fires: bool,
}

/// Compares a repetition with its first measurement, and warns or doubts.
pub(super) fn repetition(what: &str, estimate: &Estimate, row: &mut Row) -> bool {
    let off = (estimate.value - 1.0).abs() >= REPORTED_MIN;
    let fires = off && (estimate.hi < 1.0 || estimate.lo > 1.0);
    let found = in_words(estimate);
    if estimate.hi < 1.0 - ACCEPTED || estimate.lo > 1.0 + ACCEPTED {
        row.doubt(format!(
            "A/A: {what} against itself is {found}, accepted is an interval that reaches 1 +/- \
             {ACCEPTED}"
        ));
    } else if fires {
        row.warn(format!("A/A: {what} against itself is {found}, which excludes 1"));
    }
    fires
}

/// Doubts the rows whose pairs exclude 1, where more pairs do so than chance allows.
pub(super) fn family(rows: &mut [Row]) {
    let mut pairs: Vec<&Repetition> = Vec::new();
    for pair in rows.iter().filter_map(|row| row.repetition.as_ref()) {
        if !pairs.iter().any(|known| known.of == pair.of) {
            pairs.push(pair);
        }
    }
    let (all, fired) = (pairs.len(), pairs.iter().filter(|pair| pair.fires).count());
    let chance = at_least(fired, all, ALPHA);
    if chance >= FAMILY_ALPHA {
        return;
    }
    let why = format!(
        "A/A: {fired} of {all} solo cells differ from their repetition, which chance does with a \
         probability of {chance:.1e}"
    );
    for row in rows {
        if row.repetition.as_ref().is_some_and(|pair| pair.fires) {
            row.retract(&why, None);
        }
    }
}

/// The probability of at least `k` of `n` where each has the probability `p`.
fn at_least(k: usize, n: usize, p: f64) -> f64 {
    let mut term = (1.0 - p).powf(n as f64);
    let mut below = 0.0;
    for number in 0..k {
        below += term;
        term *= (n - number) as f64 / (number + 1) as f64 * p / (1.0 - p);
    }
    1.0 - below
}

#[cfg(test)]
mod tests {
    use super::at_least;

    /// Sums of `comb(n, i) * 0.05**i * 0.95**(n - i)` from k on.
    #[test]
    fn tails_equal_the_sums_of_the_binomial() {
        for (k, n, want) in [
            (0, 7, 1.0),
            (1, 7, 0.301_662_703_906_249_9),
            (2, 28, 0.411_691_389_105_229_05),
            (5, 28, 0.011_708_399_183_360_255),
            (6, 28, 0.002_268_701_383_355_467_7),
        ] {
            let found = at_least(k, n, 0.05);
            assert!((found - want).abs() < 1e-12, "{k} of {n}: {found}, want {want}");
        }
    }
}
