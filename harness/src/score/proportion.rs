//! Counts of trials that came out as promised: the interval that is printed, and the bounds that
//! decide the level.
//!
//! The printed interval is two-sided with 95 %. A level asks one question, whether the proportion
//! is at least a threshold, so it rests on one-sided bounds, each of which holds with 95 % by
//! itself. A row whose level rests on them says so.

use gpubench_record::Estimate;
use gpubench_stats::{Confidence, NoEstimate, proportion};

use super::level::LevelRange;
use crate::figures::printed;

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

    /// The proportion with its two-sided Clopper-Pearson interval.
    pub(super) fn estimate(&self) -> Result<Estimate, NoEstimate> {
        let (good, trials) = self.narrow();
        let found = proportion::clopper_pearson(good, trials, Confidence::P95);
        found.map(|found| printed(found, self.unit))
    }

    /// The one-sided bounds.
    pub(super) fn bounds(&self) -> Result<Bounds, NoEstimate> {
        let (good, trials) = self.narrow();
        Bounds::of(good, trials)
    }

    fn narrow(&self) -> (u32, u32) {
        let narrow = |count| u32::try_from(count).unwrap_or(u32::MAX);
        (narrow(self.good), narrow(self.trials))
    }
}

/// Bounds of a proportion, each with 95 % by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    pub at_least: f64,
    pub at_most: f64,
    any: bool,
}

impl Bounds {
    pub(super) fn of(good: u32, trials: u32) -> Result<Self, NoEstimate> {
        let lower = |count| proportion::lower_bound(count, trials, Confidence::P95);
        Ok(Self {
            at_least: lower(good)?.lo,
            // The upper bound is 1 less the lower bound of the trials that did not.
            at_most: 1.0 - lower(trials - good)?.lo,
            any: good > 0,
        })
    }

    /// The levels that they leave open.
    pub(super) fn levels(self) -> LevelRange {
        LevelRange::of_bounds(self.any, self.at_least, self.at_most)
    }

    /// For a row, rounded outwards.
    pub(super) fn in_words(self) -> String {
        format!(
            "the level rests on one-sided 95 % bounds: at least {:.3}, at most {:.3}",
            (self.at_least * 1e3).floor() / 1e3,
            (self.at_most * 1e3).ceil() / 1e3
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Proportion};

    #[test]
    fn the_printed_interval_is_two_sided_and_the_bounds_are_one_sided()
    -> Result<(), Box<dyn std::error::Error>> {
        // SciPy 1.17.1: binomtest(40, 59).proportion_ci(.95, 'exact'), and the same with .9.
        let mut forty = Proportion::default();
        forty.add("trials", 40, 59);
        let found = forty.estimate()?;
        let bounds = forty.bounds()?;
        let near = |a: f64, b: f64| (a - b).abs() < 5e-4;
        assert!(near(found.lo, 0.544) && near(found.hi, 0.794), "{found:?}");
        assert!(near(bounds.at_least, 0.564) && near(bounds.at_most, 0.778), "{bounds:?}");
        assert_eq!(
            Bounds::of(59, 59)?.in_words(),
            "the level rests on one-sided 95 % bounds: at least 0.950, at most 1.000"
        );
        Ok(())
    }
}
