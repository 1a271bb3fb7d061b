//! Traces of two tenants' kernels: length of a time slice, pause between two time slices, and how
//! much of the time both ran.
//!
//! Intervals are those of medians by order statistics: of time slices and pauses over all traces
//! together, of the overlap over the traces. The resolution is one read of the clock.

use gpubench_record::TracePair;

use super::Out;

type Span = (u64, u64);

const EXPLAINS: &str = "compute/sm";

/// Length of a time slice, of the pause between two, and the overlap.
pub(super) fn figures(out: &mut Out<'_>, traces: &[TracePair]) {
    let lengths: Vec<f64> = traces.iter().flat_map(time_slices).collect();
    let between: Vec<f64> = traces.iter().flat_map(pauses).collect();
    out.median(EXPLAINS, "time slice", "ns", lengths);
    out.median(EXPLAINS, "switch gap", "ns", between);
    let overlaps = traces.iter().filter_map(overlap).collect();
    out.median(EXPLAINS, "overlap", "ratio", overlaps);
}

/// Lengths of the whole time slices. The first span of each tenant is left out because it may have
/// begun on an idle device, and the last because it ends with the kernel.
fn time_slices(trace: &TracePair) -> Vec<f64> {
    let whole = |spans: &[Span]| -> Vec<f64> {
        let inner = spans.get(1..spans.len().saturating_sub(1));
        let inner = inner.unwrap_or_default().iter();
        inner.map(|(from, to)| to.saturating_sub(*from) as f64).collect()
    };
    let mut slices = whole(&trace.victim_ns);
    slices.extend(whole(&trace.neighbour_ns));
    slices
}

/// From the last read of one tenant to the first of the other, at each switch between them.
fn pauses(trace: &TracePair) -> Vec<f64> {
    let of = |spans: &[Span], tenant| spans.iter().map(move |&span| (span, tenant)).collect();
    let mut all: Vec<(Span, u8)> = of(&trace.victim_ns, 0);
    all.extend::<Vec<_>>(of(&trace.neighbour_ns, 1));
    all.sort_unstable();
    let next = all.windows(2).filter(|two| two[0].1 != two[1].1);
    let pause = |two: &[(Span, u8)]| two[1].0.0.checked_sub(two[0].0.1);
    next.filter_map(pause).map(|ns| ns as f64).collect()
}

/// Time in which both ran, over the shorter run time of the two while both had a kernel.
fn overlap(trace: &TracePair) -> Option<f64> {
    let from = trace.victim_ns.first()?.0.max(trace.neighbour_ns.first()?.0);
    let to = trace.victim_ns.last()?.1.min(trace.neighbour_ns.last()?.1);
    let within = |&(begin, end): &Span| end.min(to).saturating_sub(begin.max(from));
    let busy = |spans: &[Span]| spans.iter().map(within).sum::<u64>();
    let shorter = busy(&trace.victim_ns).min(busy(&trace.neighbour_ns));
    let mut both = 0;
    for one in &trace.victim_ns {
        for other in &trace.neighbour_ns {
            both += one.1.min(other.1).saturating_sub(one.0.max(other.0));
        }
    }
    (shorter > 0).then(|| both as f64 / shorter as f64)
}

#[cfg(test)]
mod tests {
    use super::{TracePair, overlap, pauses, time_slices};

    fn trace(victim_ns: &[(u64, u64)], neighbour_ns: &[(u64, u64)]) -> TracePair {
        TracePair { victim_ns: victim_ns.to_vec(), neighbour_ns: neighbour_ns.to_vec() }
    }

    #[test]
    fn finds_whole_time_slices_and_the_pauses_between_tenants() {
        let trace =
            trace(&[(0, 150), (350, 550), (750, 900)], &[(160, 340), (560, 740), (910, 950)]);
        assert_eq!(time_slices(&trace), [200.0, 180.0]);
        assert_eq!(pauses(&trace), [10.0; 5]);
        assert_eq!(overlap(&trace), Some(0.0));
    }

    #[test]
    fn tenants_that_run_at_the_same_time_have_no_time_slices() {
        let both = trace(&[(0, 100)], &[(20, 120)]);
        assert!(time_slices(&both).is_empty() && pauses(&both).is_empty());
        assert_eq!(overlap(&both), Some(1.0));
        let half = trace(&[(0, 100), (200, 300)], &[(50, 100), (150, 200), (250, 300)]);
        assert_eq!(overlap(&half), Some(100.0 / 150.0));
        assert_eq!(overlap(&trace(&[(0, 10)], &[(20, 30)])), None);
    }
}
