//! Latencies of open-loop requests as histograms, and what reports show of them: curves and
//! percentiles.
//!
//! A latency runs from the scheduled instant to completion. A request that did not complete counts
//! among the requests and never among the answered ones, so it raises every percentile.

use gpubench_record::{Cell, Condition, Phase, SampleRow, SampleStatus};
use gpubench_stats::{Confidence, Effect, student_t};
use hdrhistogram::Histogram;

/// Significant digits of a latency: a printed value is at most 0.1 % above the exact one.
pub const DIGITS: u8 = 3;

/// Percentiles in reports, in thousandths, with their names.
pub const PERCENTILES: [(u64, &str); 4] =
    [(500, "p50"), (900, "p90"), (990, "p99"), (999, "p99.9")];

/// A histogram that cannot be made or added to.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    #[error(transparent)]
    Create(#[from] hdrhistogram::CreationError),
    #[error(transparent)]
    Record(#[from] hdrhistogram::RecordError),
    /// Another histogram cannot be added.
    #[error(transparent)]
    Add(#[from] hdrhistogram::AdditionError),
}

/// The latencies of completed open-loop requests, in ns.
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub fn new() -> Result<Self, HistogramError> {
        Ok(Self(Histogram::new(DIGITS)?))
    }

    /// The latencies of the completed open-loop requests among `rows`.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a SampleRow>) -> Result<Self, HistogramError> {
        let mut latencies = Self::new()?;
        for row in rows {
            latencies.record(row)?;
        }
        Ok(latencies)
    }

    /// Records the row if it is a completed open-loop request.
    pub fn record(&mut self, row: &SampleRow) -> Result<(), HistogramError> {
        if (row.phase, row.status) == (Phase::Open, SampleStatus::Ok)
            && let Some(latency_ns) = row.latency_ns()
        {
            self.record_ns(latency_ns)?;
        }
        Ok(())
    }

    pub(crate) fn record_ns(&mut self, latency_ns: u64) -> Result<(), HistogramError> {
        Ok(self.0.record(latency_ns)?)
    }

    /// Adds the latencies of `other`.
    /// Fails when the histograms do not fit each other.
    pub fn add(&mut self, other: &Self) -> Result<(), HistogramError> {
        Ok(self.0.add(&other.0)?)
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) const fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    pub(crate) const fn from_histogram(histogram: Histogram<u64>) -> Self {
        Self(histogram)
    }

    /// How many latencies are at most `latency_ns`, to [`DIGITS`] digits.
    fn count_up_to(&self, latency_ns: u64) -> u64 {
        let buckets = self.0.iter_recorded();
        buckets
            .take_while(|bucket| bucket.value_iterated_to() <= latency_ns)
            .map(|bucket| bucket.count_since_last_iteration())
            .sum()
    }

    /// The latency at each rank, to [`DIGITS`] digits. Ranks count from 1 and rise; one beyond the
    /// count has no latency.
    fn at_ranks(&self, ranks: impl IntoIterator<Item = u64>) -> Vec<Option<u64>> {
        let mut buckets = self.0.iter_recorded();
        let (mut reached, mut latency_ns) = (0, None);
        ranks
            .into_iter()
            .map(|rank| {
                while reached < rank {
                    let bucket = buckets.next()?;
                    reached += bucket.count_since_last_iteration();
                    // The upper end of the bucket.
                    latency_ns = Some(bucket.value_iterated_to());
                }
                latency_ns
            })
            .collect()
    }
}

// What reports show of latencies: a curve and percentiles of each condition.

/// Upper bound on the points of a curve; more do not show at the size of a report.
const POINTS_MAX: u32 = 160;
/// The points of a curve are even in `-log10(1 - share)` up to this value, beyond p99.9.
const NINES_MAX: f64 = 3.4;

#[derive(Debug, Clone, PartialEq)]
pub struct LatencyChart {
    /// Name of the victim's workload.
    pub victim: String,
    pub curves: Vec<LatencyCurve>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CurveOf {
    pub variant: String,
    pub condition: Condition,
    /// The aggressor, where there is one.
    pub aggressor: Option<String>,
}

impl CurveOf {
    pub fn cell(cell: &Cell) -> Self {
        Self {
            variant: cell.variant.clone(),
            condition: cell.condition,
            aggressor: cell.aggressor.clone(),
        }
    }

