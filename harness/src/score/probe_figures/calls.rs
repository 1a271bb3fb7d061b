//! What a context and a module took, alone and beside a busy neighbour.

use gpubench_record::CallTrials;

use super::Out;

const EXPLAINS: &str = "compute/driver";

type Call = (u64, u64);

/// Medians in each situation. A call counts if it began and ended while the neighbour was busy.
pub(super) fn figures(out: &mut Out<'_>, trials: &CallTrials) {
    let always = (0, u64::MAX);
    for (situation, times, busy_ns) in [
        ("alone", &trials.alone, always),
        ("beside kernels", &trials.beside_kernels, trials.kernels_ns),
        (
            "beside the same calls",
            &trials.beside_calls,
            trials.calls_ns,
        ),
    ] {
        for (what, calls) in [
            ("context creation", &times.contexts_ns),
            ("module load", &times.modules_ns),
        ] {
            let took = during(calls, busy_ns);
            out.median(EXPLAINS, &format!("{what}, {situation}"), "ns", took);
        }
    }
}

/// How long the calls took that lie within an interval.
fn during(calls: &[Call], (from, to): Call) -> Vec<f64> {
    calls
        .iter()
        .filter(|(begin, end)| from <= *begin && *end <= to)
        .map(|(begin, end)| end.saturating_sub(*begin) as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::during;

    #[test]
    fn a_call_that_outlives_the_neighbour_does_not_count() {
        let calls = [(0, 10), (10, 25), (25, 31), (31, 40)];
        assert_eq!(during(&calls, (5, 31)), [15.0, 6.0]);
        assert!(during(&calls, (0, 0)).is_empty());
    }
}
