//! Latencies of open-loop requests as histograms, and what reports show of them: curves and
//! percentiles.
//!
//! A latency runs from the scheduled instant to completion. A request that did not complete counts
//! among the requests and never among the answered ones, so it raises every percentile.

use gpubench_record::{Phase, SampleRow, SampleStatus};
use hdrhistogram::Histogram;

/// Significant digits of a latency: a printed value is at most 0.1 % above the exact one.
pub const DIGITS: u8 = 3;

/// Percentiles in reports, in thousandths, with their names.
pub const PERCENTILES: [(u64, &str); 4] =
    [(500, "p50"), (900, "p90"), (990, "p99"), (999, "p99.9")];

/// Upper bound on the points of a curve; more do not show at the size of a report.
const POINTS_MAX: usize = 160;

/// A histogram that cannot be made or added to.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// It cannot be created.
    #[error(transparent)]
    Create(#[from] hdrhistogram::CreationError),
    /// A value cannot be recorded.
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
    /// No latencies.
    ///
    /// # Errors
    /// When the histogram cannot be created.
    pub fn new() -> Result<Self, HistogramError> {
        Ok(Self(Histogram::new(DIGITS)?))
    }

    /// The latencies of the completed open-loop requests among `rows`.
    ///
    /// # Errors
    /// When one of them cannot be recorded.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a SampleRow>) -> Result<Self, HistogramError> {
        let mut latencies = Self::new()?;
        for row in rows {
            latencies.record(row)?;
        }
        Ok(latencies)
    }

    /// Records the row if it is a completed open-loop request.
    ///
    /// # Errors
    /// When its latency cannot be recorded.
    pub fn record(&mut self, row: &SampleRow) -> Result<(), HistogramError> {
        if (row.phase, row.status) == (Phase::Open, SampleStatus::Ok)
            && let Some(latency_ns) = row.latency_ns()
        {
            self.0.record(latency_ns)?;
        }
        Ok(())
    }

    /// Adds the latencies of `other`.
    ///
    /// # Errors
    /// When the histograms do not fit each other.
    pub fn add(&mut self, other: &Self) -> Result<(), HistogramError> {
        Ok(self.0.add(&other.0)?)
    }

    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The histogram behind the latencies.
    pub(crate) const fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    /// The latencies in a histogram.
    pub(crate) const fn from_histogram(histogram: Histogram<u64>) -> Self {
        Self(histogram)
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

/// The latency curves of one victim.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyChart {
    /// Name of the victim's workload.
    pub victim: String,
    /// One for each condition and mechanism to compare.
    pub curves: Vec<LatencyCurve>,
}

/// The share of requests answered within a time.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyCurve {
    /// Mechanism and condition, for example `time-slicing[slice=default], C`.
    pub label: String,
    /// Open-loop requests of the curve.
    pub requests: u64,
    /// How many of them did not complete.
    pub unanswered: u64,
    /// Time in ns and the share of all requests answered within it, rising.
    pub points: Vec<(u64, f64)>,
    /// The latency in ns at each of [`PERCENTILES`] of all requests, by nearest rank. `None` where
    /// there are too few requests for that percentile, or its request did not complete.
    pub percentiles_ns: [Option<u64>; PERCENTILES.len()],
}

impl LatencyCurve {
    /// The curve of `latencies` among `requests` open-loop requests. `None` without requests.
    #[must_use]
    pub fn new(label: impl Into<String>, requests: u64, latencies: &Latencies) -> Option<Self> {
        let answered = latencies.count();
        let requests = requests.max(answered);
        if requests == 0 {
            return None;
        }
        let steps = answered.min(POINTS_MAX as u64);
        let ranks: Vec<u64> = (1..=steps).map(|step| step * answered / steps).collect();
        let at_ranks = latencies.at_ranks(ranks.iter().copied());
        let points = ranks.iter().zip(at_ranks);
        let points = points
            .filter_map(|(rank, latency_ns)| Some((latency_ns?, *rank as f64 / requests as f64)))
            .collect();
        Some(Self {
            label: label.into(),
            requests,
            unanswered: requests - answered,
            points,
            percentiles_ns: percentiles_ns(requests, latencies),
        })
    }
}

