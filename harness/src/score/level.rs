//! From intervals to levels: the tables of `scoring-v3`, as functions of interval ends only.
//!
//! Each table is read twice: at the worse ends of all intervals and at the better ends. Where both
//! give the same level, the level is measured. Where they differ, an interval straddles a boundary,
//! and both levels are printed.

#[cfg(test)]
mod tests;

use std::fmt;

use gpubench_record::{Estimate, Thresholds};

/// Lower bounds, for L3 and L2, of the proportion of trials that come out as promised: reservations
/// honoured, clean pages, faults contained.
pub(super) const PROPORTION_L3: f64 = 0.95;
pub(super) const PROPORTION_L2: f64 = 0.80;

/// How strong the isolation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Not usefully better than unprotected.
    L0,
    /// Partial.
    L1,
    /// Bounded.
    L2,
    /// Strong.
    L3,
}

/// The levels that the intervals leave open, worst and best; equal where one level is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelRange {
    pub worst: Level,
    pub best: Level,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L0 => "L0",
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L3 => "L3",
        })
    }
}

impl fmt::Display for LevelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decided() {
            Some(level) => level.fmt(f),
            None => write!(f, "{}..{}", self.worst, self.best),
        }
    }
}

impl LevelRange {
    pub(super) const fn at(level: Level) -> Self {
        Self { worst: level, best: level }
    }

    /// The level; `None` where more than one is open.
    pub(super) fn decided(self) -> Option<Level> {
        (self.worst == self.best).then_some(self.worst)
    }

    /// The levels that the interval of a proportion leaves open: L0 where no trial came out as
    /// promised, L1 below the bound of L2.
    pub(super) fn of_proportion(proportion: &Estimate) -> Self {
        Self::of_bounds(proportion.value > 0.0, proportion.lo, proportion.hi)
    }

    /// The same from the bounds; `any` says whether any trial came out as promised.
    pub(super) fn of_bounds(any: bool, lo: f64, hi: f64) -> Self {
        if !any {
            return Self::at(Level::L0);
        }
        let level = |end: f64| {
            if end >= PROPORTION_L3 {
                Level::L3
            } else if end >= PROPORTION_L2 {
                Level::L2
            } else {
                Level::L1
            }
        };
        Self { worst: level(lo), best: level(hi) }
    }

    /// All levels of two ranges, and those between.
    pub(super) fn with(self, other: Self) -> Self {
        Self { worst: self.worst.min(other.worst), best: self.best.max(other.best) }
    }

    /// The weaker of two, at either end.
    pub(super) fn weaker(self, other: Self) -> Self {
        Self { worst: self.worst.min(other.worst), best: self.best.min(other.best) }
    }
}

/// The figures that decide the level of a resource axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resource<'a> {
    pub retention: &'a Estimate,
    /// `None` where no native cell can run.
    pub guarantee: Option<&'a Estimate>,
    /// `None` where no unprotected cell can run, or where the interval of the index is unbounded.
    pub index: Option<&'a Estimate>,
    /// Whether N or U cannot run. Retention then decides without them, and L2 is the best level.
    pub capped: bool,
}

impl Resource<'_> {
    /// The levels that the intervals leave open.
    pub(super) fn range(&self, thresholds: &Thresholds) -> LevelRange {
        // An unbounded index may be anything. A guarantee that cannot be measured counts as kept:
        // the cap at L2 stands for it.
        let index = self.index.map_or((f64::NEG_INFINITY, f64::INFINITY), |i| (i.lo, i.hi));
        let guarantee = self.guarantee.map_or((f64::INFINITY, f64::INFINITY), |g| (g.lo, g.hi));
        let at_best = Ends {
            retention: self.retention.hi,
            guarantee: guarantee.1,
            // L0 where the interval ends at the bound, L1 where it starts there.
            above_index: index.1 > thresholds.index_l1 || index.0 >= thresholds.index_l1,
        };
        let at_worst = Ends {
            retention: self.retention.lo,
            guarantee: guarantee.0,
            above_index: index.0 >= thresholds.index_l1,
        };
        let cap = if self.capped { Level::L2 } else { Level::L3 };
        LevelRange {
            worst: at_worst.level(thresholds).min(cap),
            best: at_best.level(thresholds).min(cap),
        }
    }

    /// Whether the mechanism isolates, but gives the tenant less than the guarantee of L3.
    pub(super) fn forfeits_capacity(&self, thresholds: &Thresholds) -> bool {
        let short = self.guarantee.is_some_and(|g| g.hi < thresholds.guarantee_l3);
        short && self.retention.lo >= thresholds.retention_l2
    }
}

/// One end of every interval.
struct Ends {
    retention: f64,
    guarantee: f64,
    above_index: bool,
}

impl Ends {
    /// The table for exact figures; the first row that holds.
    fn level(&self, thresholds: &Thresholds) -> Level {
        let guaranteed = self.guarantee >= thresholds.guarantee_l3;
        if self.retention >= thresholds.retention_l3 && guaranteed {
            Level::L3
        } else if self.retention >= thresholds.retention_l2 && guaranteed {
            Level::L2
        } else if self.retention >= thresholds.retention_l2 || self.above_index {
            Level::L1
        } else {
            Level::L0
        }
    }
}

/// The levels that the interval of the jitter leaves open. Negligible, Low-Medium and High count as
/// L3, L2 and L0; jitter has no L1.
pub(super) fn of_jitter(jitter: &Estimate, thresholds: &Thresholds) -> LevelRange {
    let level = |j: f64| {
        if j <= thresholds.jitter_negligible {
            Level::L3
        } else if j <= thresholds.jitter_low_medium {
            Level::L2
        } else {
            Level::L0
        }
    };
    LevelRange { worst: level(jitter.hi), best: level(jitter.lo) }
}