    /// In words, for example `mps beside fma-hog`.
    pub fn label(&self) -> String {
        match (&self.aggressor, self.condition) {
            (Some(aggressor), _) => format!("{} beside {aggressor}", self.variant),
            (None, Condition::N) => "alone on the GPU".to_owned(),
            (None, _) => format!("{} solo", self.variant),
        }
    }
}

/// The share of requests answered within a time.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyCurve {
    pub of: CurveOf,
    /// Open-loop requests of the curve.
    pub requests: u64,
    /// How many of them did not complete; absent where the record keeps no latencies.
    pub unanswered: Option<u64>,
    /// Time in ns and the share of all requests answered within it, rising. Where the record keeps
    /// no latencies, its percentiles.
    pub points: Vec<(u64, f64)>,
    /// The latency in ns at each of [`PERCENTILES`] of all requests, by nearest rank. `None` where
    /// there are too few requests for that percentile, or its request did not complete.
    pub percentiles_ns: [Option<Percentile>; PERCENTILES.len()],
}

impl LatencyCurve {
    /// The curve over blocks, each with its open-loop requests and latencies. `None` without
    /// requests.
    pub fn new(of: CurveOf, blocks: &[(u64, Latencies)]) -> Option<Self> {
        let mut sum = Latencies::new().ok()?;
        let mut requests = 0;
        for (of_block, latencies) in blocks {
            sum.add(latencies).ok()?;
            requests += (*of_block).max(latencies.count());
        }
        if requests == 0 {
            return None;
        }
        let ranks = ranks(sum.count());
        let at_ranks = sum.at_ranks(ranks.iter().copied());
        let points = ranks.iter().zip(at_ranks);
        let points = points
            .filter_map(|(rank, latency_ns)| Some((latency_ns?, *rank as f64 / requests as f64)))
            .collect();
        Some(Self {
            of,
            requests,
            unanswered: Some(requests - sum.count()),
            points,
            percentiles_ns: percentiles(requests, &sum, blocks),
        })
    }

    /// The curve through percentiles that each block was given, where no latencies are kept: means
    /// of logs over blocks with their t interval. `blocks` has the latencies of each of
    /// [`PERCENTILES`] by block. `None` without any.
    pub fn of_figures(
        of: CurveOf,
        requests: u64,
        blocks: [&[f64]; PERCENTILES.len()],
    ) -> Option<Self> {
        let percentiles_ns = blocks.map(mean_over_blocks);
        let points: Vec<_> = PERCENTILES
            .iter()
            .zip(percentiles_ns)
            .filter_map(|((permille, _), found)| Some((found?.ns, *permille as f64 / 1e3)))
            .collect();
        (!points.is_empty()).then_some(Self {
            of,
            requests,
            unanswered: None,
            points,
            percentiles_ns,
        })
    }
}

/// Ranks among `answered` latencies, as many for each further nine; the last is the slowest.
fn ranks(answered: u64) -> Vec<u64> {
    let shares = (1..POINTS_MAX).map(|step| {
        let nines = NINES_MAX * f64::from(step) / f64::from(POINTS_MAX);
        1.0 - 10f64.powf(-nines)
    });
    let median = std::iter::once(0.5);
    let mut ranks: Vec<u64> = shares
        .chain(median)
        .map(|share| (share * answered as f64).ceil() as u64)
        .chain([answered])
        .filter(|rank| *rank > 0)
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

// Percentiles of open-loop latencies with their intervals over blocks.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentile {
    pub ns: u64,
    /// Lower and upper end; the upper is absent where the request at it did not complete. Absent
    /// with one block.
    pub interval_ns: Option<(u64, Option<u64>)>,
}

/// [`PERCENTILES`] of `requests` requests. Below ten requests a p90 is the maximum and says nothing
/// about a tail, so it is `None`; the others likewise.
fn percentiles(
    requests: u64,
    sum: &Latencies,
    blocks: &[(u64, Latencies)],
) -> [Option<Percentile>; PERCENTILES.len()] {
    PERCENTILES.map(|(permille, _)| {
        let rank = (requests * permille).div_ceil(1_000);
        let enough = requests * (1_000 - permille) >= 1_000;
        let ns = sum.at_ranks([rank])[0].filter(|_| enough)?;
        let share = permille as f64 / 1e3;
        let interval_ns = half_width(ns, share, requests, blocks).and_then(|half| {
            let rank = |share: f64| (share * requests as f64).ceil().max(1.0) as u64;
            let found = sum.at_ranks([rank(share - half), rank(share + half)]);
            Some((found[0]?, found[1].filter(|_| share + half <= 1.0)))
        });
        Some(Percentile { ns, interval_ns })
    })
}

