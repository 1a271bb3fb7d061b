//! How late the harness itself issued requests of the open loop and saw their ends, and by how much
//! that can have lengthened latencies.

use gpubench_record::sample::MISSING;
use gpubench_record::{Bursts, Gaps, Gate, GateState, Phase, SampleRow, SampleStatus};
use gpubench_stats::schedule_ns;

use super::catalogue::finite;
use super::cpu_gaps::turn_ns;
use super::quantiles::{DurationsNs, lateness_p99_ns};
use super::spans::Span;
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
    let turn_ns = turn_ns(observation, victim);
    let Some(bound_ns) = lower_quantiles(&rows, &late_ends, turn_ns, found) else {
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
fn lower_quantiles(
    rows: &[SampleRow],
    late_ends: &Gaps,
    turn_ns: u64,
    found: &mut Findings,
) -> Option<f64> {
    let ran: Vec<SampleRow> =
        rows.iter().filter(|row| row.status != SampleStatus::Error).copied().collect();
    let (punctual_ns, missed) = punctual_ns(&ran, turn_ns);
    let lower_ns = DurationsNs::new(punctual_ns, ran.len());
    let mut bound_ns = None;
    let figures = &mut found.figures;
    for (as_is, lower, p) in [
        (figures.open_latency_p50_ns, &mut figures.open_latency_p50_lower_ns, 0.5),
        (figures.open_latency_p99_ns, &mut figures.open_latency_p99_lower_ns, 0.99),
    ] {
        let Some(as_is) = as_is else {
            continue;
        };
        let lower_ns = without_lateness_ns(&lower_ns, p, late_ends, missed)?;
        *lower = finite(lower_ns);
        let by_ns = as_is - lower_ns;
        bound_ns = Some(bound_ns.map_or(by_ns, |known: f64| known.max(by_ns)));
    }
    bound_ns
}

/// The least that a quantile can be where `late` stamps of ends are late and requests missed their
/// turn, which ones is unknown.
///
/// Each is longer by the longest at most, so the quantile is lower by the longest at most. The
/// others are right, so it is lower by as many ranks at most. Both bounds hold for either cause.
fn without_lateness_ns(lower_ns: &DurationsNs, p: f64, late: &Gaps, missed: Missed) -> Option<f64> {
    let seen = [(0, late.gap_ns_max), (late.gaps, 0)];
    let turns = [(0, missed.turn_ns), (missed.requests, 0)];
    let both = seen.iter().flat_map(|seen| turns.iter().map(move |turn| (seen, turn)));
    let ends = both.map(|((late, late_ns), (missed, turn_ns))| {
        Some(lower_ns.quantile_below(p, late + missed)? - (late_ns + turn_ns) as f64)
    });
    ends.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

/// Requests that the harness's lateness can have cost a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Missed {
    requests: u64,
    /// What each waited longer: a turn, however long the queue.
    turn_ns: u64,
}

/// Standard deviations above the expected number of requests that missed a turn.
const MISSED_SDS: f64 = 2.0;

/// The least latency that each request can have had without the harness's own lateness: its latency
/// less the largest own lateness since the victim's queue was last empty.
///
/// Requests are served in order. The end of a request is that of the request which started the busy
/// period, plus the services since. A harness that issues each request of the period up to `l` late
/// shifts that end by at most `l`: a punctual request behind a late one is late too. The stamps
/// tell when the queue was empty: every earlier request had been seen complete. A completion that
/// is seen late joins two busy periods, and the latency is then lowered by more, never by less.
///
/// Where turns are taken, work that starts up to `l` later ends up to `l` and one turn later: the
/// queue behind it moves as one. A period begins at an instant that the turns do not know, so it
/// spans the end of one with a probability of at most `l / turn_ns`, and then all of its requests
/// wait for the next.
fn punctual_ns(rows: &[SampleRow], turn_ns: u64) -> (Vec<u64>, Missed) {
    let (mut busy_until_ns, mut largest_ns) = (0, 0);
    let (mut mean, mut variance, mut requests) = (0.0, 0.0, 0.0);
    let mut end_of_period = |requests: f64, largest_ns: u64| {
        let p = (largest_ns as f64 / turn_ns.max(1) as f64).min(1.0);
        mean += requests * p;
        variance += requests * requests * p * (1.0 - p);
    };
    let mut lower_ns = Vec::with_capacity(rows.len());
    for row in rows {
        if row.t_issue_ns >= busy_until_ns {
            end_of_period(requests, largest_ns);
            (largest_ns, requests) = (0, 0.0);
        }
        requests += 1.0;
        if row.issuer_idle {
            largest_ns = largest_ns.max(row.lateness_ns());
        }
        busy_until_ns = busy_until_ns.max(row.t_done_ns);
        if row.t_done_ns != MISSING {
            lower_ns.extend(row.latency_ns().map(|ns| ns.saturating_sub(largest_ns)));
        }
    }
    end_of_period(requests, largest_ns);
    let most = (mean + MISSED_SDS * f64::sqrt(variance)).ceil() as u64;
    let requests = if turn_ns > 0 { most } else { 0 };
    (lower_ns, Missed { requests, turn_ns: if requests > 0 { turn_ns } else { 0 } })
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

// The arrival schedule of the open loop: what the seed of the block gives, and whether the victim
// followed it.

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
pub(super) fn judge_schedule(
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

#[cfg(test)]
mod tests {
    use gpubench_record::sample::MISSING;
    use gpubench_record::{Condition, Gaps, Gate, GateState, Phase, SampleRow};
    use gpubench_stats::{ScheduleRng, Sorted, poisson_schedule_ns};

    use super::{DurationsNs, Missed, punctual_ns, without_lateness_ns};
    use crate::gate::fixture::late;
    use crate::gate::fixture::{MS, World, row};

    /// Requests of random lengths, served in order, each issued so much later than due.
    fn served(seed: u64, lateness_ns: impl Fn(&mut ScheduleRng) -> u64) -> Vec<SampleRow> {
        in_turns(seed, 0, lateness_ns)
    }

    /// The same where the victim has every second turn of this length.
    fn in_turns(
        seed: u64,
        turn_ns: u64,
        lateness_ns: impl Fn(&mut ScheduleRng) -> u64,
    ) -> Vec<SampleRow> {
        let mut rng = ScheduleRng::new(seed);
        let mut own = ScheduleRng::new(seed + 1_000);
        let due = poisson_schedule_ns(500.0, 4_000 * MS, seed).expect("a legal rate");
        let (mut free_ns, mut asked_ns) = (0, 0);
        let mut rows = Vec::new();
        for (number, due_ns) in (0..).zip(due) {
            let service_ns = 400_000 + (rng.exponential() * 400_000.0) as u64;
            // One thread issues, in order.
            asked_ns = (due_ns + lateness_ns(&mut own)).max(asked_ns);
            free_ns = served_until(asked_ns.max(free_ns), service_ns, turn_ns);
            rows.push(SampleRow {
                t_issue_ns: asked_ns,
                ..row(number, Phase::Open, due_ns, free_ns)
            });
        }
        rows
    }

    fn served_until(mut now_ns: u64, mut left_ns: u64, turn_ns: u64) -> u64 {
        loop {
            let phase_ns = if turn_ns == 0 { 0 } else { now_ns % (2 * turn_ns) };
            let own_ns = if turn_ns == 0 { u64::MAX } else { turn_ns.saturating_sub(phase_ns) };
            if left_ns <= own_ns {
                return now_ns + left_ns;
            }
            left_ns -= own_ns;
            now_ns += 2 * turn_ns - phase_ns;
        }
    }

    fn quantile(ns: &[u64], p: f64) -> f64 {
        Sorted::from_ns(ns).and_then(|all| all.linear(p)).expect("a quantile")
    }

    fn latencies(rows: &[SampleRow]) -> Vec<u64> {
        rows.iter().filter_map(SampleRow::latency_ns).collect()
    }

    #[test]
    fn punctual_percentiles_lie_between_the_lower_ones_and_the_measured_ones() {
        // Late in every request, in one of fifty, and in one of a thousand by much.
        for (share, mean_ns) in [(1.0, 30e3), (0.02, 400e3), (0.001, 5e6)] {
            let mut widest = 0.0_f64;
            for seed in 0..40 {
                let rows = served(seed, |rng| {
                    let length = rng.exponential() * mean_ns;
                    if rng.uniform() < share { length as u64 } else { 0 }
                });
                let punctual = latencies(&served(seed, |_| 0));
                let (measured, (lower, _)) = (latencies(&rows), punctual_ns(&rows, 0));
                for p in [0.5, 0.99] {
                    let [lo, true_ns, hi] =
                        [&lower, &punctual, &measured].map(|ns| quantile(ns, p));
                    assert!(
                        lo <= true_ns && true_ns <= hi,
                        "{share} {seed} {p}: {lo} {true_ns} {hi}"
                    );
                    widest = widest.max((hi - lo) / hi);
                }
            }
            assert!(widest > 0.0, "the plant changed nothing");
        }
    }

    /// A late request can miss its turn, and the queue behind it with it.
    #[test]
    fn a_missed_turn_is_within_the_lower_percentiles() {
        const TURN_NS: u64 = 4 * MS;
        let (mut beyond_lateness, mut narrower) = (0, 0);
        for (share, mean_ns) in [(1.0, 20e3), (1.0, 200e3), (0.05, 1e6)] {
            for seed in 0..40 {
                let late = |rng: &mut ScheduleRng| {
                    let length = rng.exponential() * mean_ns;
                    if rng.uniform() < share { length as u64 } else { 0 }
                };
                let rows = in_turns(seed, TURN_NS, late);
                let (lower_ns, missed) = punctual_ns(&rows, TURN_NS);
                let lower_ns = DurationsNs::new(lower_ns, rows.len());
                for p in [0.5, 0.99] {
                    let true_ns = quantile(&latencies(&in_turns(seed, TURN_NS, |_| 0)), p);
                    let least = |missed| {
                        without_lateness_ns(&lower_ns, p, &Gaps::default(), missed)
                            .expect("a quantile")
                    };
                    let (lo, without_turns) = (least(missed), least(Missed::default()));
                    assert!(lo <= true_ns, "{share} {mean_ns} {seed} {p}: {lo} {true_ns}");
                    beyond_lateness += u32::from(without_turns > true_ns);
                    narrower += u32::from(without_turns - lo < TURN_NS as f64);
                }
            }
        }
        assert!(beyond_lateness > 0, "no request missed a turn");
        assert!(narrower > 0, "a turn was taken from every quantile");
    }

    #[test]
    fn percentiles_seen_in_time_lie_between_the_lower_ones_and_the_measured_ones() {
        // Ends seen late: every second one by little, one of fifty, and one of a thousand by much.
        for (share, mean_ns) in [(0.5, 10e3), (0.02, 400e3), (0.001, 5e6)] {
            let (mut widest, mut by_rank) = (0.0_f64, 0);
            for seed in 0..40 {
                let in_time = latencies(&served(seed, |_| 0));
                let mut rng = ScheduleRng::new(seed + 2_000);
                let mut late = Gaps::default();
                let measured: Vec<u64> = in_time
                    .iter()
                    .map(|ns| {
                        let by_ns = (rng.exponential() * mean_ns) as u64;
                        if rng.uniform() >= share || by_ns == 0 {
                            return *ns;
                        }
                        late.add(by_ns);
                        ns + by_ns
                    })
                    .collect();
                let lower_ns = DurationsNs::new(measured.clone(), measured.len());
                for p in [0.5, 0.99] {
                    let missed = Missed::default();
                    let lo = without_lateness_ns(&lower_ns, p, &late, missed).expect("a quantile");
                    let [true_ns, hi] = [&in_time, &measured].map(|ns| quantile(ns, p));
                    // Interpolation at another rank rounds.
                    assert!(
                        lo <= true_ns + 1e-3 && true_ns <= hi,
                        "{share} {seed} {p}: {lo} {true_ns} {hi}"
                    );
                    widest = widest.max((hi - lo) / hi);
                    by_rank += u32::from(hi - lo < late.gap_ns_max as f64);
                }
            }
            assert!(widest > 0.0, "the plant changed nothing");
            assert!(share > 0.1 || by_rank > 0, "ranks bounded nothing: {share}");
        }
    }

    #[test]
    fn a_request_behind_a_late_one_is_late_too_until_the_queue_is_empty() {
        let at = |seq, due_ns, issue_ns, done_ns| SampleRow {
            t_issue_ns: issue_ns,
            ..row(seq, Phase::Open, due_ns, done_ns)
        };
        let mut rows = [
            at(0, 0, 30, 100),
            at(1, 50, 50, 170),
            at(2, 60, 61, 240),
            // The queue is empty.
            at(3, 300, 302, 370),
        ];
        let punctual_ns = |rows: &[SampleRow]| punctual_ns(rows, 0).0;
        assert_eq!(punctual_ns(&rows), [70, 90, 150, 68]);
        // Lateness that a driver call caused is no fault of the harness.
        rows[0].issuer_idle = false;
        assert_eq!(punctual_ns(&rows), [100, 120, 179, 68]);
        rows[2].t_done_ns = MISSING;
        assert_eq!(punctual_ns(&rows).len(), 3, "it never ended");
    }

    #[test]
    fn the_gate_has_its_numbers_and_the_cell_its_lower_percentiles() {
        let mut world = World::new(Condition::N, MS);
        late(&mut world, 60_000);
        let result = world.judge();
        let gate = result.gate(&Gate::Lateness).expect("it was judged");
        assert_eq!(gate.state, GateState::Passed);
        assert_eq!((gate.value, gate.unit.as_deref()), (Some(60_000.0), Some("ns")));
        let tail = result.figures.open_latency_p99_ns.unwrap()
            - result.figures.open_latency_p50_ns.unwrap();
        assert_eq!(gate.limit, Some(0.1 * tail.max(1e6)));
        let by = result.figures.open_latency_p99_ns.unwrap()
            - result.figures.open_latency_p99_lower_ns.unwrap();
        assert!((by - 60_000.0).abs() < 1.0, "{by}");
    }
}
