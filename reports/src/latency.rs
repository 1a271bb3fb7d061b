//! Latency curves for reports: the share of open-loop requests answered within a time.
//!
//! A request that never ended counts among those not answered, so that a curve which stays below
//! one shows them instead of hiding them.

use gpubench_record::{Phase, SampleRow, SampleStatus};

/// Points of a curve at most; more would not show at the size of a report.
const POINTS_MAX: usize = 160;

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
    /// What the curve is of, for example `time-slicing[slice=default], C`.
    pub label: String,
    /// Open-loop requests behind it.
    pub requests: u64,
    /// How many of them did not complete.
    pub unanswered: u64,
    /// Time in ns and the share of all requests answered within it, rising.
    pub points: Vec<(u64, f64)>,
}

impl LatencyCurve {
    /// The curve of the open-loop rows among `rows`, latency from the scheduled instant. `None`
    /// where there is no open-loop row.
    #[must_use]
    pub fn from_rows<'a>(
        label: impl Into<String>,
        rows: impl IntoIterator<Item = &'a SampleRow>,
    ) -> Option<Self> {
        let mut requests = 0;
        let mut latencies: Vec<u64> = Vec::new();
        for row in rows.into_iter().filter(|row| row.phase == Phase::Open) {
            requests += 1;
            if row.status == SampleStatus::Ok {
                latencies.extend(row.latency_ns());
            }
        }
        if requests == 0 {
            return None;
        }
        latencies.sort_unstable();
        let answered = latencies.len();
        let points = (1..=answered.min(POINTS_MAX))
            .map(|step| {
                let rank = step * answered / answered.min(POINTS_MAX);
                (latencies[rank - 1], rank as f64 / requests as f64)
            })
            .collect();
        let unanswered = requests - answered as u64;
        Some(Self {
            label: label.into(),
            requests,
            unanswered,
            points,
        })
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::sample::MISSING;
    use gpubench_record::{Phase, SampleRow, SampleStatus};

    use super::LatencyCurve;
    use crate::store::samples_for_tests::row;

    #[test]
    fn unanswered_requests_keep_the_curve_below_one() {
        let mut rows: Vec<SampleRow> = (0..8).map(row).collect();
        rows[3] = SampleRow {
            t_done_ns: MISSING,
            status: SampleStatus::Unfinished,
            ..rows[3]
        };
        rows[4].phase = Phase::Warmup;
        let curve = LatencyCurve::from_rows("x", &rows).unwrap();
        assert_eq!((curve.requests, curve.unanswered), (7, 1));
        assert_eq!(curve.points.last(), Some(&(900, 6.0 / 7.0)));
    }

    #[test]
    fn many_requests_give_few_points_that_end_at_the_slowest() {
        let rows: Vec<SampleRow> = (0..10_000)
            .map(|seq| SampleRow {
                t_done_ns: seq * 1_000 + seq + 1,
                ..row(seq)
            })
            .collect();
        let curve = LatencyCurve::from_rows("x", &rows).unwrap();
        assert_eq!(curve.points.len(), super::POINTS_MAX);
        assert_eq!(curve.points.last(), Some(&(10_000, 1.0)));
        assert!(
            curve
                .points
                .windows(2)
                .all(|w| w[0].0 <= w[1].0 && w[0].1 < w[1].1)
        );
        // The median of 1..=10000 ns stands where it belongs.
        assert!(curve.points.contains(&(5_000, 0.5)));
        assert_eq!(LatencyCurve::from_rows("x", &[]), None);
    }
}
