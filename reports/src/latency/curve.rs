//! What reports show of latencies: a curve and percentiles of each condition.

use gpubench_record::{Cell, Condition};

use super::percentile::{Percentile, mean_over_blocks, percentiles};
use super::{Latencies, PERCENTILES};

/// Upper bound on the points of a curve; more do not show at the size of a report.
const POINTS_MAX: u32 = 160;
/// The points of a curve are even in `-log10(1 - share)` up to this value, beyond p99.9.
const NINES_MAX: f64 = 3.4;

/// The latency curves of one victim.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyChart {
    /// Name of the victim's workload.
    pub victim: String,
    /// One for each condition and mechanism to compare.
    pub curves: Vec<LatencyCurve>,
}

/// What a curve is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CurveOf {
    /// Canonical variant.
    pub variant: String,
    /// N, S or C.
    pub condition: Condition,
    /// The aggressor, where there is one.
    pub aggressor: Option<String>,
}

impl CurveOf {
    #[must_use]
    pub fn cell(cell: &Cell) -> Self {
        Self {
            variant: cell.variant.clone(),
            condition: cell.condition,
            aggressor: cell.aggressor.clone(),
        }
    }

    /// In words, for example `mps beside fma-hog`.
    #[must_use]
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
    /// What it is of.
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
    #[must_use]
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
    #[must_use]
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

#[cfg(test)]
mod tests {
    use gpubench_record::sample::MISSING;
    use gpubench_record::{Condition, Phase, SampleRow, SampleStatus};
    use proptest::prelude::*;

    use super::{CurveOf, LatencyCurve};
    use crate::latency::{Latencies, PERCENTILES};
    use crate::store::samples_for_tests::row;

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
