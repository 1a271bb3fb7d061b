//! Work counted in windows of the device's time.

use gpubench_record::{CompletedRequests, WorkSeries};

/// The work of each whole window between two instants of the device, in thousandths of a request.
pub fn per_window(
    completed: &CompletedRequests,
    window_ns: u64,
    (from, to): (u64, u64),
) -> WorkSeries {
    let count = to.saturating_sub(from) / window_ns.max(1);
    let mut done = vec![0.0_f64; count as usize];
    let mut begin = completed.began_ns;
    for end in completed.ended_ns.iter().map(|ns| completed.began_ns + ns) {
        let length = end.saturating_sub(begin).max(1) as f64;
        let first = begin.saturating_sub(from) / window_ns;
        let last = end.saturating_sub(from) / window_ns;
        for (at, sum) in done.iter_mut().enumerate().take(last as usize + 1).skip(first as usize) {
            let opens = from + at as u64 * window_ns;
            let inside = end.min(opens + window_ns).saturating_sub(begin.max(opens));
            *sum += inside as f64 / length;
        }
        begin = end;
    }
    WorkSeries {
        window_ns,
        milli_requests: done.iter().map(|sum| (sum * 1e3).round() as u32).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{CompletedRequests, per_window};

    fn completed(ended_ns: &[u64]) -> CompletedRequests {
        CompletedRequests {
            began_ns: 1_000,
            ended_ns: ended_ns.to_vec(),
            ..CompletedRequests::default()
        }
    }

    #[test]
    fn requests_count_in_their_windows() {
        let series =
            |ended: &[u64], within| per_window(&completed(ended), 100, within).milli_requests;
        // Two in a window; then one that spans two windows; the last window is incomplete.
        assert_eq!(series(&[50, 100, 300, 350], (1_000, 1_350)), [2_000, 500, 500]);
        // Requests before the first window do not count in it.
        assert_eq!(series(&[50, 100, 300, 350], (1_100, 1_300)), [500, 500]);
        // Half of the first request lies after the first window opens.
        assert_eq!(series(&[200, 300], (1_100, 1_300)), [500, 1_000]);
        assert!(series(&[], (1_000, 1_000)).is_empty());
    }
}
