//! CPU time that the victim's threads lost, and by how much that can have lowered its rate.

use gpubench_record::{Gaps, Gate, GateState};

use super::spans::{Span, Windows};
use super::{CellObservation, ClockKind, Findings, Tenant, figure};

/// Largest accepted bound, 10.5 % of the rate. A wider one would say little about it.
const LOSS_MAX_LN: f64 = 0.10;

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
    let loss_ln = loss_max_ln(gaps.closed.issuer.gap_ns_sum, windows.closed.length_ns());
    found.optional_rate(figure::CLOSED_RATE_LOSS_MAX_LN, loss_ln);
    let mut lost = vec![in_words(
        "closed loop: issuer",
        &gaps.closed.issuer,
        windows.closed,
    )];
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
        "{}; without its gaps the rate of the closed loop is up to {more} % higher, accepted is up \
         to {:.1} %",
        lost.join(", "),
        100.0 * LOSS_MAX_LN.exp_m1(),
    );
    found.holds(GATE, loss_ln.is_some_and(|ln| ln <= LOSS_MAX_LN), detail);
}

/// The most by which gaps can have lowered the rate of a closed loop, as `ln(true / measured)`.
///
/// In the closed loop each request waits for the thread, so a gap delays all later requests by its
/// length, or by less where the device worked through it. Without the gaps the requests of the
/// window would have taken at least `window - lost`, so that `true <= measured * window / (window -
/// lost)`: the bound is `-ln(1 - lost / window)`. It acts on one side: gaps never raise a rate.
/// `None` where gaps fill the window, which bounds nothing.
fn loss_max_ln(lost_ns: u64, window_ns: u64) -> Option<f64> {
    let lost = lost_ns as f64 / window_ns.max(1) as f64;
    (lost < 1.0).then(|| -(-lost).ln_1p())
}

fn in_words(whose: &str, gaps: &Gaps, window: Span) -> String {
    let share_pct = 100.0 * gaps.gap_ns_sum as f64 / window.length_ns().max(1) as f64;
    let (count, max_us) = (gaps.gaps, gaps.gap_ns_max as f64 / 1e3);
    format!("{whose} lost {share_pct:.2} % in {count} gaps, the longest {max_us:.0} us")
}

#[cfg(test)]
mod tests {
    use super::loss_max_ln;

    /// A loop of 1 ms requests that loses 2 of its 10 ms completes 8, and 10 without the gaps.
    #[test]
    fn the_bound_reaches_the_rate_without_the_gaps() {
        let (measured, without) = (8.0_f64, 10.0_f64);
        let bound = loss_max_ln(2_000_000, 10_000_000).unwrap_or(f64::NAN);
        assert!((bound - (without / measured).ln()).abs() < 1e-12);
        assert_eq!(loss_max_ln(0, 10_000_000), Some(0.0));
        assert_eq!(loss_max_ln(10_000_000, 10_000_000), None);
    }
}
