//! From intervals to levels: the tables of `scoring-v3`, as functions of interval ends only.
//!
//! Each table is read twice: at the worse ends of all intervals and at the better ends. Where both
//! give the same level, the level is measured. Where they differ, an interval straddles a boundary,
//! and both levels are printed.

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

// Bounds of levels: whether an interval straddles one, and the number of blocks at which it would
// no longer.

/// The estimate with ends that contain both values.
pub(super) fn reaching(estimate: &Estimate, values: [f64; 2]) -> Estimate {
    let [one, two] = values;
    Estimate {
        lo: estimate.lo.min(one).min(two),
        hi: estimate.hi.max(one).max(two),
        ..estimate.clone()
    }
}

/// The scale on which the interval of a figure is symmetric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// That of ratios.
    Log,
}

/// A bound of levels that an interval straddles.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Straddled {
    pub text: String,
    /// The blocks at which it would no longer; `None` where no number of blocks is enough.
    pub blocks: Option<u32>,
}

impl From<String> for Straddled {
    fn from(text: String) -> Self {
        let blocks = None;
        Self { text, blocks }
    }
}

/// How many blocks would decide; `None` where the interval does not straddle the bound.
///
/// The half width of a t interval is `t s / sqrt(n)`, and it must shrink to the distance from the
/// value to the bound, less the systematic part, which stays: `n* = ceil(n (half width /
/// distance)^2)`, on the scale on which the interval is symmetric.
pub(super) fn blocks_needed(
    what: &str,
    estimate: &Estimate,
    bound: f64,
    scale: Scale,
) -> Option<Straddled> {
    if !(estimate.lo < bound && bound <= estimate.hi) {
        return None;
    }
    let scale = |x: f64| match scale {
        Scale::Linear => x,
        Scale::Log => x.ln(),
    };
    let stat =
        estimate.parts.map_or((estimate.lo, estimate.hi), |parts| (parts.stat_lo, parts.stat_hi));
    let (value, bound_at) = (scale(estimate.value), scale(bound));
    let (stat_end, end) = if value < bound_at {
        (scale(stat.1), scale(estimate.hi))
    } else {
        (scale(stat.0), scale(estimate.lo))
    };
    let distance = (bound_at - value).abs() - (end - stat_end).abs();
    let half = (stat_end - value).abs();
    let needed = (f64::from(estimate.n) * (half / distance).powi(2)).ceil();
    let enough = distance > 0.0 && needed < f64::from(u32::MAX);
    let blocks = enough.then(|| (needed as u32).max(estimate.n + 1));
    let wanted = match blocks {
        Some(blocks) => format!("about {blocks} blocks are needed"),
        None => "no number of blocks would decide".to_owned(),
    };
    let text = format!("{what} straddles {bound}: {wanted}, {} are there", estimate.n);
    Some(Straddled { text, blocks })
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
            ends: gpubench_record::Ends::Interval,
            parts: None,
            n: 8,
            unit: "ratio".to_owned(),
        }
    }

    type Ends = (f64, f64);

    fn range(r: Ends, g: Option<Ends>, i: Option<Ends>, capped: bool, t: &Thresholds) -> String {
        let (r, g, i) = (estimate(r), g.map(estimate), i.map(estimate));
        let resource = Resource { retention: &r, guarantee: g.as_ref(), index: i.as_ref(), capped };
        resource.range(t).to_string()
    }

    #[test]
    fn the_table_of_resource_axes() {
        const FULL: Option<Ends> = Some((0.95, 1.0));
        const GOOD: Option<Ends> = Some((0.9, 1.0));
        let table: &[(Ends, Option<Ends>, Option<Ends>, &str)] = &[
            // A good mechanism, one that forfeits capacity, and no protection.
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
            assert_eq!(range(*r, *g, *i, false, &thresholds), *want, "R {r:?} G {g:?} I {i:?}");
        }
    }

    #[test]
    fn without_references_l2_is_the_best_level() {
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
            assert_eq!(of_jitter(&estimate(ends), &default).to_string(), want, "{ends:?}");
        }
        let strict = Thresholds { jitter_negligible: 0.01, jitter_low_medium: 0.04, ..default };
        assert_eq!(of_jitter(&estimate((0.05, 0.5)), &strict).to_string(), "L0");
    }

    #[test]
    fn the_weaker_of_two_ranges_keeps_its_open_levels() {
        let doubt = LevelRange { worst: Level::L1, best: Level::L3 };
        assert_eq!(doubt.weaker(LevelRange::at(Level::L2)).to_string(), "L1..L2");
        assert_eq!(doubt.weaker(LevelRange::at(Level::L0)).to_string(), "L0");
    }
}

#[cfg(test)]
mod boundary_tests {
    use gpubench_record::Ends;

    use super::*;
    use crate::figures::Systematic;

    fn estimate(value: f64, lo: f64, hi: f64, unit: &str) -> Estimate {
        Estimate { value, lo, hi, ends: Ends::Interval, parts: None, n: 8, unit: unit.to_owned() }
    }

    #[test]
    fn blocks_needed_follow_the_formula() {
        // Half width 1/4, distance 1/8: four times the blocks.
        let index = estimate(0.5, 0.25, 0.75, "index");
        let found = blocks_needed("index", &index, 0.375, Scale::Linear).expect("it straddles");
        let want = "index straddles 0.375: about 32 blocks are needed, 8 are there";
        assert_eq!((found.text.as_str(), found.blocks), (want, Some(32)));
        // On the log scale: half width ln 1.21, distance ln 1.1, again twice as far.
        let ratio = estimate(1.1 * 0.8, 0.8 * 1.1 / 1.21, 0.8 * 1.1 * 1.21, "ratio");
        let found = blocks_needed("retention", &ratio, 0.8, Scale::Log);
        let blocks = found.and_then(|found| found.blocks);
        assert!(matches!(blocks, Some(32 | 33)), "{blocks:?}");
        let on_it = blocks_needed("index", &estimate(0.2, 0.1, 0.5, "index"), 0.2, Scale::Linear);
        assert!(on_it.is_some_and(|found| found.blocks.is_none()));
        assert_eq!(
            blocks_needed("index", &estimate(0.3, 0.2, 0.5, "index"), 0.2, Scale::Linear),
            None
        );
        assert_eq!(
            blocks_needed("index", &estimate(0.1, 0.0, 0.19, "index"), 0.2, Scale::Linear),
            None
        );
    }

    /// Distance 1/8, of which the systematic part takes a half: the rest takes sixteen times the
    /// blocks. A systematic part as wide as the distance leaves none.
    #[test]
    fn a_systematic_part_takes_more_blocks() {
        for (up, blocks) in [(0.0, Some(32)), (0.0625, Some(128)), (0.125, None)] {
            let index = estimate(0.5, 0.25, 0.75, "index");
            let wide = Systematic::default().with_ends(index, 0.25, 0.75 + up);
            let found = blocks_needed("index", &wide, 0.625, Scale::Linear);
            assert_eq!(found.and_then(|found| found.blocks), blocks, "{up}");
        }
    }
}
