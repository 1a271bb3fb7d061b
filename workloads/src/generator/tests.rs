//! The generator against the fake clock and device: every figure is exact.

use gpubench_record::sample::MISSING;
use gpubench_record::{CpuGaps, Gaps, LoadSpec, LongGaps, Phase, SampleRow, SampleStatus};

use super::fake::{FakeClock, FakeDevice, NEVER_NS, Script};
use super::*;
use crate::log::read_log;

const MS: u64 = 1_000_000;
const T0_NS: u64 = 200 * MS;

type Checked = Result<(), Box<dyn std::error::Error>>;

struct Played {
    outcome: Outcome,
    rows: Vec<SampleRow>,
    submitted: u64,
}

fn play_with(
    load: LoadSpec,
    arrivals_ns: Vec<u64>,
    script: Script,
    slots: usize,
) -> Result<Played, Box<dyn std::error::Error>> {
    play_on(FakeClock::new(2, |_| 0), load, arrivals_ns, script, slots, &[])
}

fn play_on(
    clock: Arc<FakeClock>,
    load: LoadSpec,
    arrivals_ns: Vec<u64>,
    script: Script,
    slots: usize,
    answers: &'static [i32],
) -> Result<Played, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("log");
    let mut device = FakeDevice::new(&clock, script, slots);
    let time: Arc<dyn Time> = clock;
    let reap: Arc<dyn Reap> = Arc::new(device.clone());
    let run = CellRun {
        t0_ns: T0_NS,
        load,
        arrivals_ns,
        pauses_ns: Vec::new(),
        issuer: 4,
        reaper: 5,
        reaper_cores: None,
        answers,
    };
    let log = LogWriter::create(&path, 4_096)?;
    let outcome = run_cell(&time, &run, &mut device, &reap, log)?;
    let rows = read_log(&path)?.rows;
    assert_eq!(outcome.rows, rows.len() as u64);
    Ok(Played { outcome, rows, submitted: device.submitted() })
}

fn victim(outstanding_max: u32) -> LoadSpec {
    LoadSpec::Victim {
        warmup_end_ns: 5 * MS,
        closed_end_ns: 20 * MS,
        depth: 1,
        sparse: None,
        open_start_ns: 30 * MS,
        open_end_ns: 60 * MS,
        rate_per_s: 250.0,
        bursts: None,
        seed: 1,
        outstanding_max,
    }
}

/// A victim without its closed loop.
fn open_only(outstanding_max: u32) -> LoadSpec {
    let mut load = victim(outstanding_max);
    if let LoadSpec::Victim { warmup_end_ns, closed_end_ns, .. } = &mut load {
        (*warmup_end_ns, *closed_end_ns) = (0, 0);
    }
    load
}

fn of(rows: &[SampleRow], phase: Phase) -> Vec<SampleRow> {
    rows.iter().copied().filter(|row| row.phase == phase).collect()
}

#[test]
fn a_closed_loop_issues_when_the_last_request_ends() -> Checked {
    let played = play_with(victim(8), vec![], Script::PLAIN, 8)?;
    // 5 us of call and 1 ms of service: 20 requests begin before 20 ms, the last at 19.095 ms.
    assert_eq!(played.rows.len(), 20);
    for (row, seq) in played.rows.iter().zip(0u64..) {
        let begun_ns = seq * 1_005_000;
        let phase = if begun_ns < 5 * MS { Phase::Warmup } else { Phase::Closed };
        assert_eq!(
            *row,
            SampleRow {
                seq,
                t_sched_ns: begun_ns,
                t_issue_ns: begun_ns,
                t_ret_ns: begun_ns + 5_000,
                t_done_ns: begun_ns + 1_005_000,
                gpu_ns: MS,
                error: 0,
                phase,
                status: SampleStatus::Ok,
                issuer_idle: true,
            }
        );
    }
    assert_eq!(of(&played.rows, Phase::Warmup).len(), 5);
    assert_eq!((played.outcome.failure, played.outcome.unfinished), (None, 0));
    Ok(())
}

