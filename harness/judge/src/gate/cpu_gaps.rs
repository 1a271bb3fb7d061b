//! CPU time that the victim's threads lost, and by how much that can have lowered its rate.

use gpubench_record::{Gaps, Gate, GateState, Phase, SampleRow};

use super::catalogue::finite;
use super::closed::completed;
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
    let turn_ns = turn_ns(observation, victim);
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
pub(super) fn turn_ns(observation: &CellObservation<'_>, victim: &Tenant<'_>) -> u64 {
    if observation.cell.condition.is_native() {
        return 0;
    }
    let rows = samples::of_phase(victim.rows, Phase::Closed);
    let service_ns = completed(&rows).filter_map(SampleRow::service_ns);
    let mut service_ns: Vec<u64> = service_ns.collect();
    service_ns.sort_unstable_by(|a, b| b.cmp(a));
    let gaps = victim.result.cpu_gaps.as_ref();
    let long = gaps.and_then(|gaps| gaps.closed.issuer.long).unwrap_or_default();
    let left_out = usize::try_from(long.gaps).unwrap_or(usize::MAX);
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

#[cfg(test)]
mod tests {
    use gpubench_record::Gaps;
    use gpubench_stats::ScheduleRng;

    use super::{loss_max_ln, lost_max_ns};

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;
    const WINDOW_NS: u64 = 500 * MS;

    /// A loop of 1 ms requests that loses 2 of its 10 ms completes 8, and 10 without the gaps.
    #[test]
    fn the_bound_reaches_the_rate_without_the_gaps() {
        let (measured, without) = (8.0_f64, 10.0_f64);
        let bound = loss_max_ln(2_000_000, 10_000_000).unwrap_or(f64::NAN);
        assert!((bound - (without / measured).ln()).abs() < 1e-12);
        assert_eq!(loss_max_ln(0, 10_000_000), Some(0.0));
        assert_eq!(loss_max_ln(10_000_000, 10_000_000), None);
    }

    #[test]
    fn a_short_gap_costs_its_length_again_and_a_long_one_a_turn() {
        let lost = |gaps: &[u64], turn_ns| {
            let mut all = Gaps::default();
            gaps.iter().for_each(|gap_ns| all.add(*gap_ns));
            lost_max_ns(&all, turn_ns)
        };
        for (gaps, turn_ns, want) in [
            (&[][..], 2 * MS, 0),
            (&[20 * US, 30 * US], 0, 50 * US),
            (&[20 * US, 30 * US], 2 * MS, 100 * US),
            // A turn shorter than the gaps is the most that each costs.
            (&[20 * US, 30 * US], 5 * US, 60 * US),
            (&[3 * MS, 20 * US], 2 * MS, 5 * MS + 40 * US),
            (&[100 * US], 2 * MS, 2_100 * US),
        ] {
            assert_eq!(lost(gaps, turn_ns), want, "{gaps:?}, {turn_ns}");
        }
    }

    /// How the device shares its time.
    #[derive(Debug, Clone, Copy)]
    enum Device {
        /// The victim has it alone.
        Own,
        /// Turns of 2 ms alternate, whether or not the victim uses its turn.
        Kept,
        /// The victim's turn ends when it has been idle for that long, or after 2 ms.
        GivenAway(u64),
    }

    const TURN_NS: u64 = 2 * MS;

    /// When gaps begin.
    enum Begin {
        /// At these instants, rising, whatever the thread does then.
        At(Vec<u64>),
        /// When a request completes, the n-th each time: the worst instant of a turn.
        AfterEach(u64),
    }

    /// Gaps of these lengths.
    struct Gapped {
        begin: Begin,
        lengths_ns: Vec<u64>,
    }

    /// Completions of 1 ms requests in the window, one at a time, each `PAUSE_NS` after the last or
    /// after the gap that delays it. Also the gaps that happened.
    fn completions(device: Device, planted: &Gapped) -> (u64, Gaps) {
        const PAUSE_NS: u64 = 4 * US;
        let (mut now_ns, mut done, mut counted) = (0, 0, Gaps::default());
        let mut lengths = planted.lengths_ns.iter().copied().enumerate().peekable();
        let mut turn_ends_ns = TURN_NS;
        while now_ns < WINDOW_NS {
            let mut ready_ns = now_ns + PAUSE_NS;
            while let Some((number, length_ns)) = lengths.peek().copied() {
                let begin_ns = match &planted.begin {
                    Begin::At(instants) => instants[number],
                    Begin::AfterEach(n) if done == n * (number as u64 + 1) => now_ns,
                    Begin::AfterEach(_) => break,
                };
                if begin_ns > ready_ns {
                    break;
                }
                ready_ns = ready_ns.max(begin_ns + length_ns);
                counted.add(length_ns);
                lengths.next();
            }
            now_ns = match device {
                Device::Own => ready_ns + MS,
                Device::Kept => in_kept_turns(ready_ns),
                Device::GivenAway(idle_ns) => {
                    given_away(ready_ns, now_ns + idle_ns, &mut turn_ends_ns)
                }
            };
            done += 1;
        }
        (done, counted)
    }

    /// The end of a request that is ready at `ready_ns`, where the victim's turn is given away at
    /// `given_ns` or ends before.
    fn given_away(ready_ns: u64, given_ns: u64, turn_ends_ns: &mut u64) -> u64 {
        let given_ns = given_ns.min(*turn_ends_ns);
        let mut start_ns = ready_ns;
        if ready_ns > given_ns {
            let turns = (ready_ns - given_ns).div_ceil(TURN_NS);
            start_ns = given_ns + turns * TURN_NS;
            *turn_ends_ns = start_ns + TURN_NS;
        }
        if start_ns + MS <= *turn_ends_ns {
            return start_ns + MS;
        }
        let left_ns = start_ns + MS - *turn_ends_ns;
        let again_ns = *turn_ends_ns + TURN_NS;
        *turn_ends_ns = again_ns + TURN_NS;
        again_ns + left_ns
    }

    fn in_kept_turns(ready_ns: u64) -> u64 {
        let (mut now_ns, mut left_ns) = (ready_ns, MS);
        loop {
            let own_ns = TURN_NS.saturating_sub(now_ns % (2 * TURN_NS));
            if left_ns <= own_ns {
                return now_ns + left_ns;
            }
            left_ns -= own_ns;
            now_ns += 2 * TURN_NS - now_ns % (2 * TURN_NS);
        }
    }

    /// Gaps of exponential lengths, at random instants or at the worst ones.
    fn planted(rng: &mut ScheduleRng, count: u64, mean_ns: f64, after_each: Option<u64>) -> Gapped {
        let lengths = (0..count).map(|_| (rng.exponential() * mean_ns).max(6e3) as u64);
        let lengths_ns = lengths.collect();
        let mut instant = || (rng.uniform() * WINDOW_NS as f64) as u64;
        let mut instants: Vec<u64> = (0..count).map(|_| instant()).collect();
        instants.sort_unstable();
        Gapped { begin: after_each.map_or(Begin::At(instants), Begin::AfterEach), lengths_ns }
    }

    const NONE: Gapped = Gapped { begin: Begin::AfterEach(1), lengths_ns: Vec::new() };

    /// Each run counts whole requests, of which there are 125 to 500.
    const WHOLE_REQUESTS: f64 = RUNS as f64 * 0.002;
    const RUNS: u64 = 40;

    #[test]
    fn planted_gaps_cost_no_more_than_the_bound() {
        let devices = [
            (Device::Own, 0),
            (Device::Kept, TURN_NS),
            (Device::GivenAway(2 * US), TURN_NS),
            (Device::GivenAway(200 * US), TURN_NS),
        ];
        let mut turns_lost = false;
        for (device, turn_ns) in devices {
            for (count, mean_ns, after_each) in [
                (300, 20e3, None),
                (40, 150e3, None),
                (4, 3e6, None),
                (12, 1e6, None),
                (200, 20e3, Some(1)),
                (20, 400e3, Some(7)),
                (12, 1e6, Some(9)),
            ] {
                let (mut slower, mut bounds, mut sums) = (0.0, 0.0, 0.0);
                for seed in 0..RUNS {
                    let mut rng = ScheduleRng::new(seed);
                    let gapped = planted(&mut rng, count, mean_ns, after_each);
                    let (with, counted) = completions(device, &gapped);
                    let (without, _) = completions(device, &NONE);
                    slower += (without as f64 / with as f64).ln();
                    let bound = |turn_ns| loss_max_ln(lost_max_ns(&counted, turn_ns), WINDOW_NS);
                    bounds += bound(turn_ns).unwrap_or(f64::INFINITY);
                    sums += bound(0).unwrap_or(f64::INFINITY);
                }
                let case = format!(
                    "{device:?}, {count} gaps of {mean_ns} ns, after each {after_each:?}: \
                     {slower}, bound {bounds}"
                );
                assert!(slower <= bounds + WHOLE_REQUESTS, "{case}");
                turns_lost |= slower > sums + WHOLE_REQUESTS;
                // Alone on the device a gap longer than a request costs nearly its length. The
                // device works through shorter ones.
                if matches!(device, Device::Own) && mean_ns >= 3e6 {
                    assert!(bounds < 1.3 * slower, "{case}");
                }
            }
        }
        assert!(turns_lost, "no planted gap cost more than its length");
    }
}
