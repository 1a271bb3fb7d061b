//! The lower percentiles against a simulated queue whose requests are issued late: the percentiles
//! that punctual requests have lie between them and those as measured.

use gpubench_record::sample::MISSING;
use gpubench_record::{Condition, Gaps, Gate, GateState, Phase, SampleRow};
use gpubench_stats::{ScheduleRng, Sorted, poisson_schedule_ns};

use super::{DurationsNs, punctual_ns, seen_in_time_ns};
use crate::gate::changes::late;
use crate::gate::fixture::{MS, World, row};

/// Requests of random lengths, served in order, each issued so much later than due.
fn served(seed: u64, lateness_ns: impl Fn(&mut ScheduleRng) -> u64) -> Vec<SampleRow> {
    let mut rng = ScheduleRng::new(seed);
    let mut own = ScheduleRng::new(seed + 1_000);
    let due = poisson_schedule_ns(500.0, 4_000 * MS, seed).expect("a legal rate");
    let (mut free_ns, mut asked_ns) = (0, 0);
    let mut rows = Vec::new();
    for (number, due_ns) in (0..).zip(due) {
        let service_ns = 400_000 + (rng.exponential() * 400_000.0) as u64;
        // One thread issues, in order.
        asked_ns = (due_ns + lateness_ns(&mut own)).max(asked_ns);
        free_ns = asked_ns.max(free_ns) + service_ns;
        rows.push(SampleRow { t_issue_ns: asked_ns, ..row(number, Phase::Open, due_ns, free_ns) });
    }
    rows
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
            let (measured, lower) = (latencies(&rows), punctual_ns(&rows));
            for p in [0.5, 0.99] {
                let [lo, true_ns, hi] = [&lower, &punctual, &measured].map(|ns| quantile(ns, p));
                assert!(lo <= true_ns && true_ns <= hi, "{share} {seed} {p}: {lo} {true_ns} {hi}");
                widest = widest.max((hi - lo) / hi);
            }
        }
        assert!(widest > 0.0, "the plant changed nothing");
    }
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
                let lo = seen_in_time_ns(&lower_ns, p, &late).expect("a quantile");
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
fn a_punctual_harness_has_no_bound() {
    let rows = served(7, |_| 0);
    assert_eq!(punctual_ns(&rows), latencies(&rows));
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
    let tail =
        result.figures.open_latency_p99_ns.unwrap() - result.figures.open_latency_p50_ns.unwrap();
    assert_eq!(gate.limit, Some(0.1 * tail.max(1e6)));
    let by = result.figures.open_latency_p99_ns.unwrap()
        - result.figures.open_latency_p99_lower_ns.unwrap();
    assert!((by - 60_000.0).abs() < 1.0, "{by}");
}
