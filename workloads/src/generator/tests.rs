//! The generator against the fake clock and device: every figure is exact.

use gpubench_record::sample::MISSING;
use gpubench_record::{Phase, SampleRow, SampleStatus};

use super::fake::FakeClock;
use super::fake_device::{FakeDevice, NEVER_NS, Script};
use super::*;
use crate::log::read_log;

mod aggressor;
mod answers;
mod failures;
mod gaps;
mod lateness;

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
    play_on(FakeClock::new(2, |_| 0), load, arrivals_ns, script, slots)
}

fn play_on(
    clock: Arc<FakeClock>,
    load: LoadSpec,
    arrivals_ns: Vec<u64>,
    script: Script,
    slots: usize,
) -> Result<Played, Box<dyn std::error::Error>> {
    play_answering(clock, load, arrivals_ns, script, slots, &[])
}

fn play_answering(
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
    match victim(outstanding_max) {
        LoadSpec::Victim { open_start_ns, open_end_ns, rate_per_s, bursts, seed, .. } => {
            LoadSpec::Victim {
                warmup_end_ns: 0,
                closed_end_ns: 0,
                open_start_ns,
                open_end_ns,
                rate_per_s,
                bursts,
                seed,
                outstanding_max,
            }
        }
        other => other,
    }
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
fn the_schedule_is_issued_in_full_and_deterministically() -> Checked {
    let arrivals = gpubench_stats::poisson_schedule_ns(400.0, 30 * MS, 9)?;
    let script = Script { service_ns: |n| 500_000 + n % 7 * 90_000, ..Script::PLAIN };
    let first = play_with(victim(64), arrivals.clone(), script, 64)?;
    let second = play_with(victim(64), arrivals.clone(), script, 64)?;
    assert_eq!(first.rows, second.rows);
    let sched: Vec<_> =
        of(&first.rows, Phase::Open).iter().map(|row| row.t_sched_ns - 30 * MS).collect();
    assert_eq!(sched, arrivals);
    Ok(())
}
