//! Latencies of open-loop requests as histograms, and what reports show of them: curves and
//! percentiles.
//!
//! A latency runs from the scheduled instant to completion. A request that did not complete counts
//! among the requests and never among the answered ones, so it raises every percentile.

mod curve;
mod percentile;

use gpubench_record::{Phase, SampleRow, SampleStatus};
use hdrhistogram::Histogram;

pub use curve::{CurveOf, LatencyChart, LatencyCurve};
pub use percentile::Percentile;

/// Significant digits of a latency: a printed value is at most 0.1 % above the exact one.
pub const DIGITS: u8 = 3;

/// Percentiles in reports, in thousandths, with their names.
pub const PERCENTILES: [(u64, &str); 4] =
    [(500, "p50"), (900, "p90"), (990, "p99"), (999, "p99.9")];

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
            self.record_ns(latency_ns)?;
        }
        Ok(())
    }

    /// Records one latency.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub(crate) fn record_ns(&mut self, latency_ns: u64) -> Result<(), HistogramError> {
        Ok(self.0.record(latency_ns)?)
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
