//! What traces of two tenants' kernels show: length of a turn, pause between two turns, and how
//! much of the time both ran.
//!
//! Intervals are those of medians by order statistics, of turns and pauses over all that were seen,
//! of the overlap over the traces. Ends of spans are known to one look at the clock.

use gpubench_record::TracePair;

use super::Out;

type Span = (u64, u64);

const EXPLAINS: &str = "compute/sm";

/// Length of a turn, of the pause between two, and the overlap.
pub(super) fn figures(out: &mut Out<'_>, traces: &[TracePair]) {
    let lengths: Vec<f64> = traces.iter().flat_map(turns).collect();
    let between: Vec<f64> = traces.iter().flat_map(pauses).collect();
    out.median(EXPLAINS, "time slice", "ns", lengths);
    out.median(EXPLAINS, "switch gap", "ns", between);
    let overlaps = traces.iter().filter_map(overlap).collect();
    out.median(EXPLAINS, "overlap", "ratio", overlaps);
}

/// Lengths of the spans that the other tenant ended: the last of each ends by itself, and the first
/// may have begun on an idle device.
fn turns(trace: &TracePair) -> Vec<f64> {
    let whole = |spans: &[Span]| -> Vec<f64> {
        let inner = spans.get(1..spans.len().saturating_sub(1));
        let inner = inner.unwrap_or_default().iter();
        inner
            .map(|(from, to)| to.saturating_sub(*from) as f64)
            .collect()
    };
    let mut turns = whole(&trace.victim_ns);
    turns.extend(whole(&trace.neighbour_ns));
    turns
}

/// From the last look of one tenant to the first of the other, wherever they take turns.
fn pauses(trace: &TracePair) -> Vec<f64> {
    let of = |spans: &[Span], who| spans.iter().map(move |&span| (span, who)).collect();
    let mut all: Vec<(Span, u8)> = of(&trace.victim_ns, 0);
    all.extend::<Vec<_>>(of(&trace.neighbour_ns, 1));
    all.sort_unstable();
    let next = all.windows(2).filter(|two| two[0].1 != two[1].1);
    let pause = |two: &[(Span, u8)]| two[1].0.0.checked_sub(two[0].0.1);
    next.filter_map(pause).map(|ns| ns as f64).collect()
}

/// Time in which both ran, over the time that the one with less of it ran while both were there.
fn overlap(trace: &TracePair) -> Option<f64> {
    let from = trace
        .victim_ns
        .first()?
        .0
        .max(trace.neighbour_ns.first()?.0);
    let to = trace.victim_ns.last()?.1.min(trace.neighbour_ns.last()?.1);
    let within = |&(begin, end): &Span| end.min(to).saturating_sub(begin.max(from));
    let busy = |spans: &[Span]| spans.iter().map(within).sum::<u64>();
    let least = busy(&trace.victim_ns).min(busy(&trace.neighbour_ns));
    let mut both = 0;
    for one in &trace.victim_ns {
        for other in &trace.neighbour_ns {
            both += one.1.min(other.1).saturating_sub(one.0.max(other.0));
        }
    }
    (least > 0).then(|| both as f64 / least as f64)
}

#[cfg(test)]
mod tests {
    use super::{TracePair, overlap, pauses, turns};

    fn trace(victim_ns: &[(u64, u64)], neighbour_ns: &[(u64, u64)]) -> TracePair {
        TracePair {
            victim_ns: victim_ns.to_vec(),
            neighbour_ns: neighbour_ns.to_vec(),
        }
    }

    #[test]
    fn turns_and_pauses_are_those_between_the_tenants() {
        let trace = trace(
            &[(0, 150), (350, 550), (750, 900)],
            &[(160, 340), (560, 740), (910, 950)],
        );
        assert_eq!(turns(&trace), [200.0, 180.0]);
        assert_eq!(pauses(&trace), [10.0; 5]);
        assert_eq!(overlap(&trace), Some(0.0));
    }

    #[test]
    fn who_runs_at_the_same_time_has_no_turns() {
        let both = trace(&[(0, 100)], &[(20, 120)]);
        assert!(turns(&both).is_empty() && pauses(&both).is_empty());
        assert_eq!(overlap(&both), Some(1.0));
        let half = trace(
            &[(0, 100), (200, 300)],
            &[(50, 100), (150, 200), (250, 300)],
        );
        assert_eq!(overlap(&half), Some(100.0 / 150.0));
        assert_eq!(overlap(&trace(&[(0, 10)], &[(20, 30)])), None);
    }
}
