//! From intervals to levels: the tables of `scoring-v4`, as functions of interval ends only. Equal
//! figures have equal levels, whatever the mechanism.
//!
//! Each table is read twice: at the worse ends of all intervals and at the better ends. Where both
//! give the same level, the level is measured. Where they differ, an interval straddles a boundary,
//! and both levels are printed.

use std::fmt;

use gpubench_record::{Estimate, Thresholds};

/// Lower bounds, for L3 and L2, of the proportion of trials that come out as promised: reservations
/// honoured, clean releases, faults contained.
pub const PROPORTION_L3: f64 = 0.95;
pub const PROPORTION_L2: f64 = 0.80;
/// Upper bound of that proportion for L0. Like L2 it takes 17 trials of which all ended alike.
pub const PROPORTION_L0: f64 = 0.20;

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

    /// The levels that the interval of a proportion leaves open. L0 takes that no trial came out as
    /// promised, and so many trials that the interval ends at [`PROPORTION_L0`].
    pub(super) fn of_proportion(proportion: &Estimate) -> Self {
        let level = |end: f64| {
            if end >= PROPORTION_L3 {
                Level::L3
            } else if end >= PROPORTION_L2 {
                Level::L2
            } else {
                Level::L1
            }
        };
        if proportion.value > 0.0 {
            return Self { worst: level(proportion.lo), best: level(proportion.hi) };
        }
        let best = if proportion.hi <= PROPORTION_L0 { Level::L0 } else { level(proportion.hi) };
        Self { worst: Level::L0, best }
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

/// The figures that decide the level of a resource axis. The isolation index explains it and has no
/// part in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resource<'a> {
    pub retention: &'a Estimate,
    /// `None` where no native cell can run; L2 is then the best level.
    pub guarantee: Option<&'a Estimate>,
}

impl Resource<'_> {
    /// The levels that the intervals leave open.
    pub(super) fn range(&self, thresholds: &Thresholds) -> LevelRange {
        let (lo, hi) = self.guarantee.map_or((f64::INFINITY, f64::INFINITY), |g| (g.lo, g.hi));
        let cap = if self.guarantee.is_none() { Level::L2 } else { Level::L3 };
        LevelRange {
            worst: level(self.retention.lo, lo, thresholds).min(cap),
            best: level(self.retention.hi, hi, thresholds).min(cap),
        }
    }

    /// Whether the mechanism isolates, but gives the tenant less than the guarantee of L2 and L3.
    pub(super) fn forfeits_capacity(&self, thresholds: &Thresholds) -> bool {
        let short = self.guarantee.is_some_and(|g| g.hi < thresholds.guarantee_l3);
        short && self.retention.lo >= thresholds.retention_l2
    }
}

/// The table for exact figures; the first row that holds.
fn level(retention: f64, guarantee: f64, thresholds: &Thresholds) -> Level {
    let guaranteed = guarantee >= thresholds.guarantee_l3;
    if retention >= thresholds.retention_l3 && guaranteed {
        Level::L3
    } else if retention >= thresholds.retention_l2 && guaranteed {
        Level::L2
    } else if retention >= thresholds.retention_l1 {
        Level::L1
    } else {
        Level::L0
    }
}