/// [`PERCENTILES`] of `requests` requests. Below ten requests a p90 is the maximum and says nothing
/// about a tail, so it is `None`; the others likewise.
fn percentiles_ns(requests: u64, latencies: &Latencies) -> [Option<u64>; PERCENTILES.len()] {
    let ranks = PERCENTILES.map(|(permille, _)| (requests * permille).div_ceil(1_000));
    let mut percentiles_ns = [None; PERCENTILES.len()];
    let at_ranks = latencies.at_ranks(ranks);
    for (index, (permille, _)) in PERCENTILES.into_iter().enumerate() {
        let enough = requests * (1_000 - permille) >= 1_000;
        percentiles_ns[index] = at_ranks[index].filter(|_| enough);
    }
    percentiles_ns
}

#[cfg(test)]
mod tests {
    use gpubench_record::sample::MISSING;
    use gpubench_record::{Phase, SampleRow, SampleStatus};
    use proptest::prelude::*;

    use super::{Latencies, LatencyCurve, PERCENTILES};
    use crate::store::samples_for_tests::row;

    fn curve(requests: u64, rows: &[SampleRow]) -> Option<LatencyCurve> {
        LatencyCurve::new("x", requests, &Latencies::of(rows).unwrap())
    }

    fn with_latency(seq: u64, latency_ns: u64) -> SampleRow {
        let row = row(seq);
        let t_done_ns = row.t_sched_ns + latency_ns;
        SampleRow { t_done_ns, ..row }
    }

    #[test]
    fn unanswered_requests_keep_the_curve_below_one_and_raise_percentiles() {
        let mut rows: Vec<SampleRow> = (0..12).map(row).collect();
        rows[3] = SampleRow {
            t_done_ns: MISSING,
            status: SampleStatus::Unfinished,
            ..rows[3]
        };
        rows[4].status = SampleStatus::Error;
        rows[5].phase = Phase::Warmup;
        let curve = curve(11, &rows).unwrap();
        assert_eq!((curve.requests, curve.unanswered), (11, 2));
        assert_eq!(curve.points.last(), Some(&(900, 9.0 / 11.0)));
        // The p90 is the tenth of eleven requests, and nine completed.
        assert_eq!(curve.percentiles_ns, [Some(900), None, None, None]);
    }

    #[test]
    fn a_percentile_needs_enough_requests() {
        for (requests, given) in [
            (1, 0),
            (2, 1),
            (9, 1),
            (10, 2),
            (100, 3),
            (999, 3),
            (1_000, 4),
        ] {
            let rows: Vec<_> = (0..requests)
                .map(|seq| with_latency(seq, seq + 1))
                .collect();
            let curve = curve(requests, &rows).unwrap();
            let present = curve.percentiles_ns.iter().flatten().count();
            assert_eq!(present, given, "{requests} requests");
        }
    }

    #[test]
    fn many_requests_give_few_points_that_end_at_the_slowest() {
        let rows: Vec<_> = (0..10_000).map(|seq| with_latency(seq, seq + 1)).collect();
        let curve = curve(10_000, &rows).unwrap();
        assert_eq!(curve.points.len(), super::POINTS_MAX);
        let (slowest_ns, share) = *curve.points.last().unwrap();
        assert!((10_000..=10_010).contains(&slowest_ns) && share == 1.0);
        let rising = |pair: &[(u64, f64)]| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1;
        assert!(curve.points.windows(2).all(rising));
        let median = curve
            .points
            .iter()
            .find(|(_, share)| *share == 0.5)
            .unwrap();
        assert!((5_000..=5_005).contains(&median.0), "{median:?}");
        assert_eq!(
            super::LatencyCurve::new("x", 0, &Latencies::new().unwrap()),
            None
        );
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
            for ((permille, name), found) in PERCENTILES.into_iter().zip(curve.percentiles_ns) {
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
