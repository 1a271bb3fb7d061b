//! How late the harness itself issued requests of the open loop and saw their ends, and by how much
//! that can have lengthened latencies.

#[cfg(test)]
mod tests;

use gpubench_record::sample::MISSING;
use gpubench_record::{Gaps, Gate, GateState, Phase, SampleRow, SampleStatus};

use super::findings::finite;
use super::quantiles::{DurationsNs, lateness_p99_ns};
use super::{CellObservation, ClockKind, Findings, Tenant, samples};

/// Largest accepted bound, as a share of the native service time or of the tail (p99 less p50),
/// whichever is larger. A wider one would say little about the jitter of the cell.
const BOUND_SHARE_MAX: f64 = 0.10;

pub(super) fn judge(observation: &CellObservation<'_>, victim: &Tenant<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::Lateness;
    if observation.clock == ClockKind::Virtual {
        return found.gate(GATE, GateState::NotApplicable, super::host::VIRTUAL);
    }
    let rows = samples::of_phase(victim.rows, Phase::Open);
    let idle = rows.iter().filter(|row: &&SampleRow| row.issuer_idle);
    let Some(p99_ns) = lateness_p99_ns(idle) else {
        return found.not_evaluated(GATE, "no request came due while the issuer was idle");
    };
    if observation.is_user_victim {
        // The user's program waits for its own arrivals, so its lateness is not that of the
        // harness.
        let detail = format!("p99 of the user's program is {p99_ns:.0} ns, in its latencies");
        return found.not_evaluated(GATE, detail);
    }
    let late_ends = victim.result.cpu_gaps.and_then(|gaps| gaps.open.late_ends);
    let late_ends = late_ends.unwrap_or_default();
    let Some(bound_ns) = lower_quantiles(&rows, &late_ends, found) else {
        return found.not_evaluated(GATE, "the open loop has no percentiles to bound");
    };
    let limit_ns = limit_ns(observation, found);
    let sched = victim.result.sched.as_deref().unwrap_or("unknown");
    let detail = format!(
        "punctual requests, seen in time, would have had percentiles up to {bound_ns:.0} ns \
         shorter, accepted is up to {limit_ns:.0} ns; p99 of the lateness of an idle issuer \
         (scheduling class {sched}) is {p99_ns:.0} ns; {} ends were seen up to {:.0} us late",
        late_ends.gaps,
        late_ends.gap_ns_max as f64 / 1e3,
    );
    found.holds(GATE, bound_ns <= limit_ns, detail);
    found.numbers(Some(bound_ns), Some(limit_ns), "ns");
}

/// Adds the percentiles of latencies without the harness's own lateness at both ends, and returns
/// the largest difference from those as they are; `None` where the cell has no percentiles.
fn lower_quantiles(rows: &[SampleRow], late_ends: &Gaps, found: &mut Findings) -> Option<f64> {
    let ran: Vec<SampleRow> =
        rows.iter().filter(|row| row.status != SampleStatus::Error).copied().collect();
    let lower_ns = DurationsNs::new(punctual_ns(&ran), ran.len());
    let mut bound_ns = None;
    let figures = &mut found.figures;
    for (as_is, lower, p) in [
        (figures.open_latency_p50_ns, &mut figures.open_latency_p50_lower_ns, 0.5),
        (figures.open_latency_p99_ns, &mut figures.open_latency_p99_lower_ns, 0.99),
    ] {
        let Some(as_is) = as_is else {
            continue;
        };
        let lower_ns = seen_in_time_ns(&lower_ns, p, late_ends)?;
        *lower = finite(lower_ns);
        let by_ns = as_is - lower_ns;
        bound_ns = Some(bound_ns.map_or(by_ns, |known: f64| known.max(by_ns)));
    }
    bound_ns
}

/// The least that a quantile can be where `late` stamps of ends are late, which ones is unknown.
///
/// Each is late by the longest at most, so the quantile is lower by the longest at most. The others
/// are right, so it is lower by as many ranks at most. Both bounds hold.
fn seen_in_time_ns(lower_ns: &DurationsNs, p: f64, late: &Gaps) -> Option<f64> {
    let by_length_ns = lower_ns.quantile(p)? - late.gap_ns_max as f64;
    let by_rank_ns = lower_ns.quantile_below(p, late.gaps)?;
    Some(by_length_ns.max(by_rank_ns))
}

/// The least latency that each request can have had without the harness's own lateness: its latency
/// less the largest own lateness since the victim's queue was last empty.
///
/// Requests are served in order. The end of a request is that of the request which started the busy
/// period, plus the services since. A harness that issues each request of the period up to `l` late
/// shifts that end by at most `l`: a punctual request behind a late one is late too. The stamps
/// tell when the queue was empty: every earlier request had been seen complete. A completion that
/// is seen late joins two busy periods, and the latency is then lowered by more, never by less.
fn punctual_ns(rows: &[SampleRow]) -> Vec<u64> {
    let (mut busy_until_ns, mut largest_ns) = (0, 0);
    let mut lower_ns = Vec::with_capacity(rows.len());
    for row in rows {
        if row.t_issue_ns >= busy_until_ns {
            largest_ns = 0;
        }
        if row.issuer_idle {
            largest_ns = largest_ns.max(row.lateness_ns());
        }
        busy_until_ns = busy_until_ns.max(row.t_done_ns);
        if row.t_done_ns != MISSING {
            lower_ns.extend(row.latency_ns().map(|ns| ns.saturating_sub(largest_ns)));
        }
    }
    lower_ns
}

/// The largest bound that is worth having. The unit of jitter is the native median, which the
/// calibrated service time is within 10 %; the tail stands for the jitter itself, which takes a
/// second cell.
fn limit_ns(observation: &CellObservation<'_>, found: &Findings) -> f64 {
    let median_ns = found.figures.open_latency_p50_ns.unwrap_or(0.0);
    let tail_ns = found.figures.open_latency_p99_ns.map_or(0.0, |p99_ns| p99_ns - median_ns);
    let service_ns = observation.calibrated_service_ns.map_or(median_ns, |ns| ns as f64);
    BOUND_SHARE_MAX * service_ns.max(tail_ns)
}
