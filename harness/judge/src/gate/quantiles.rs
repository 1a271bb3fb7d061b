//! Quantiles of durations, given only where the number of samples supports them.

use gpubench_record::SampleRow;
use gpubench_stats::quantile::smallest_n_for_upper_bound;
use gpubench_stats::{Confidence, Sorted};

/// Durations of which some may be unknown: those had not ended when the cell did, so they count as
/// longer than every known one.
#[derive(Debug)]
pub(super) struct DurationsNs {
    /// Unknown ones are as long as the longest known one.
    sorted: Option<Sorted>,
    count: usize,
    known: usize,
}

impl DurationsNs {
    /// `count` durations, of which those in `known_ns` are known.
    pub(super) fn new(mut known_ns: Vec<u64>, count: usize) -> Self {
        let known = known_ns.len();
        if let Some(longest_ns) = known_ns.iter().copied().max() {
            known_ns.resize(count, longest_ns);
        }
        Self { sorted: Sorted::from_ns(&known_ns).ok(), count, known }
    }

    /// The `p` quantile.
    ///
    /// `None` below the fewest samples for which a distribution-free 95 % interval of this quantile
    /// has a finite upper end (6 for the median, 368 for p99, 3688 for p99.9), and where the
    /// quantile falls among the unknown durations: without them a stalled system would appear fast.
    pub(super) fn quantile(&self, p: f64) -> Option<f64> {
        self.quantile_below(p, 0)
    }

    /// The same quantile, `ranks_lower` ranks further down: the least that it can be after so many
    /// durations became shorter.
    pub(super) fn quantile_below(&self, p: f64, ranks_lower: u64) -> Option<f64> {
        let needed = smallest_n_for_upper_bound(p, Confidence::P95).ok()?;
        if self.count < needed as usize {
            return None;
        }
        let last = (self.count - 1) as f64;
        if (p * last).ceil() as usize >= self.known {
            return None;
        }
        let lower_p = (p - ranks_lower as f64 / last).max(0.0);
        self.sorted.as_ref()?.linear(lower_p).ok()
    }
}

pub(super) fn median_ns(durations_ns: Vec<u64>) -> Option<f64> {
    let count = durations_ns.len();
    DurationsNs::new(durations_ns, count).quantile(0.5)
}

/// The p99 by nearest rank of however many values there are. Of fewer than 100 values it is the
/// greatest, so the gate on the harness errs on the strict side.
pub(super) fn lateness_p99_ns<'a>(rows: impl Iterator<Item = &'a SampleRow>) -> Option<f64> {
    let lateness_ns: Vec<u64> = rows.map(SampleRow::lateness_ns).collect();
    Sorted::from_ns(&lateness_ns).ok()?.nearest_rank(0.99).ok()
}

#[cfg(test)]
mod tests {
    use super::DurationsNs;

    fn quantile_ns(known_ns: &[u64], count: usize, p: f64) -> Option<f64> {
        DurationsNs::new(known_ns.to_vec(), count).quantile(p)
    }

    #[test]
    fn a_quantile_needs_its_fewest_samples() {
        let thousand: Vec<u64> = (1..=4_000).collect();
        for (p, needed) in [(0.5, 6), (0.9, 36), (0.99, 368), (0.999, 3_688)] {
            assert_eq!(quantile_ns(&thousand[..needed - 1], needed - 1, p), None, "{p}");
            assert!(quantile_ns(&thousand[..needed], needed, p).is_some(), "{p}");
        }
        assert_eq!(quantile_ns(&[1, 2, 3, 4, 5, 6, 7], 7, 0.5), Some(4.0));
        assert_eq!(quantile_ns(&[], 0, 0.5), None);
    }

    #[test]
    fn requests_that_never_ended_count_as_the_longest() {
        let done: Vec<u64> = (1..=95).collect();
        assert_eq!(quantile_ns(&done, 101, 0.5), Some(51.0));
        assert_eq!(quantile_ns(&done, 101, 0.9), Some(91.0));
        // Rank 95 of 0..=100 is among those that never ended.
        assert_eq!(quantile_ns(&done, 101, 0.95), None);
    }
}