/// Half the width of the 95 % interval of the share of requests up to `ns`, from its spread over
/// blocks, and at least that of independent requests. The latencies at its ends are the interval of
/// the percentile: Woodruff, "Confidence intervals for medians and other position measures", JASA
/// 47(260), 1952, with blocks as clusters. `None` with one block.
fn half_width(ns: u64, share: f64, requests: u64, blocks: &[(u64, Latencies)]) -> Option<f64> {
    let n = blocks.len() as f64;
    let t = student_t::two_sided_quantile(Confidence::P95.alpha(), n - 1.0).ok()?;
    let total = requests as f64;
    let pooled = blocks.iter().map(|block| block.1.count_up_to(ns)).sum::<u64>() as f64 / total;
    let squares = blocks.iter().map(|(of_block, latencies)| {
        let of_block = (*of_block).max(latencies.count()) as f64;
        (latencies.count_up_to(ns) as f64 - of_block * pooled).powi(2)
    });
    let between = n / (n - 1.0) * squares.sum::<f64>() / (total * total);
    let independent = share * (1.0 - share) / total;
    Some(t * between.max(independent).sqrt())
}

/// The mean of logs with its interval. `None` without a positive figure.
fn mean_over_blocks(figures: &[f64]) -> Option<Percentile> {
    let logs: Vec<f64> = figures.iter().filter(|ns| **ns > 0.0).map(|ns| ns.ln()).collect();
    let round = |ln: f64| ln.exp().round() as u64;
    let Ok(effect) = Effect::of_mean(&logs) else {
        let ns = round(*logs.first()?);
        return Some(Percentile { ns, interval_ns: None });
    };
    let interval = effect.interval(Confidence::P95).ok();
    let interval_ns = interval.map(|found| (round(found.lo), Some(round(found.hi))));
    Some(Percentile { ns: round(effect.value), interval_ns })
}

#[cfg(test)]
mod tests {
    use gpubench_record::sample::MISSING;
    use gpubench_record::{Condition, Phase, SampleRow, SampleStatus};
    use proptest::prelude::*;

    use super::{CurveOf, LatencyCurve};
    use crate::latency::{Latencies, PERCENTILES};
    use crate::samples_for_tests::row;

    fn of() -> CurveOf {
        CurveOf {
            variant: "mps".to_owned(),
            condition: Condition::C,
            aggressor: Some("fma-hog".to_owned()),
        }
    }

    fn ns(curve: &LatencyCurve) -> [Option<u64>; PERCENTILES.len()] {
        curve.percentiles_ns.map(|found| Some(found?.ns))
    }

    fn curve(requests: u64, rows: &[SampleRow]) -> Option<LatencyCurve> {
        LatencyCurve::new(of(), &[(requests, Latencies::of(rows).unwrap())])
    }

    fn with_latency(seq: u64, latency_ns: u64) -> SampleRow {
        let row = row(seq);
        let t_done_ns = row.t_sched_ns + latency_ns;
        SampleRow { t_done_ns, ..row }
    }

    #[test]
    fn unanswered_requests_keep_the_curve_below_one_and_raise_percentiles() {
        let mut rows: Vec<SampleRow> = (0..12).map(row).collect();
        rows[3] = SampleRow { t_done_ns: MISSING, status: SampleStatus::Unfinished, ..rows[3] };
        rows[4].status = SampleStatus::Error;
        rows[5].phase = Phase::Warmup;
        let curve = curve(11, &rows).unwrap();
        assert_eq!((curve.requests, curve.unanswered), (11, Some(2)));
        assert_eq!(curve.points.last(), Some(&(900, 9.0 / 11.0)));
        // The p90 is the tenth of eleven requests, and nine completed.
        assert_eq!(ns(&curve), [Some(900), None, None, None]);
    }

    #[test]
    fn a_percentile_needs_enough_requests() {
        for (requests, given) in [(1, 0), (2, 1), (9, 1), (10, 2), (100, 3), (999, 3), (1_000, 4)] {
            let rows: Vec<_> = (0..requests).map(|seq| with_latency(seq, seq + 1)).collect();
            let curve = curve(requests, &rows).unwrap();
            let present = curve.percentiles_ns.iter().flatten().count();
            assert_eq!(present, given, "{requests} requests");
        }
    }

