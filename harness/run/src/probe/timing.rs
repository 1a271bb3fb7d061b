//! Probes of the driver and of the scheduler: calls, launches, SMs and time slices.

use gpubench_record::probe::step::{TimeLaunches, TraceTimeSlices};
use gpubench_record::{
    Condition, FromTenant, LaunchTrials, ProbeFound, SmPlacementPair, ToTenant, TracePair,
};

use super::arithmetic::{FullDeviceBaseline, span_of};
use super::{NEIGHBOUR, Probe, Run, VICTIM, ask_both, step, step_both};
use crate::RunError;
use crate::tenant_set::TenantSet;

// `launch-latency`: from the call to the first instruction of a kernel, alone and beside a
// neighbour at work.
//
// The host stamps the call and the device stamps the first instruction. Series of the victim
// alone, before and afterwards, relate the two clocks.

pub(super) const LAUNCH_LATENCY: Probe = Probe {
    name: "launch-latency",
    summary: "how long after the call does a kernel begin, alone and beside a busy neighbour?",
    sub_axis: "compute/launch",
    runs: &[Run::AgainstBaseline(|tenants, baseline| Box::pin(launch_latency(tenants, baseline)))],
    ..super::PROBE
};

/// Launches a second: far enough apart that under time-slicing they are independent.
const RATE_PER_S: f64 = 250.0;
/// For how long: a hundred launches bound the median and the 90th percentile.
const WATCH_LAUNCHES_NS: u64 = 400_000_000;
/// The neighbour works this many times longer than the victim, which it may delay.
const LONGER_LAUNCH: u64 = 2;

/// Launches alone, beside the neighbour, and alone again.
async fn launch_latency(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let seed = tenants.handles().setup.plan.seed;
    let before = step(tenants, VICTIM, launches(seed)).await?;
    let busy = baseline.requests(WATCH_LAUNCHES_NS * LONGER_LAUNCH);
    let (beside, completed) = step_both(tenants, launches(seed.wrapping_add(1)), busy).await?;
    let after = step(tenants, VICTIM, launches(seed.wrapping_add(2))).await?;
    Ok(ProbeFound::LaunchLatency(LaunchTrials {
        before,
        beside,
        neighbour_ns: span_of(&completed),
        after,
    }))
}

const fn launches(seed: u64) -> TimeLaunches {
    TimeLaunches { rate_per_s: RATE_PER_S, watch_ns: WATCH_LAUNCHES_NS, seed }
}

// `sm-placement`: the SMs on which the blocks of two tenants run when both launch at the same
// time.

pub(super) const SM_PLACEMENT: Probe = Probe {
    name: "sm-placement",
    summary: "on how many SMs do the blocks of each tenant run, and on how many those of both?",
    sub_axis: "compute/sm",
    runs: &[Run::Tenants(|tenants| Box::pin(sm_placement(tenants)))],
    ..super::PROBE
};

/// Of six counts the smallest and the largest bound the median with 97 %.
const ROUNDS: usize = 6;

/// Has both tenants report their SMs once in each round.
async fn sm_placement(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let message = ToTenant::FindSms;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (victim, neighbour) = ask_both(tenants, &message, &message).await?;
        let sms_of = |answer, slot| match answer {
            FromTenant::FoundSms { sms } => Ok(sms),
            other => Err(tenants.unexpected(slot, &other)),
        };
        rounds.push(SmPlacementPair {
            victim_sms: sms_of(victim, VICTIM)?,
            neighbour_sms: sms_of(neighbour, NEIGHBOUR)?,
        });
    }
    Ok(ProbeFound::SmPlacement { device_sms: tenants.handles().sm_count(), rounds })
}

// `time-slice-trace`: the time slices of two tenants. Their kernels read the device's clock at the
// same time.

pub(super) const TIME_SLICE_TRACE: Probe = Probe {
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
    use gpubench_record::TracePair;

    use super::is_too_short;

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