#[test]
fn an_open_loop_keeps_its_schedule_while_earlier_requests_are_outstanding() -> Checked {
    // The third comes 0.1 ms after the second, which is still running.
    let arrivals = vec![MS, 2 * MS, 2 * MS + 100_000, 10 * MS];
    let played = play_with(open_only(8), arrivals, Script::PLAIN, 8)?;
    let rows = of(&played.rows, Phase::Open);
    let stamps: Vec<_> =
        rows.iter().map(|row| (row.t_sched_ns, row.t_issue_ns, row.t_done_ns)).collect();
    let open = 30 * MS;
    assert_eq!(
        stamps,
        [
            (open + MS, open + MS, open + MS + 1_005_000),
            (open + 2 * MS, open + 2 * MS, open + 3 * MS + 5_000),
            (open + 2 * MS + 100_000, open + 2 * MS + 100_000, open + 4 * MS + 5_000),
            (open + 10 * MS, open + 10 * MS, open + 11 * MS + 5_000),
        ]
    );
    assert!(rows.iter().all(|row| row.issuer_idle && row.gpu_ns == MS));
    assert!(!played.outcome.overloaded && !played.outcome.stuck);
    Ok(())
}

#[test]
fn too_many_outstanding_requests_end_the_loop() -> Checked {
    // An arrival every 0.1 ms against 1 ms of service: at the fifth, four are outstanding.
    let arrivals = (1..=50).map(|n| n * 100_000).collect();
    let played = play_with(open_only(4), arrivals, Script::PLAIN, 4)?;
    assert!(played.outcome.overloaded);
    assert_eq!(played.rows.len(), 4);
    assert!(played.rows.iter().all(|row| row.status == SampleStatus::Ok));
    // With one more slot completions are still too slow: it ends a little later.
    let arrivals = (1..=50).map(|n| n * 100_000).collect();
    let more = play_with(open_only(6), arrivals, Script::PLAIN, 6)?;
    assert!(more.outcome.overloaded && more.rows.len() == 6);
    // With room for all of them nothing is dropped.
    let arrivals = (1..=50).map(|n| n * 100_000).collect();
    let room = play_with(open_only(64), arrivals, Script::PLAIN, 64)?;
    assert!(!room.outcome.overloaded && room.rows.len() == 50);
    Ok(())
}

#[test]
fn a_closed_loop_keeps_its_depth_outstanding() -> Checked {
    for depth in [1, 2, 4] {
        let mut load = victim(8);
        if let LoadSpec::Victim { depth: own, .. } = &mut load {
            *own = depth;
        }
        let played = play_with(load, vec![], Script::PLAIN, 8)?;
        let rows = &played.rows;
        let outstanding = |at_ns: u64| {
            rows.iter().filter(|row| row.t_issue_ns <= at_ns && at_ns < row.t_done_ns).count()
        };
        assert_eq!(outstanding(10 * MS + MS / 2), depth as usize, "depth {depth}");
        // A request behind another one waits for nothing but it.
        let apart_ns = if depth == 1 { MS + 5_000 } else { MS };
        assert!(rows.windows(2).all(|pair| pair[1].t_done_ns == pair[0].t_done_ns + apart_ns));
        assert!(rows.iter().all(|row| row.t_issue_ns < 20 * MS));
    }
    Ok(())
}

// Aggressors, idle tenants, and impossible loads.

