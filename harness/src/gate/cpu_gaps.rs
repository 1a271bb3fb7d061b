//! CPU time that the victim's threads lost, and by how much that can have lowered its rate.

#[cfg(test)]
mod tests;

use gpubench_record::{Gaps, Gate, GateState, Phase, SampleRow};

use super::closed::completed;
use super::findings::finite;
use super::spans::{Span, Windows};
use super::{CellObservation, ClockKind, Findings, Tenant, WORTH_HAVING_LN, samples};

pub(super) fn judge(
    observation: &CellObservation<'_>,
    victim: &Tenant<'_>,
    windows: &Windows,
    found: &mut Findings,
) {
    const GATE: Gate = Gate::CpuGap;
    if observation.clock == ClockKind::Virtual {
        return found.gate(GATE, GateState::NotApplicable, "n/a (virtual time)");
    }
    let Some(gaps) = &victim.result.cpu_gaps else {
        return found.not_evaluated(GATE, "the victim does not count its lost CPU time");
    };
    let issuer = &gaps.closed.issuer;
    let turn_ns = turn_ns(observation, victim, issuer.long.unwrap_or_default().gaps);
    let lost_ns = lost_max_ns(issuer, turn_ns);
    let loss_ln = loss_max_ln(lost_ns, windows.closed.length_ns());
    found.figures.closed_rate_loss_max_ln = loss_ln.and_then(finite);
    let mut lost = vec![in_words("closed loop: issuer", issuer, windows.closed)];
    if windows.open.length_ns() > 0 {
        let issuer = &gaps.open.issuer;
        lost.push(in_words("open loop: issuer", issuer, windows.open));
        let reaper = gaps.open.reaper.as_ref();
        lost.extend(reaper.map(|gaps| in_words("reaper", gaps, windows.open)));
    }
    let more = loss_ln.map_or_else(
        || "any number of".to_owned(),
        |loss_ln| format!("{:.1}", 100.0 * loss_ln.exp_m1()),
    );
    let detail = format!(
        "{}; a turn takes up to {:.1} ms; without its gaps the rate of the closed loop is up to \
         {more} % higher, accepted is up to {:.1} %",
        lost.join(", "),
        turn_ns as f64 / 1e6,
        100.0 * WORTH_HAVING_LN.exp_m1(),
    );
    found.holds(GATE, loss_ln.is_some_and(|ln| ln <= WORTH_HAVING_LN), detail);
    found.numbers(loss_ln, Some(WORTH_HAVING_LN), "log ratio");
}

/// What a request that misses its turn waits for the next: the longest service of the closed loop
/// beyond the native one. 0 natively, where the victim shares the device with no other.
///
/// A gap lengthens the service that it falls into, so as many of the longest services are left out
/// as there are long gaps. Under a mechanism without turns this is what sharing adds to a request,
/// which errs on the wide side.
fn turn_ns(observation: &CellObservation<'_>, victim: &Tenant<'_>, long_gaps: u64) -> u64 {
    if observation.cell.condition.is_native() {
        return 0;
    }
    let rows = samples::of_phase(victim.rows, Phase::Closed);
    let service_ns = completed(&rows).filter_map(SampleRow::service_ns);
    let mut service_ns: Vec<u64> = service_ns.collect();
    service_ns.sort_unstable_by(|a, b| b.cmp(a));
    let left_out = usize::try_from(long_gaps).unwrap_or(usize::MAX);
    let all_hit = left_out >= service_ns.len();
    let longest_ns = service_ns.get(if all_hit { 0 } else { left_out });
    let native_ns = observation.calibrated_service_ns.or(service_ns.last().copied());
    let (longest_ns, native_ns) = (longest_ns.copied().unwrap_or(0), native_ns.unwrap_or(0));
    longest_ns.saturating_sub(native_ns)
}

/// The most by which gaps can have lengthened a closed loop at depth 1, where a turn takes
/// `turn_ns`.
///
/// Without turns a gap delays all later requests by its length, or by less where the device worked
/// through it: their sum.
///
/// With turns a gap may also end after the victim's turn, and the next turn is one `turn_ns` later.
/// Two cases bound that:
/// - The device keeps the turn for an idle tenant. A gap of length `g` at an independent instant
///   spans the end of a turn with a probability of at most `g / turn_ns`, and costs at most
///   `g + turn_ns * g / turn_ns = 2 g` on average over the gaps.
/// - The device gives the turn away once the tenant has been idle for some time. If that time is
///   shorter than the usual pause between two requests, it does so after every request, gaps or
///   not, and a gap costs no more than its length. If it is longer, only a gap of that length costs
///   a turn. It is taken to be at least [`gpubench_record::LONG_GAP_NS`].
///
/// So a short gap costs twice its length, or its length and a turn if that is less, and a long gap
/// costs its length and a turn. Counting a turn for every gap above 5 us would exclude nearly every
/// cell: an idle host has a hundred interrupts of 10 us in half a second.
fn lost_max_ns(gaps: &Gaps, turn_ns: u64) -> u64 {
    let long = gaps.long.unwrap_or_default();
    let short_ns = gaps.gap_ns_sum.saturating_sub(long.gap_ns_sum);
    let short_turns_ns = (gaps.gaps - long.gaps.min(gaps.gaps)).saturating_mul(turn_ns);
    let long_turns_ns = long.gaps.saturating_mul(turn_ns);
    let turns_ns = long_turns_ns.saturating_add(short_ns.min(short_turns_ns));
    gaps.gap_ns_sum.saturating_add(turns_ns)
}

/// By how much a loop of this length can have been slower by the lost time, as `ln(true /
/// measured)`: `true <= measured * window / (window - lost)`, so the bound is `-ln(1 - lost /
/// window)`. It acts on one side: gaps never raise a rate. `None` where the lost time fills the
/// window, which bounds nothing.
fn loss_max_ln(lost_ns: u64, window_ns: u64) -> Option<f64> {
    let lost = lost_ns as f64 / window_ns.max(1) as f64;
    (lost < 1.0).then(|| -(-lost).ln_1p())
}

fn in_words(whose: &str, gaps: &Gaps, window: Span) -> String {
    let share_pct = 100.0 * gaps.gap_ns_sum as f64 / window.length_ns().max(1) as f64;
    let (count, long, max_us) =
        (gaps.gaps, gaps.long.unwrap_or_default().gaps, gaps.gap_ns_max as f64 / 1e3);
    format!(
        "{whose} lost {share_pct:.2} % in {count} gaps ({long} long), the longest {max_us:.0} us"
    )
}
