//! The arrival schedule of the open loop: what the seed of the block gives, and whether the victim
//! followed it.

use gpubench_record::{Bursts, Gate, SampleRow};
use gpubench_stats::schedule_ns;

use super::spans::Span;
use super::{CellObservation, Findings};

/// Accepted distance of a logged arrival from the computed one. A rate that was written as text can
/// differ in its last digit, and each gap can then round the other way.
const TOLERANCE_NS: u64 = 1_000;

/// The arrivals that the seed of the block gives, on the clock of the cell; `None` where the rate
/// is unknown.
pub(super) fn planned_arrivals(observation: &CellObservation<'_>, open: Span) -> Option<Vec<u64>> {
    let rate_per_s = observation.offered_per_s?;
    let seed = observation.cell.schedule_seed;
    let bursts = observation.bursts.map(shape);
    let offsets_ns = schedule_ns(rate_per_s, open.length_ns(), seed, bursts).ok()?;
    let arrivals = offsets_ns.iter().map(|offset_ns| open.start_ns + offset_ns);
    Some(arrivals.collect())
}

/// Bursts as the generator of schedules takes them.
const fn shape(bursts: Bursts) -> gpubench_stats::Bursts {
    gpubench_stats::Bursts { requests: bursts.requests, peak: bursts.peak }
}

/// The victim was offered exactly the arrivals that every cell of its block is offered.
pub(super) fn judge(
    planned_ns: Option<&[u64]>,
    rows: &[SampleRow],
    overloaded: bool,
    found: &mut Findings,
) {
    let Some(planned_ns) = planned_ns else {
        return found.not_evaluated(Gate::Schedule, "the rate of the schedule is not known");
    };
    let (issued, planned) = (rows.len(), planned_ns.len());
    let moved = rows
        .iter()
        .zip(planned_ns)
        .position(|(row, planned)| row.t_sched_ns.abs_diff(*planned) > TOLERANCE_NS);
    if let Some(at) = moved {
        let detail =
            format!("request {at} of the open loop was not due when its block's seed says");
        return found.holds(Gate::Schedule, false, detail);
    }
    let detail = format!("{issued} of {planned} arrivals of the block's seed were issued");
    // An overloaded victim stops issuing early, which the gate `overload` reports.
    let complete = issued == planned || (overloaded && issued < planned);
    found.holds(Gate::Schedule, complete, detail);
}
