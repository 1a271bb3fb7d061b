//! Late requests: lateness of the system under test, and of the harness.

use super::*;

#[test]
fn lateness_inside_a_driver_call_is_not_the_harness() -> Checked {
    // The second call takes 3 ms; the third request comes due in the middle of it, the fourth at
    // its very end, the fifth long after.
    let script = Script { submit_ns: |n| if n == 1 { 3 * MS } else { 5_000 }, ..Script::PLAIN };
    let arrivals = vec![MS, 2 * MS, 3 * MS, 10 * MS];
    let played = play_with(open_only(8), arrivals, script, 8)?;
    let idle: Vec<_> = played.rows.iter().map(|row| row.issuer_idle).collect();
    assert_eq!(idle, [true, true, false, true]);
    let late = &played.rows[2];
    assert_eq!((late.t_sched_ns, late.lateness_ns()), (33 * MS, 2 * MS));
    // Latency starts at the schedule, not at the late issue.
    assert_eq!(late.latency_ns(), Some(late.t_done_ns - 33 * MS));
    Ok(())
}

#[test]
fn requests_due_while_the_issuer_oversleeps_are_late_through_the_harness() -> Checked {
    // It wakes 1.5 ms late for the request at 32 ms. The next one came due in that time, and one
    // more in the following call.
    let clock = FakeClock::new(2, |t_ns| if t_ns == T0_NS + 32 * MS { 3 * MS / 2 } else { 0 });
    let script = Script { submit_ns: |_| 100_000, ..Script::PLAIN };
    let arrivals = vec![MS, 2 * MS, 3 * MS, 3 * MS + 550_000, 9 * MS];
    let played = play_on(clock, open_only(8), arrivals, script, 8)?;
    let late: Vec<_> = played.rows.iter().map(|row| (row.lateness_ns(), row.issuer_idle)).collect();
    assert_eq!(late, [(0, true), (1_500_000, true), (600_000, true), (150_000, false), (0, true)]);
    Ok(())
}

#[test]
fn lateness_from_the_closed_loop_is_not_the_harness() -> Checked {
    // The last request of the closed loop ends at 43 ms, long after two arrivals.
    let script = Script { service_ns: |n| if n == 19 { 24 * MS } else { MS }, ..Script::PLAIN };
    let played = play_with(victim(8), vec![MS, 2 * MS, 20 * MS], script, 8)?;
    let idle: Vec<_> = of(&played.rows, Phase::Open).iter().map(|row| row.issuer_idle).collect();
    assert_eq!(idle, [false, false, true]);
    Ok(())
}

#[test]
fn a_request_due_when_the_call_returns_finds_the_issuer_idle() -> Checked {
    let arrivals = vec![MS, MS + 5_000, MS + 9_999];
    let played = play_with(open_only(8), arrivals, Script::PLAIN, 8)?;
    let idle: Vec<_> = played.rows.iter().map(|row| row.issuer_idle).collect();
    assert_eq!(idle, [true, true, false]);
    Ok(())
}