/// The levels that the interval of the jitter leaves open. Negligible, Low-Medium and High count as
/// L3, L2 and L0; jitter has no L1.
pub(super) fn of_jitter(jitter: &Estimate, thresholds: &Thresholds) -> LevelRange {
    let level = |j: f64| {
        if j <= thresholds.jitter_negligible {
            Level::L3
        } else if j <= thresholds.service_jitter_low_medium {
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

/// What an interval is made over, as its text names it.
const fn parts_of(scale: Scale) -> &'static str {
    match scale {
        Scale::Linear => "groups",
        Scale::Log => "blocks",
    }
}

/// The scale on which the interval of a figure is symmetric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// That of jitter, which is over groups of blocks.
    Linear,
    /// That of ratios, which are over blocks.
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
    let parts = parts_of(scale);
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
        Some(blocks) => format!("about {blocks} {parts} are needed"),
        None => format!("no number of {parts} would decide"),
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

    fn range(r: Ends, g: Option<Ends>) -> String {
        let (r, g) = (estimate(r), g.map(estimate));
        let resource = Resource { retention: &r, guarantee: g.as_ref() };
        resource.range(&Thresholds::default()).to_string()
    }

    #[test]
    fn the_table_of_resource_axes() {
        const FULL: Option<Ends> = Some((0.95, 1.0));
        let table: &[(Ends, Option<Ends>, &str)] = &[
            // A good mechanism, one that forfeits capacity, an even split, and a starved victim.
            ((0.97, 0.99), Some((0.97, 0.99)), "L3"),
            ((0.99, 1.01), Some((0.49, 0.51)), "L1"),
            ((0.49, 0.51), Some((0.49, 0.51)), "L0"),
            ((0.0, 0.005), Some((0.0, 0.005)), "L0"),
            // Bounds belong to the better level.
            ((0.95, 1.0), Some((0.80, 0.9)), "L3"),
            ((0.80, 0.949), FULL, "L2"),
            ((0.60, 0.799), FULL, "L1"),
            ((0.50, 0.599), FULL, "L0"),
            // Straddling.
            ((0.949, 1.0), FULL, "L2..L3"),
            ((0.799, 0.94), FULL, "L1..L2"),
            ((0.799, 1.0), FULL, "L1..L3"),
            ((0.59, 0.799), FULL, "L0..L1"),
            ((0.59, 0.81), FULL, "L0..L2"),
            ((0.96, 1.0), Some((0.79, 0.81)), "L1..L3"),
            ((0.85, 0.90), Some((0.79, 0.81)), "L1..L2"),
            // Isolated, but capacity forfeited.
            ((0.85, 0.90), Some((0.5, 0.799)), "L1"),
            ((0.79, 0.90), Some((0.5, 0.6)), "L1"),
            // Without native cells L2 is the best level.
            ((0.99, 1.0), None, "L2"),
            ((0.79, 0.96), None, "L1..L2"),
            ((0.40, 0.50), None, "L0"),
        ];
        for (r, g, want) in table {
            assert_eq!(range(*r, *g), *want, "R {r:?} G {g:?}");
        }
    }

    #[test]
    fn a_proportion_is_decided_by_its_printed_interval() {
        for (good, trials, want) in [
            (16, 16, "L1..L3"),
            (17, 17, "L2..L3"),
            (71, 71, "L2..L3"),
            (72, 72, "L3"),
            (1, 1, "L1..L3"),
            (0, 1, "L0..L3"),
            (0, 16, "L0..L1"),
            (0, 17, "L0"),
            (1, 17, "L1"),
            (13, 17, "L1..L2"),
        ] {
            let found = gpubench_stats::proportion::clopper_pearson(
                good,
                trials,
                gpubench_stats::Confidence::P95,
            );
            let found = crate::figures::printed(found.expect("an interval"), "proportion");
            assert_eq!(LevelRange::of_proportion(&found).to_string(), want, "{good}/{trials}");
        }
    }

    #[test]
    fn the_table_of_jitter() {
        let default = Thresholds::default();
        for (ends, want) in [
            ((-0.2, 0.10), "L3"),
            ((0.101, 0.5), "L2"),
            ((0.501, 7.0), "L0"),
            ((0.05, 0.5), "L2..L3"),
            ((0.10, 0.5), "L2..L3"),
            ((0.5, 1.1), "L0..L2"),
            ((0.0, 9.0), "L0..L3"),
        ] {
            assert_eq!(of_jitter(&estimate(ends), &default).to_string(), want, "{ends:?}");
        }
        let (jitter_negligible, service_jitter_low_medium) = (0.01, 0.04);
        let strict = Thresholds { jitter_negligible, service_jitter_low_medium, ..default };
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

    use gpubench_stats::{Confidence, LogRatio, ScheduleRng};

    use super::*;
    use crate::figures::{Systematic, printed};

    fn estimate(value: f64, lo: f64, hi: f64, unit: &str) -> Estimate {
        Estimate { value, lo, hi, ends: Ends::Interval, parts: None, n: 8, unit: unit.to_owned() }
    }

    #[test]
    fn blocks_needed_follow_the_formula() {
        // Half width 1/4, distance 1/8: four times the blocks.
        let index = estimate(0.5, 0.25, 0.75, "index");
        let found = blocks_needed("index", &index, 0.375, Scale::Linear).expect("it straddles");
        let want = "index straddles 0.375: about 32 groups are needed, 8 are there";
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

    /// Rows on a bound and just below it; those that straddle it get the blocks that they ask for,
    /// at most twice the planned ones, and are decided again. Each may then only rarely be on the
    /// side of the bound on which the truth is not.
    #[test]
    fn two_looks_decide_for_the_wrong_side_as_rarely_as_one() {
        const ROWS: u32 = 20_000;
        let thresholds = Thresholds::default();
        let wrong = |looks: u32| {
            let mut rng = ScheduleRng::new(1);
            let wrong = (0..ROWS).filter(|row| {
                let bound: f64 = [0.60, 0.80, 0.95][*row as usize % 3];
                let is_below = row % 2 == 1;
                let truth = if is_below { bound.ln() - 1e-9 } else { bound.ln() };
                let mut logs = Vec::new();
                let mut look = |blocks: u32| {
                    while logs.len() < blocks as usize {
                        logs.push(truth + 0.03 * normal(&mut rng));
                    }
                    let of = LogRatio::from_logs(logs.clone()).expect("logs");
                    printed(of.interval(Confidence::of_looks(looks)).expect("blocks"), "ratio")
                };
                let mut found = look(8);
                let straddled = blocks_needed("retention", &found, bound, Scale::Log);
                if let Some(more) = straddled.and_then(|one| one.blocks) {
                    found = look(more.min(16));
                }
                let levels = [found.lo, found.hi].map(|end| level(end, 1.0, &thresholds));
                let [below, on] = [bound - 1e-6, bound].map(|end| level(end, 1.0, &thresholds));
                if is_below { levels[0] >= on } else { levels[1] <= below }
            });
            wrong.count() as f64 / f64::from(ROWS)
        };
        let (of_two, of_one) = (wrong(2), wrong(1));
        assert!(of_two <= 0.025, "{of_two}");
        assert!(of_one > 0.025, "{of_one}: the second look costs nothing here");
    }

    fn normal(rng: &mut ScheduleRng) -> f64 {
        (-2.0 * (1.0 - rng.uniform()).ln()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
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
