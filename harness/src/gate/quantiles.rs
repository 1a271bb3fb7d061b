//! Quantiles of durations, given only where the number of samples supports them.

use gpubench_record::SampleRow;
use gpubench_stats::order_rank::smallest_n_for_upper_bound;
use gpubench_stats::{Confidence, Sorted};

/// The `p` quantile of `count` durations of which those in `done_ns` are known. The others had not
/// ended when the cell did, so they count as longer than every known one.
///
/// `None` below the fewest samples for which a distribution-free 95 % interval of this quantile
/// has a finite upper end (6 for the median, 368 for p99, 3688 for p99.9), and where the quantile
/// falls among the unknown durations: without them a stalled system would appear fast.
pub(super) fn quantile_ns(done_ns: &[u64], count: usize, p: f64) -> Option<f64> {
    quantile_below_ns(done_ns, count, p, 0)
}

/// The same quantile, `ranks_lower` ranks further down: the least that it can be after so many
/// durations became shorter.
pub(super) fn quantile_below_ns(
    done_ns: &[u64],
    count: usize,
    p: f64,
    ranks_lower: u64,
) -> Option<f64> {
    let needed = smallest_n_for_upper_bound(p, Confidence::P95).ok()?;
    if count < needed as usize || done_ns.is_empty() {
        return None;
    }
    let last_rank = (p * (count - 1) as f64).ceil() as usize;
    if last_rank >= done_ns.len() {
        return None;
    }
    let mut padded = done_ns.to_vec();
    let longest_ns = done_ns.iter().copied().max()?;
    padded.resize(count, longest_ns);
    let last = (count - 1) as f64;
    let lower_p = (p - ranks_lower as f64 / last).max(0.0);
    Sorted::from_ns(&padded).ok()?.linear(lower_p).ok()
}

/// The median of durations that are all known.
pub(super) fn median_ns(durations_ns: &[u64]) -> Option<f64> {
    quantile_ns(durations_ns, durations_ns.len(), 0.5)
}

/// The p99 by nearest rank of however many values there are. Of fewer than 100 values it is the
/// greatest, so the gate on the harness errs on the strict side.
pub(super) fn lateness_p99_ns<'a>(rows: impl Iterator<Item = &'a SampleRow>) -> Option<f64> {
    let lateness_ns: Vec<u64> = rows.map(SampleRow::lateness_ns).collect();
    Sorted::from_ns(&lateness_ns).ok()?.nearest_rank(0.99).ok()
}

#[cfg(test)]
mod tests {
    use super::quantile_ns;

    #[test]
    fn a_quantile_needs_its_fewest_samples() {
        let thousand: Vec<u64> = (1..=4_000).collect();
        for (p, needed) in [(0.5, 6), (0.9, 36), (0.99, 368), (0.999, 3_688)] {
            assert_eq!(
                quantile_ns(&thousand[..needed - 1], needed - 1, p),
                None,
                "{p}"
            );
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
