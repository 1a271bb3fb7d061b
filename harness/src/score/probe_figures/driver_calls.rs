//! How long creating a context and loading a module took, alone and beside a busy neighbour.

use gpubench_record::CallTrials;

use super::Out;

const EXPLAINS: &str = "compute/driver";

type Call = (u64, u64);

/// Medians in each situation. Calls that began and ended while the neighbour was busy count.
pub(super) fn figures(out: &mut Out<'_>, trials: &CallTrials) {
    let always = (0, u64::MAX);
    for (situation, times, busy_ns) in [
        ("alone", &trials.alone, always),
        ("beside kernels", &trials.beside_kernels, trials.kernels_ns),
        ("beside the same calls", &trials.beside_calls, trials.calls_ns),
    ] {
        for (what, calls) in
            [("context creation", &times.contexts_ns), ("module load", &times.modules_ns)]
        {
            let durations = durations_within(calls, busy_ns);
            out.median(EXPLAINS, &format!("{what}, {situation}"), "ns", durations);
        }
    }
}

/// Durations of the calls that lie within an interval.
fn durations_within(calls: &[Call], (from, to): Call) -> Vec<f64> {
    calls
        .iter()
        .filter(|(begin, end)| from <= *begin && *end <= to)
        .map(|(begin, end)| end.saturating_sub(*begin) as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::durations_within;

    #[test]
    fn leaves_out_calls_that_outlast_the_neighbour() {
        let calls = [(0, 10), (10, 25), (25, 31), (31, 40)];
        assert_eq!(durations_within(&calls, (5, 31)), [15.0, 6.0]);
        assert!(durations_within(&calls, (0, 0)).is_empty());
    }
}
