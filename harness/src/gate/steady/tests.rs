//! Noise and time slices are no sign of a loop that had not settled.

use gpubench_record::{Condition, Gate, GateState, Phase};
use gpubench_stats::ScheduleRng;

use crate::gate::changes::few_closed;
use crate::gate::fixture::{MS, World, row};

#[test]
fn noise_alone_fails_neither_gate() {
    let mut failures = 0;
    for seed in 0..300 {
        let mut world = World::new(Condition::N, MS);
        let mut rng = ScheduleRng::new(seed);
        let mut now_ns = 100 * MS;
        for row in world.victim(Phase::Closed) {
            (row.t_sched_ns, row.t_issue_ns) = (now_ns, now_ns);
            now_ns += (rng.exponential() * 1e6) as u64 + 1;
            row.t_done_ns = now_ns;
        }
        few_closed(&mut world, 100);
        let result = world.judge();
        for gate in [Gate::WarmUp, Gate::Drift] {
            failures += usize::from(result.gate_state(&gate) == Some(GateState::Failed));
        }
    }
    assert!(failures <= 1, "{failures} of 300");
}

/// The end of work of `service_ns` that is ready at `ready_ns`, where the tenant has the device for
/// 2 ms of every 4.02 ms.
fn end_under_time_slicing(ready_ns: u64, service_ns: u64) -> u64 {
    const SLICE_NS: u64 = 2 * MS;
    const ROUND_NS: u64 = 2 * SLICE_NS + 20_000;
    let (mut now_ns, mut left_ns) = (ready_ns, service_ns);
    loop {
        let within_ns = now_ns % ROUND_NS;
        let own_ns = SLICE_NS.saturating_sub(within_ns);
        if left_ns <= own_ns {
            return now_ns + left_ns;
        }
        left_ns -= own_ns;
        now_ns += ROUND_NS - within_ns;
    }
}

/// On a device without noise, time slices and requests form patterns that shift now and then. Such
/// a loop has settled, and its rate is the share of the time slice.
#[test]
fn a_loop_under_time_slicing_is_steady() {
    for service_ns in [700_000, 999_000, MS, 1_003_000, 1_300_000, 1_900_000] {
        let mut world = World::new(Condition::C, service_ns);
        let mut free_ns = 100 * MS;
        let mut closed = Vec::new();
        while free_ns < 950 * MS {
            let end_ns = end_under_time_slicing(free_ns, service_ns);
            closed.push(row(0, Phase::Closed, free_ns, end_ns));
            free_ns = end_ns;
        }
        world.rows[0].retain(|row| row.phase != Phase::Closed);
        for row in world.victim(Phase::Open) {
            free_ns = end_under_time_slicing(row.t_sched_ns.max(free_ns), service_ns);
            row.t_done_ns = free_ns;
        }
        let warm_up = world.rows[0].iter().position(|row| row.phase == Phase::Open);
        let at = warm_up.expect("there are open rows");
        world.rows[0].splice(at..at, closed);
        (0..).zip(&mut world.rows[0]).for_each(|(seq, row)| row.seq = seq);
        let result = world.judge();
        assert!(result.outcome.is_measured(), "{service_ns}: {:?}", result.outcome);
        let rate = result.figures.closed_rate_per_s.unwrap();
        let expected = 2.0 / 4.02 * 1e9 / service_ns as f64;
        assert!((rate / expected - 1.0).abs() < 0.01, "{service_ns}: {rate}, expected {expected}");
    }
}
