//! From intervals to levels: the tables of `scoring-v1`, as functions of interval ends only.
//!
//! A figure decides by both its ends: the level that holds at the worse ends of all intervals, and
//! the one that holds at the better ends. Where the two agree the level is measured; where they
//! differ an interval straddles a boundary, and both are printed.

use std::fmt;

use gpubench_record::{Estimate, Thresholds};

/// Parts of the trials of a fault that must be contained for L3 and for L2.
pub(super) const SURVIVAL_L3: f64 = 0.95;
pub(super) const SURVIVAL_L2: f64 = 0.80;

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

/// The levels that the data leave open, worst and best; equal where there is no doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelRange {
    pub worst: Level,
    pub best: Level,
}

impl Level {
    /// That of a fault, of whose trials such a part is contained, but not none.
    pub(super) fn of_survival(part: f64) -> Self {
        if part >= SURVIVAL_L3 {
            Self::L3
        } else if part >= SURVIVAL_L2 {
            Self::L2
        } else {
            Self::L1
        }
    }
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
    /// One level, without doubt.
    pub(super) const fn at(level: Level) -> Self {
        Self {
            worst: level,
            best: level,
        }
    }

    /// The level, where only one is left.
    pub(super) fn decided(self) -> Option<Level> {
        (self.worst == self.best).then_some(self.worst)
    }

    /// The weakest link of two.
    pub(super) fn weaker(self, other: Self) -> Self {
        Self {
            worst: self.worst.min(other.worst),
            best: self.best.min(other.best),
        }
    }
}

/// What the level of a resource axis is decided from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resource<'a> {
    pub retention: &'a Estimate,
    /// `None` where no native cell can run.
    pub guarantee: Option<&'a Estimate>,
    /// `None` where no unprotected cell can run, or where the index has no bound.
    pub index: Option<&'a Estimate>,
    /// Whether N or U cannot run, so that retention alone decides and L3 is out of reach.
    pub capped: bool,
}

