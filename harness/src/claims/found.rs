//! A figure of a record that a claim is compared with, and the arithmetic of such figures.

use gpubench_record::{Ends, Estimate};
use gpubench_stats::proportion::lower_bound;
use gpubench_stats::{Confidence, mover};

use crate::figures::printed;

/// A figure, or why it cannot be trusted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub variant: String,
    /// The row, probe or fault; equal for two variants where their figures compare.
    pub key: String,
    pub estimate: Result<Estimate, String>,
}

impl Found {
    pub(super) fn new(variant: &str, key: impl Into<String>, estimate: Estimate) -> Self {
        Self { variant: variant.to_owned(), key: key.into(), estimate: Ok(estimate) }
    }

    /// The same with another figure.
    pub(super) fn map(self, change: impl FnOnce(Estimate) -> Result<Estimate, String>) -> Self {
        Self { estimate: self.estimate.and_then(change), ..self }
    }

    /// The ratio of this figure and that of another mechanism, as independent ones.
    pub(super) fn over(self, other: &Self) -> Self {
        let key = format!("{}, over {}", self.key, other.variant);
        let found = self.map(|own| {
            let other = other.estimate.clone()?;
            if [own.ends, other.ends] != [Ends::Interval; 2] {
                return Err("a ratio needs two intervals".to_owned());
            }
            let [x, y] = [&own, &other].map(plain);
            let ratio = mover::ratio(x, y).map_err(|error| error.to_string())?;
            Ok(printed(ratio, "ratio"))
        });
        Self { key, ..found }
    }
}

const fn plain(of: &Estimate) -> gpubench_stats::Estimate {
    let Estimate { value, lo, hi, n, .. } = *of;
    gpubench_stats::Estimate { value, lo, hi, n }
}

/// The share of an event in trials, with one-sided Clopper-Pearson bounds, each at 95 %, as in
/// tallies of faults.
pub(super) fn share(events: u64, trials: u64, unit: &str) -> Result<Estimate, String> {
    let count = |n: u64| u32::try_from(n).map_err(|_| format!("{n} trials are too many"));
    let (events, trials) = (count(events)?, count(trials)?);
    let bound = |successes: u32| {
        lower_bound(successes, trials, Confidence::P95).map_err(|error| error.to_string())
    };
    let (with, without) = (bound(events)?, bound(trials - events.min(trials))?);
    Ok(Estimate { hi: 1.0 - without.lo, ..printed(with, unit) })
}

/// The share of failures in this unit, from the share of successes in a matrix row. The interval of
/// a row is two-sided; a claim asks one question, as a level does, so the bounds are one-sided.
pub(super) fn failures(of: &Estimate, unit: &str) -> Result<Estimate, String> {
    let trials = u64::from(of.n);
    // The value of a row is a count over its trials.
    let good = (of.value * f64::from(of.n)).round() as u64;
    share(trials.saturating_sub(good), trials, unit)
}

/// One over a positive figure.
pub(super) fn inverse(of: Estimate) -> Result<Estimate, String> {
    if of.lo <= 0.0 || of.ends != Ends::Interval {
        return Err(format!("the rate may be zero: {:.3} to {:.3}", of.lo, of.hi));
    }
    Ok(Estimate { value: 1.0 / of.value, lo: 1.0 / of.hi, hi: 1.0 / of.lo, ..of })
}
