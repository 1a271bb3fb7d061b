//! Counts of trials that came out as promised, and their interval.

use gpubench_record::Estimate;
use gpubench_stats::{Confidence, NoEstimate, proportion};

use super::figures::printed;

/// Trials that came out as promised, over all findings of a sub-axis.
#[derive(Debug, Default)]
pub(super) struct Proportion {
    unit: &'static str,
    good: u64,
    trials: u64,
}

impl Proportion {
    pub(super) fn add(&mut self, unit: &'static str, good: u64, trials: u64) {
        self.unit = unit;
        self.good += good;
        self.trials += trials;
    }

    /// Good trials and all trials.
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.good, self.trials)
    }

    /// The proportion with its Clopper-Pearson interval: two-sided; where every trial is good, the
    /// one-sided lower bound, because the upper end is 1 in any case.
    pub(super) fn estimate(&self) -> Result<Estimate, NoEstimate> {
        let good = u32::try_from(self.good).unwrap_or(u32::MAX);
        let trials = u32::try_from(self.trials).unwrap_or(u32::MAX);
        let interval = if good == trials {
            proportion::lower_bound
        } else {
            proportion::clopper_pearson
        };
        interval(good, trials, Confidence::P95).map(|found| printed(found, self.unit))
    }
}
