//! `time-slice-trace`: the time slices of two tenants. Their kernels read the device's clock at the
//! same time.

use gpubench_record::probe::step::TraceTimeSlices;
use gpubench_record::{Condition, ProbeFound, TracePair};

use super::steps::step_both;
use super::{Probe, Run};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
    name: "time-slice-trace",
    summary: "how long are time slices and the pauses between them, and how much overlaps?",
    sub_axis: "compute/sm",
    runs: &[Run::Tenants(|tenants| Box::pin(time_slice_trace(tenants)))],
    ..super::PROBE
};

/// Number of traces: of six values the smallest and the largest bound the median with 97 %.
const TRACES: usize = 6;
/// Initial length of a trace. In virtual time every read of the clock costs the interpreter time.
const WATCH_NS: u64 = 100_000_000;
const WATCH_VIRTUAL_NS: u64 = 24_000_000;
/// How often the length may double where time slices are longer.
const DOUBLINGS_MAX: u32 = 4;
/// Whole time slices that a trace must show if it shows any. A whole slice did not begin on an idle
/// device, and the other tenant's slice ended it.
const WHOLE_MIN: usize = 2;
/// Reads further apart than this are a gap: more than ten ticks of a clock that ticks every
/// microsecond, and less than every published pause between two time slices.
const THRESHOLD_NS: u64 = 10_000;

/// Takes the traces.
async fn time_slice_trace(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let mut watch_ns =
        if tenants.handles().setup.clock.is_virtual() { WATCH_VIRTUAL_NS } else { WATCH_NS };
    let longest_ns = watch_ns << DOUBLINGS_MAX;
    let (mut traces, mut gaps_lost) = (Vec::new(), 0);
    while traces.len() < TRACES {
        let request = TraceTimeSlices { watch_ns, threshold_ns: THRESHOLD_NS };
        let (victim, neighbour) = step_both(tenants, request, request).await?;
        let lost = [&victim, &neighbour]
            .map(|trace| (trace.gaps + 1).saturating_sub(trace.spans_ns.len() as u64));
        let trace = TracePair { victim_ns: victim.spans_ns, neighbour_ns: neighbour.spans_ns };
        if is_too_short(&trace) && watch_ns < longest_ns {
            watch_ns *= 2;
            continue;
        }
        gaps_lost += lost.iter().sum::<u64>();
        traces.push(trace);
    }
    Ok(ProbeFound::TimeSliceTrace { threshold_ns: THRESHOLD_NS, gaps_lost, traces })
}

/// Whether a kernel was interrupted, and the trace has too few whole time slices.
fn is_too_short(trace: &TracePair) -> bool {
    let spans = [trace.victim_ns.len(), trace.neighbour_ns.len()];
    let whole: usize = spans.iter().map(|count| count.saturating_sub(2)).sum();
    spans.iter().any(|&count| count > 1) && whole < WHOLE_MIN
}

#[cfg(test)]
mod tests {
    use super::is_too_short;
    use gpubench_record::TracePair;

    #[test]
    fn a_trace_with_time_slices_needs_whole_ones() {
        let spans = |count: u64| (0..count).map(|k| (10 * k, 10 * k + 5)).collect();
        for (victim, neighbour, expected) in [
            // Side by side, or one after the other: there are no time slices.
            (1, 1, false),
            (2, 1, true),
            (2, 2, true),
            (3, 2, true),
            (3, 3, false),
            (4, 2, false),
        ] {
            let trace = TracePair { victim_ns: spans(victim), neighbour_ns: spans(neighbour) };
            assert_eq!(is_too_short(&trace), expected, "{victim}, {neighbour}");
        }
    }
}
