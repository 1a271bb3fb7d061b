//! The time slices of two tenants: their kernels read the device's clock at the same time.

use gpubench_record::{Condition, ProbeAsk, ProbeFound, ProbeTold, TracePair};

use super::concurrent::probe_both;
use super::{NEIGHBOUR, VICTIM, unexpected};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// Traces: of six values the least and the greatest bound the median with 97 %.
const TRACES: usize = 6;
/// How long each kernel watches at first. In virtual time every look costs an interpreter's work.
const WATCH_NS: u64 = 100_000_000;
const WATCH_VIRTUAL_NS: u64 = 24_000_000;
/// Where turns are longer than that, it watches twice as long, again and again, so often at most.
const DOUBLINGS_MAX: u32 = 4;
/// Whole turns that a trace must show where there are turns: those that the other tenant ended and
/// that did not begin on an idle device.
const WHOLE_MIN: usize = 2;
/// Looks further apart than this are a gap: more than ten ticks of a clock that ticks every
/// microsecond, and less than any pause between two turns that was heard of.
const THRESHOLD_NS: u64 = 10_000;

/// Lets two kernels watch the clock, again and again.
pub async fn time_slice_trace(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let mut watch_ns = if tenants.handles().setup.clock.is_virtual() {
        WATCH_VIRTUAL_NS
    } else {
        WATCH_NS
    };
    let longest_ns = watch_ns << DOUBLINGS_MAX;
    let (mut traces, mut gaps_lost) = (Vec::new(), 0);
    while traces.len() < TRACES {
        let (trace, lost) = trace(tenants, watch_ns).await?;
        if is_too_short(&trace) && watch_ns < longest_ns {
            watch_ns *= 2;
            continue;
        }
        gaps_lost += lost;
        traces.push(trace);
    }
    Ok(ProbeFound::TimeSliceTrace {
        threshold_ns: THRESHOLD_NS,
        gaps_lost,
        traces,
    })
}

/// Lets both watch the clock once; the trace, and how many gaps it had no room for.
async fn trace(tenants: &mut TenantSet, watch_ns: u64) -> Result<(TracePair, u64), RunError> {
    let ask = ProbeAsk::Trace {
        watch_ns,
        threshold_ns: THRESHOLD_NS,
    };
    let (victim, neighbour) = probe_both(tenants, &ask, &ask).await?;
    let mut gaps_lost = 0;
    let mut take = |told: ProbeTold, slot| match told {
        ProbeTold::Traced {
            spans_ns,
            gaps_seen,
        } => {
            gaps_lost += (gaps_seen + 1).saturating_sub(spans_ns.len() as u64);
            Ok(spans_ns)
        }
        other => Err(unexpected(tenants, slot, other)),
    };
    let pair = TracePair {
        victim_ns: take(victim, VICTIM)?,
        neighbour_ns: take(neighbour, NEIGHBOUR)?,
    };
    Ok((pair, gaps_lost))
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
    fn a_trace_with_time_slices_must_have_whole_ones() {
        let spans = |count: u64| (0..count).map(|k| (10 * k, 10 * k + 5)).collect();
        for (victim, neighbour, expected) in [
            // Side by side, or one after the other: there are no turns.
            (1, 1, false),
            (2, 1, true),
            (2, 2, true),
            (3, 2, true),
            (3, 3, false),
            (4, 2, false),
        ] {
            let trace = TracePair {
                victim_ns: spans(victim),
                neighbour_ns: spans(neighbour),
            };
            assert_eq!(is_too_short(&trace), expected, "{victim}, {neighbour}");
        }
    }
}