    #[test]
    fn many_requests_give_few_points_that_end_at_the_slowest() {
        let rows: Vec<_> = (0..10_000).map(|seq| with_latency(seq, seq + 1)).collect();
        let curve = curve(10_000, &rows).unwrap();
        assert!(curve.points.len() <= super::POINTS_MAX as usize + 1);
        let (slowest_ns, share) = *curve.points.last().unwrap();
        assert!((10_000..=10_010).contains(&slowest_ns) && share == 1.0);
        let rising = |pair: &[(u64, f64)]| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1;
        assert!(curve.points.windows(2).all(rising));
        let median = curve.points.iter().find(|(_, share)| *share == 0.5).unwrap();
        assert!((5_000..=5_005).contains(&median.0), "{median:?}");
        let tail = curve.points.iter().filter(|(_, share)| *share > 0.99);
        assert!(tail.count() > 40, "the tail has points of its own");
        assert_eq!(LatencyCurve::new(of(), &[(0, Latencies::new().unwrap())]), None);
    }

    #[test]
    fn an_interval_widens_with_the_spread_between_blocks() {
        let block = |offset: u64| {
            let rows: Vec<_> =
                (0..500).map(|seq| with_latency(seq, 1_000 + offset + seq)).collect();
            (500, Latencies::of(&rows).unwrap())
        };
        let median = |blocks: &[(u64, Latencies)]| {
            let curve = LatencyCurve::new(of(), blocks).unwrap();
            let found = curve.percentiles_ns[0].unwrap();
            let (lo, hi) = found.interval_ns.unwrap();
            assert!(lo <= found.ns && found.ns <= hi.unwrap(), "{found:?}");
            (hi.unwrap() - lo, curve.percentiles_ns[3].unwrap())
        };
        let (alike, tail) = median(&[block(0), block(0), block(0), block(0)]);
        let (spread, _) = median(&[block(0), block(30), block(60), block(90)]);
        assert!(spread > 2 * alike, "{spread} {alike}");
        // A p99.9 of 2000 requests has no upper end: it may be above every one of them.
        assert_eq!(tail.interval_ns.unwrap().1, None);
        let one = LatencyCurve::new(of(), &[block(0)]).unwrap();
        assert_eq!(one.percentiles_ns[0].unwrap().interval_ns, None);
    }

    #[test]
    fn figures_of_blocks_stand_in_for_latencies_that_are_gone() {
        let blocks: [&[f64]; 4] = [&[1e6, 1e6, 1.21e6, 1e6], &[2e6], &[], &[]];
        let curve = LatencyCurve::of_figures(of(), 40, blocks).unwrap();
        assert_eq!(curve.points.len(), 2);
        assert_eq!(curve.unanswered, None);
        let [Some(median), Some(p90), None, None] = curve.percentiles_ns else {
            panic!("{:?}", curve.percentiles_ns)
        };
        assert_eq!(median.ns, 1_048_809);
        let (lo, hi) = median.interval_ns.unwrap();
        assert!(lo < 1_000_000 && hi.unwrap() > 1_100_000);
        assert_eq!((p90.ns, p90.interval_ns), (2_000_000, None));
        assert_eq!(LatencyCurve::of_figures(of(), 40, [&[]; 4]), None);
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_sorted_samples_to_three_digits(
            mut latencies_ns in prop::collection::vec(
                prop_oneof![0..2_000_u64, 0..20_000_000_u64, any::<u64>().prop_map(|ns| ns >> 4)],
                1..3_000,
            ),
            unanswered in 0..40_u64,
        ) {
            let rows: Vec<_> = latencies_ns.iter().map(|ns| with_latency(0, *ns)).collect();
            let requests = rows.len() as u64 + unanswered;
            let curve = curve(requests, &rows).unwrap();
            latencies_ns.sort_unstable();
            for ((permille, name), found) in PERCENTILES.into_iter().zip(ns(&curve)) {
                let rank = (requests * permille).div_ceil(1_000) as usize;
                let exact = latencies_ns.get(rank - 1).copied();
                let exact = exact.filter(|_| requests * (1_000 - permille) >= 1_000);
                prop_assert_eq!(found.is_some(), exact.is_some(), "{}", name);
                let (Some(found), Some(exact)) = (found, exact) else { continue };
                prop_assert!(found >= exact && found - exact <= exact / 1_000, "{found} {exact}");
            }
        }
    }
}
