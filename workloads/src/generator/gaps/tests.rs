//! The gap counter on a clock and a device of the test.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::clock::ClockError;

/// A clock that passes for the wall clock, with these switches.
#[derive(Default)]
struct Host(Mutex<Switches>);

impl Host {
    fn switch(&self, voluntary: i64, involuntary: i64) {
        let mut switches = self.0.lock().expect("no test panicked");
        switches.voluntary += voluntary;
        switches.involuntary += involuntary;
    }
}

impl Time for Host {
    fn now_ns(&self) -> u64 {
        0
    }
    fn is_wall(&self) -> bool {
        true
    }
    fn switches(&self) -> Option<Switches> {
        Some(*self.0.lock().expect("no test panicked"))
    }
    fn sleep_until(&self, _t_ns: u64) -> Result<(), ClockError> {
        Ok(())
    }
    fn join(&self, _me: u32) -> Result<(), ClockError> {
        Ok(())
    }
    fn leave(&self, _me: u32) -> Result<(), ClockError> {
        Ok(())
    }
    fn park(&self, _me: u32) -> Result<(), ClockError> {
        Ok(())
    }
    fn unpark(&self, _whom: u32) -> Result<(), ClockError> {
        Ok(())
    }
}

/// A device whose requests end at the n-th poll.
struct Polled(AtomicU64);

impl Reap for Polled {
    fn enter_thread(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn wait(&self, _slot: usize) -> Result<(), DeviceError> {
        Ok(())
    }
    fn polls(&self) -> bool {
        true
    }
    fn is_done(&self, _slot: usize) -> Result<bool, DeviceError> {
        Ok(self.0.fetch_sub(1, Ordering::Relaxed) == 1)
    }
    fn gpu_ns(&self, _slot: usize) -> Result<u64, DeviceError> {
        Ok(0)
    }
}

fn counter(host: &Host, phase: Phase) -> GapCounter<'_> {
    let device = Polled(AtomicU64::new(0));
    let mut counter = GapCounter::new(host, &device).expect("a counter");
    counter.enter(phase);
    counter
}

#[test]
fn only_long_times_between_two_iterations_count() {
    let host = Host::default();
    let mut counter = counter(&host, Phase::Closed);
    counter.tick(1_000_000);
    counter.tick(1_005_000);
    assert_eq!(counter.counted().0, Gaps::default(), "5 us are no gap");
    counter.tick(1_010_001);
    counter.tick(1_030_001);
    let expected = Gaps { gaps: 2, gap_ns_sum: 25_001, gap_ns_max: 20_000, long: None };
    assert_eq!(counter.counted(), (expected, Gaps::default()));
    // A call that blocked for a second lies between.
    counter.resume(2_000_000_000);
    counter.tick(2_000_000_100);
    counter.block();
    counter.tick(3_000_000_000);
    assert_eq!(counter.counted(), (expected, Gaps::default()));
    counter.enter(Phase::Open);
    counter.tick(3_000_009_000);
    assert_eq!(counter.counted().1.gap_ns_sum, 9_000);
    counter.enter(Phase::Drain);
    counter.tick(4_000_000_000);
    assert_eq!(counter.counted().1.gap_ns_sum, 9_000);
}

#[test]
fn a_wait_for_the_driver_is_no_gap_and_a_lost_core_is() {
    let host = Host::default();
    let mut counter = counter(&host, Phase::Closed);
    // (voluntary and involuntary switches in 10 us, whether these are a gap)
    let cases = [(0, 0, 1), (1, 0, 0), (0, 1, 1), (2, 1, 1), (3, 0, 0)];
    counter.tick(0);
    let mut expected = 0;
    for (number, (voluntary, involuntary, gaps)) in (1..).zip(cases) {
        host.switch(voluntary, involuntary);
        counter.tick(10_000 * number);
        expected += gaps;
        assert_eq!(counter.counted().0.gaps, expected, "case {number}");
    }
}

/// Polls after a park at the given instants, for a request submitted at 0.
fn polled_at(instants_ns: &[u64]) -> (u64, u64) {
    let host = Host::default();
    let mut counter = counter(&host, Phase::Open);
    counter.tick(0);
    counter.block();
    // The park.
    host.switch(1, 0);
    let device = Polled(AtomicU64::new(instants_ns.len() as u64));
    let next = Cell::new(0);
    let now_ns = || instants_ns[next.replace(next.get() + 1)];
    let (_, done_ns) = poll(0, 0, &device, now_ns, &mut counter);
    (done_ns, counter.counted().1.gap_ns_sum)
}

#[test]
fn a_late_wake_up_counts_where_the_request_has_ended() {
    assert_eq!(polled_at(&[50_000]), (50_000, 50_000));
    assert_eq!(polled_at(&[50_000, 51_000]), (51_000, 0));
    assert_eq!(polled_at(&[50_000, 51_000, 71_000]), (71_000, 20_000));
}

/// Requests of which each is polled at these instants, the last of which finds it ended.
fn late_ends(requests: &[&[u64]]) -> Gaps {
    let host = Host::default();
    let mut counter = counter(&host, Phase::Open);
    counter.tick(0);
    for instants_ns in requests {
        let device = Polled(AtomicU64::new(instants_ns.len() as u64));
        let next = Cell::new(0);
        let now_ns = || instants_ns[next.replace(next.get() + 1)];
        poll(0, 0, &device, now_ns, &mut counter).0.expect("an end");
    }
    counter.late_ends()
}

#[test]
fn an_end_is_late_by_the_gaps_since_a_request_was_seen_running() {
    let late = |requests: &[&[u64]]| {
        let late = late_ends(requests);
        (late.gaps, late.gap_ns_sum, late.gap_ns_max)
    };
    assert_eq!(late(&[&[1_000, 2_000]]), (0, 0, 0));
    // A gap of 20 us before the poll that finds the end.
    assert_eq!(late(&[&[1_000, 21_000]]), (1, 20_000, 20_000));
    // The request was seen running after the gap, but the gap may lie before the stamp.
    assert_eq!(late(&[&[1_000, 21_000, 22_000]]), (1, 20_000, 20_000));
    assert_eq!(late(&[&[1_000, 21_000, 22_000, 23_000]]), (0, 0, 0));
    // The next request ended in the same gap, the third was seen running.
    let three: [&[u64]; 3] = [&[1_000, 21_000], &[22_000], &[23_000, 24_000]];
    assert_eq!(late(&three), (2, 40_000, 20_000));
}