#[test]
fn an_aggressor_at_full_dose_keeps_the_device_busy() -> Checked {
    let load =
        LoadSpec::Aggressor { start_ns: 0, end_ns: 20 * MS, dose: 1.0, period_ns: 0, depth: 2 };
    let played = play_with(load, vec![], Script::PLAIN, 2)?;
    let rows = &played.rows;
    assert!(rows.windows(2).all(|pair| pair[1].t_done_ns == pair[0].t_done_ns + MS));
    assert!(rows.windows(2).all(|pair| pair[1].t_issue_ns < pair[0].t_done_ns));
    assert!(rows.iter().all(|row| row.t_issue_ns < 20 * MS && row.phase == Phase::Closed));
    assert!(rows.last().is_some_and(|row| row.t_done_ns >= 20 * MS));
    Ok(())
}

#[test]
fn a_duty_cycle_covers_its_fraction_of_the_time() -> Checked {
    for (dose, depth) in [(0.25, 2), (0.5, 2), (0.75, 3), (0.5, 1)] {
        let load =
            LoadSpec::Aggressor { start_ns: 0, end_ns: 400 * MS, dose, period_ns: 20 * MS, depth };
        let played = play_with(load, vec![], Script::PLAIN, 4)?;
        // Time with outstanding work: the union of [issue, done), with rows in order.
        let (mut busy_ns, mut until_ns) = (0, 0);
        for row in &played.rows {
            busy_ns += row.t_done_ns - row.t_issue_ns.max(until_ns).min(row.t_done_ns);
            until_ns = row.t_done_ns;
        }
        let covered = busy_ns as f64 / (400 * MS) as f64;
        assert!((covered / dose - 1.0).abs() < 0.03, "dose {dose}: covered {covered}");
    }
    Ok(())
}

#[test]
fn a_dose_of_zero_issues_nothing_and_an_idle_tenant_joins_and_leaves() -> Checked {
    let load =
        LoadSpec::Aggressor { start_ns: 0, end_ns: 20 * MS, dose: 0.0, period_ns: MS, depth: 2 };
    assert_eq!(play_with(load, vec![], Script::PLAIN, 2)?.submitted, 0);
    let idle = play_with(LoadSpec::Idle { end_ns: 20 * MS }, vec![], Script::PLAIN, 2)?;
    assert_eq!((idle.submitted, idle.rows.len()), (0, 0));
    Ok(())
}

#[test]
fn impossible_loads_are_refused_before_they_start() {
    let aggressor = |dose, period_ns, depth| LoadSpec::Aggressor {
        start_ns: 0,
        end_ns: MS,
        dose,
        period_ns,
        depth,
    };
    for load in [
        victim(0),
        victim(9),
        aggressor(1.0, 0, 0),
        aggressor(1.0, 0, 9),
        aggressor(1.5, MS, 1),
        aggressor(f64::NAN, MS, 1),
        aggressor(0.5, 0, 1),
    ] {
        let text = format!("{load:?}");
        let refused = play_with(load, vec![], Script::PLAIN, 8);
        assert!(refused.is_err(), "{text} was accepted");
    }
}

// Driver errors that answer a request.

#[test]
fn errors_that_answer_end_nothing_and_do_not_fill_the_log() -> Checked {
    let script = Script { refused: |_| Some(2), ..Script::PLAIN };
    let clock = || FakeClock::new(2, |_| 0);
    let arrivals = || (0..40).map(|n| n * 100_000).collect::<Vec<_>>();
    let played = play_on(clock(), victim(8), arrivals(), script, 8, &[2])?;
    assert_eq!(played.outcome.failure, None);
    let open = of(&played.rows, Phase::Open);
    assert_eq!(open.len(), 40, "every arrival was issued");
    let closed = of(&played.rows, Phase::Closed);
    let LoadSpec::Victim { rate_per_s, .. } = victim(8) else { return Err("a victim".into()) };
    let gap_ns = (1e9 / rate_per_s) as u64;
    assert!(closed.len() > 1, "it continues");
    assert!(closed.windows(2).all(|pair| pair[1].t_issue_ns >= pair[0].t_ret_ns + gap_ns));
    assert!(played.rows.iter().all(|row| (row.status, row.error) == (SampleStatus::Error, 2)));
    // Any other error ends the loop.
    let played = play_on(clock(), victim(8), arrivals(), script, 8, &[3])?;
    assert_eq!(played.outcome.failure.and_then(|failure| failure.code), Some(2));
    Ok(())
}