impl Resource<'_> {
    /// The levels that the intervals leave open.
    pub(super) fn range(&self, thresholds: &Thresholds) -> LevelRange {
        // An index without a bound may be anything. A guarantee that cannot be had is not held
        // against the mechanism: the cap is what it costs.
        let index = self
            .index
            .map_or((f64::NEG_INFINITY, f64::INFINITY), |i| (i.lo, i.hi));
        let guarantee = self
            .guarantee
            .map_or((f64::INFINITY, f64::INFINITY), |g| (g.lo, g.hi));
        let at_best = Ends {
            retention: self.retention.hi,
            guarantee: guarantee.1,
            // L0 holds up to and including the bound, L1 from it on.
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

    /// Whether the mechanism isolates but gives less than the guarantee asks for.
    pub(super) fn forfeits_capacity(&self, thresholds: &Thresholds) -> bool {
        let short = self
            .guarantee
            .is_some_and(|g| g.hi < thresholds.guarantee_l3);
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
    /// The table, for figures without doubt; the first row that holds.
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

/// The levels that an interval of the jitter leaves open. Negligible, Low-Medium and High count
/// as L3, L2 and L0; there is no L1.
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
    LevelRange {
        worst: level(jitter.hi),
        best: level(jitter.lo),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(ends: (f64, f64)) -> Estimate {
        let (lo, hi) = ends;
        Estimate {
            value: f64::midpoint(lo, hi),
            lo,
            hi,
            n: 8,
            unit: "ratio".to_owned(),
        }
    }

    type Ends = (f64, f64);

    fn range(r: Ends, g: Option<Ends>, i: Option<Ends>, capped: bool, t: &Thresholds) -> String {
        let (r, g, i) = (estimate(r), g.map(estimate), i.map(estimate));
        let resource = Resource {
            retention: &r,
            guarantee: g.as_ref(),
            index: i.as_ref(),
            capped,
        };
        resource.range(t).to_string()
    }

    #[test]
    fn the_table_of_resource_axes() {
        const FULL: Option<Ends> = Some((0.95, 1.0));
        const GOOD: Option<Ends> = Some((0.9, 1.0));
        let table: &[(Ends, Option<Ends>, Option<Ends>, &str)] = &[
            // The worked checks of the method.
            ((0.97, 0.99), Some((0.97, 0.99)), Some((0.96, 0.98)), "L3"),
            ((0.99, 1.01), Some((0.49, 0.51)), Some((0.98, 1.02)), "L1"),
            ((0.49, 0.51), Some((0.49, 0.51)), Some((-0.01, 0.01)), "L0"),
            // Bounds belong to the better level.
            ((0.95, 1.0), Some((0.80, 0.9)), GOOD, "L3"),
            ((0.80, 0.949), FULL, GOOD, "L2"),
            ((0.60, 0.799), FULL, Some((0.2, 0.9)), "L1"),
            ((0.60, 0.799), FULL, Some((0.1, 0.2)), "L0"),
            ((0.60, 0.799), FULL, Some((0.2, 0.2)), "L1"),
            // Straddling.
            ((0.949, 1.0), FULL, GOOD, "L2..L3"),
            ((0.799, 0.94), FULL, GOOD, "L1..L2"),
            ((0.799, 1.0), FULL, GOOD, "L1..L3"),
            ((0.60, 0.799), FULL, Some((0.1, 0.3)), "L0..L1"),
            ((0.60, 0.81), FULL, Some((0.0, 0.1)), "L0..L2"),
            ((0.96, 1.0), Some((0.79, 0.81)), GOOD, "L1..L3"),
            ((0.85, 0.90), Some((0.79, 0.81)), GOOD, "L1..L2"),
            // Isolated, but capacity forfeited; an index below its bound does not matter then.
            ((0.85, 0.90), Some((0.5, 0.799)), GOOD, "L1"),
            ((0.79, 0.90), Some((0.5, 0.6)), GOOD, "L1"),
            ((0.79, 0.90), Some((0.5, 0.6)), Some((0.0, 0.1)), "L0..L1"),
            // No bound for the index.
            ((0.60, 0.70), FULL, None, "L0..L1"),
            ((0.96, 1.0), FULL, None, "L3"),
        ];
        let thresholds = Thresholds::default();
        for (r, g, i, want) in table {
            assert_eq!(
                range(*r, *g, *i, false, &thresholds),
                *want,
                "R {r:?} G {g:?} I {i:?}"
            );
        }
    }

    #[test]
    fn without_references_two_is_the_most() {
        let thresholds = Thresholds::default();
        for (r, want) in [
            ((0.99, 1.0), "L2"),
            ((0.94, 0.96), "L2"),
            ((0.79, 0.96), "L0..L2"),
            ((0.40, 0.50), "L0..L1"),
        ] {
            assert_eq!(range(r, None, None, true, &thresholds), want, "{r:?}");
        }
        let short = Some((0.4, 0.5));
        assert_eq!(range((0.99, 1.0), short, None, true, &thresholds), "L1");
    }

    #[test]
    fn thresholds_move_levels() {
        let (r, g, i) = ((0.90, 0.92), Some((0.90, 0.92)), Some((0.85, 0.9)));
        let default = Thresholds::default();
        assert_eq!(range(r, g, i, false, &default), "L2");
        for (thresholds, want) in [
            (
                Thresholds {
                    retention_l3: 0.90,
                    ..default.clone()
                },
                "L3",
            ),
            (
                Thresholds {
                    retention_l3: 0.91,
                    ..default.clone()
                },
                "L2..L3",
            ),
            (
                Thresholds {
                    retention_l2: 0.93,
                    ..default.clone()
                },
                "L1",
            ),
            (
                Thresholds {
                    retention_l2: 0.91,
                    ..default.clone()
                },
                "L1..L2",
            ),
            (
                Thresholds {
                    guarantee_l3: 0.93,
                    ..default.clone()
                },
                "L1",
            ),
            (
                Thresholds {
                    retention_l2: 0.93,
                    index_l1: 0.95,
                    ..default.clone()
                },
                "L0",
            ),
        ] {
            assert_eq!(range(r, g, i, false, &thresholds), want, "{thresholds:?}");
        }
    }

    #[test]
    fn the_table_of_jitter() {
        let default = Thresholds::default();
        for (ends, want) in [
            ((-0.2, 0.10), "L3"),
            ((0.101, 1.0), "L2"),
            ((1.001, 7.0), "L0"),
            ((0.05, 0.5), "L2..L3"),
            ((0.10, 0.5), "L2..L3"),
            ((0.5, 1.1), "L0..L2"),
            ((0.0, 9.0), "L0..L3"),
        ] {
            assert_eq!(
                of_jitter(&estimate(ends), &default).to_string(),
                want,
                "{ends:?}"
            );
        }
        let strict = Thresholds {
            jitter_negligible: 0.01,
            jitter_low_medium: 0.04,
            ..default
        };
        assert_eq!(of_jitter(&estimate((0.05, 0.5)), &strict).to_string(), "L0");
    }

    #[test]
    fn the_weakest_link_keeps_its_doubt() {
        let doubt = LevelRange {
            worst: Level::L1,
            best: Level::L3,
        };
        assert_eq!(
            doubt.weaker(LevelRange::at(Level::L2)).to_string(),
            "L1..L2"
        );
        assert_eq!(doubt.weaker(LevelRange::at(Level::L0)).to_string(), "L0");
    }
}
