//! Lost CPU time: what counts as a gap, and in which loop.

use gpubench_record::{CpuGaps, Gaps, LongGaps};

use super::*;

/// Calls take 2 ms, and three requests are polled every 0.3 ms, the others every 5 us.
const SLOW_POLLS: Script = Script {
    submit_ns: |_| 2 * MS,
    poll_ns: |n| match n {
        // In the warm-up, in the closed loop, and in the open loop.
        1 | 4 | 7 => 300_000,
        _ => 5_000,
    },
    ..Script::PLAIN
};

/// Four polls until the end of a request of 1 ms.
const FOUR_POLLS: Gaps = Gaps {
    gaps: 4,
    gap_ns_sum: 1_200_000,
    gap_ns_max: 300_000,
    long: Some(LongGaps { gaps: 4, gap_ns_sum: 1_200_000 }),
};

fn gaps_of(played: &Played) -> CpuGaps {
    played.outcome.cpu_gaps.expect("gaps are counted")
}

#[test]
fn slow_polls_count_in_their_loop_and_long_calls_do_not() -> Checked {
    // Requests of 3 ms: two in the warm-up, five in the closed loop, two in the open loop.
    let clock = FakeClock::on_wall(2, |_| 0);
    let arrivals = vec![5 * MS, 15 * MS];
    let played = play_on(clock, victim(8), arrivals, SLOW_POLLS, 8)?;
    let phases = [Phase::Warmup, Phase::Closed, Phase::Open];
    let counts = phases.map(|phase| of(&played.rows, phase).len());
    assert_eq!(counts, [2, 5, 2]);
    let gaps = gaps_of(&played);
    assert_eq!(gaps.closed.issuer, FOUR_POLLS);
    assert_eq!(gaps.closed.reaper, None);
    assert_eq!(gaps.open.issuer, Gaps::default());
    // The reaper polls for the first time when it wakes, so its first slow poll is no gap.
    let mut slow = Gaps::default();
    (0..3).for_each(|_| slow.add(300_000));
    assert_eq!(gaps.open.reaper, Some(slow));
    Ok(())
}

#[test]
fn an_issuer_that_oversleeps_loses_the_time_after_the_instant() -> Checked {
    let clock = FakeClock::on_wall(2, |t_ns| if t_ns == T0_NS + 32 * MS { MS / 2 } else { 0 });
    let played = play_on(clock, open_only(8), vec![MS, 2 * MS], Script::PLAIN, 8)?;
    let mut overslept = Gaps::default();
    overslept.add(MS / 2);
    assert_eq!(gaps_of(&played).open.issuer, overslept);
    Ok(())
}

#[test]
fn virtual_time_counts_no_gaps() -> Checked {
    let played = play_with(victim(8), vec![MS], SLOW_POLLS, 8)?;
    assert_eq!(played.outcome.cpu_gaps, None);
    Ok(())
}