// Requests that fail or never end.

#[test]
fn requests_that_outlast_the_drain_are_logged_as_unfinished() -> Checked {
    // The third takes 3 s: longer than the drain, shorter than the wait for an idle device after
    // it.
    let script = Script { service_ns: |n| if n == 2 { 3_000 * MS } else { MS }, ..Script::PLAIN };
    let arrivals = vec![MS, 2 * MS, 3 * MS, 4 * MS, 5 * MS];
    let played = play_with(open_only(8), arrivals, script, 8)?;
    let status: Vec<_> = played.rows.iter().map(|row| row.status).collect();
    use SampleStatus::{Ok as Fine, Unfinished};
    assert_eq!(status, [Fine, Fine, Unfinished, Unfinished, Unfinished]);
    assert!(played.rows[2..].iter().all(|row| row.t_done_ns == MISSING && row.gpu_ns == MISSING));
    assert_eq!((played.outcome.unfinished, played.outcome.stuck), (3, false));
    Ok(())
}

#[test]
fn a_request_that_never_ends_leaves_the_tenant_stuck() -> Checked {
    let script = Script { service_ns: |n| if n == 1 { NEVER_NS } else { MS }, ..Script::PLAIN };
    let played = play_with(open_only(8), vec![MS, 2 * MS], script, 8)?;
    assert_eq!(played.rows.len(), 2);
    assert_eq!(played.rows[1].status, SampleStatus::Unfinished);
    assert_eq!((played.outcome.unfinished, played.outcome.stuck), (1, true));
    Ok(())
}

#[test]
fn a_temporary_error_is_a_row_and_a_final_one_ends_the_run() -> Checked {
    let script = Script { refused: |n| (n == 1).then_some(2), ..Script::PLAIN };
    let played = play_with(open_only(8), vec![MS, 3 * MS, 5 * MS], script, 8)?;
    let ended: Vec<_> = played.rows.iter().map(|row| (row.status, row.error)).collect();
    use SampleStatus::{Error, Ok as Fine};
    assert_eq!(ended, [(Fine, 0), (Error, 2), (Fine, 0)]);
    assert_eq!(played.rows[1].t_done_ns, MISSING);
    assert_eq!(played.outcome.failure, None);

    let script = Script { ends_badly: |n| (n >= 1).then_some(700), ..Script::PLAIN };
    let played = play_with(open_only(8), vec![MS, 3 * MS, 5 * MS, 7 * MS], script, 8)?;
    assert_eq!(played.submitted, 2, "nothing is issued after a final error");
    assert_eq!((played.rows[1].status, played.rows[1].error), (Error, 700));
    assert_eq!(played.rows[1].t_done_ns, 34 * MS + 5_000, "the instant of the error");
    assert_eq!(played.outcome.failure.and_then(|failure| failure.code), Some(700));
    Ok(())
}

#[test]
fn repeated_errors_end_the_closed_loop() -> Checked {
    let script = Script { refused: |_| Some(2), ..Script::PLAIN };
    let played = play_with(victim(8), vec![MS], script, 8)?;
    assert_eq!(played.rows.len() as u32, ERRORS_IN_A_ROW_MAX);
    assert_eq!(played.outcome.failure.and_then(|failure| failure.code), Some(2));
    Ok(())
}

// Lost CPU time: what counts as a gap, and in which loop.

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
    let played = play_on(clock, victim(8), arrivals, SLOW_POLLS, 8, &[])?;
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
    let played = play_on(clock, open_only(8), vec![MS, 2 * MS], Script::PLAIN, 8, &[])?;
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

// Late requests: lateness of the system under test, and of the harness.

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
    let played = play_on(clock, open_only(8), arrivals, script, 8, &[])?;
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
