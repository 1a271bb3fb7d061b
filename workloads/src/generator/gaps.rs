//! Counts the time in which a thread of the generator did not run although nothing blocked it.
//!
//! A thread that lost its core makes a request late and looks like a slow device. Its loop stamps
//! every iteration, and two stamps further apart than an iteration takes are a gap. Calls that may
//! block (submission, sleep, park) lie outside: the loop stamps their end without counting. A poll
//! in which the driver waited for a lock is no gap either; the kernel's counts of switches tell.

use gpubench_record::{CpuGaps, Gaps, Phase, PhaseGaps};

use super::{DeviceError, Reap};
use crate::clock::Time;
use crate::clock::thread::Switches;

/// Shortest gap. An iteration takes less, a switch to another thread and back takes longer.
pub(super) const GAP_NS_MIN: u64 = 5_000;

/// The gaps of one thread. Instants are nanoseconds since the common start.
pub(super) struct GapCounter<'t> {
    time: &'t dyn Time,
    /// The thread's switches when they were last read.
    switches: Option<Switches>,
    /// The last iteration; `None` while the thread is blocked.
    last_ns: Option<u64>,
    phase: Option<Phase>,
    closed: Gaps,
    open: Gaps,
    sparse: Gaps,
    /// The gaps counted since a poll last found its request running: by as much at most the stamp
    /// of the next end is late.
    unseen_ns: u64,
    late_ends: Gaps,
}

impl<'t> GapCounter<'t> {
    /// A counter for the calling thread, if gaps are counted: on the wall clock, where it polls.
    pub(super) fn new(time: &'t dyn Time, reap: &dyn Reap) -> Option<Self> {
        (time.is_wall() && reap.polls()).then(|| Self {
            time,
            switches: None,
            last_ns: None,
            phase: None,
            closed: Gaps::default(),
            open: Gaps::default(),
            sparse: Gaps::default(),
            unseen_ns: 0,
            late_ends: Gaps::default(),
        })
    }

    /// Later gaps belong to this phase.
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = Some(phase);
    }

    /// An iteration of the loop; counts the time since the last one, if that is a gap.
    #[inline]
    pub(super) fn tick(&mut self, now_ns: u64) {
        match self.last_ns.replace(now_ns) {
            Some(last_ns) => {
                let gap_ns = now_ns.saturating_sub(last_ns);
                if gap_ns > GAP_NS_MIN {
                    self.count(gap_ns);
                }
            }
            None => self.switches = self.time.switches(),
        }
    }

    /// A call that may have blocked has returned.
    #[inline]
    pub(super) fn resume(&mut self, now_ns: u64) {
        self.last_ns = Some(now_ns);
    }

    /// A call that may block follows.
    #[inline]
    pub(super) fn block(&mut self) {
        self.last_ns = None;
    }

    /// The gaps of the thread that submits requests, by phase.
    pub(super) fn of_issuer(&self) -> CpuGaps {
        let of = |issuer| PhaseGaps { issuer, reaper: None, late_ends: None };
        let sparse = PhaseGaps { late_ends: Some(self.late_ends), ..of(self.sparse) };
        let sparse = (self.sparse.gaps > 0).then_some(sparse);
        CpuGaps { closed: of(self.closed), open: of(self.open), sparse }
    }

    /// The gaps of the thread that waits for the requests of the open loop.
    pub(super) fn of_reaper(&self) -> Gaps {
        self.open
    }

    /// Requests of the open loop or of the sparse phase whose end can be stamped late because of a
    /// gap, each with the largest possible delay.
    pub(super) fn late_ends(&self) -> Gaps {
        self.late_ends
    }

    /// A poll found its request running. `since_ns` passed between that observation and its stamp.
    fn running(&mut self, since_ns: u64) {
        self.unseen_ns = since_ns;
    }

    /// A poll found the end of its request. Requests end in order, so a gap can have hidden this
    /// end and those of the requests that the next polls find ended too.
    fn ended(&mut self) {
        let counts = matches!(self.phase, Some(Phase::Open | Phase::Sparse));
        if self.unseen_ns > 0 && counts {
            self.late_ends.add(self.unseen_ns);
        }
    }

    /// Counts a gap, unless the thread waited for something and for nothing else: then the driver
    /// blocked it. Where the kernel ran another thread too, the whole gap counts.
    #[cold]
    fn count(&mut self, gap_ns: u64) {
        let (before, now) = (self.switches, self.time.switches());
        self.switches = now;
        if let (Some(before), Some(now)) = (before, now)
            && now.voluntary > before.voluntary
            && now.involuntary == before.involuntary
        {
            return;
        }
        let gaps = match self.phase {
            Some(Phase::Closed) => &mut self.closed,
            Some(Phase::Open) => &mut self.open,
            Some(Phase::Sparse) => &mut self.sparse,
            Some(Phase::Warmup | Phase::Drain) | None => return,
        };
        gaps.add(gap_ns);
        self.unseen_ns += gap_ns;
    }
}

/// Polls until the request of this pair ends. Returns how it ended, and when.
///
/// A thread that was woken for the request may have been woken late. That is a gap since
/// `submitted_ns` where the first poll finds the request ended, because then the wait for the core
/// may have made its stamp late; a wake-up while the request runs delays nothing.
pub(super) fn poll(
    slot: usize,
    submitted_ns: u64,
    reap: &dyn Reap,
    now_ns: impl Fn() -> u64,
    gaps: &mut GapCounter<'_>,
) -> (Result<(), DeviceError>, u64) {
    let mut woken = gaps.last_ns.is_none();
    loop {
        let answer = reap.is_done(slot);
        let polled_ns = now_ns();
        if std::mem::take(&mut woken) {
            gaps.tick(if matches!(answer, Ok(false)) { polled_ns } else { submitted_ns });
        }
        let before_ns = gaps.unseen_ns;
        gaps.tick(polled_ns);
        match answer {
            Ok(false) => {
                gaps.running(gaps.unseen_ns - before_ns);
                std::hint::spin_loop();
            }
            Ok(true) => {
                gaps.ended();
                return (Ok(()), polled_ns);
            }
            Err(error) => {
                gaps.ended();
                return (Err(error), polled_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::clock::tests::Still;

    fn switch(host: &Still, voluntary: i64, involuntary: i64) {
        let mut switches = host.switched.lock().expect("no test panicked");
        switches.voluntary += voluntary;
        switches.involuntary += involuntary;
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

    fn counter(host: &Still, phase: Phase) -> GapCounter<'_> {
        let device = Polled(AtomicU64::new(0));
        let mut counter = GapCounter::new(host, &device).expect("a counter");
        counter.enter(phase);
        counter
    }

    #[test]
    fn only_long_times_between_two_iterations_count() {
        let host = Still::default();
        let mut counter = counter(&host, Phase::Closed);
        counter.tick(1_000_000);
        counter.tick(1_005_000);
        assert_eq!(counter.of_issuer().closed.issuer, Gaps::default(), "5 us are no gap");
        counter.tick(1_010_001);
        counter.tick(1_030_001);
        let expected = Gaps { gaps: 2, gap_ns_sum: 25_001, gap_ns_max: 20_000, long: None };
        let found = (counter.of_issuer().closed.issuer, counter.of_reaper());
        assert_eq!(found, (expected, Gaps::default()));
        // A call that blocked for a second lies between.
        counter.resume(2_000_000_000);
        counter.tick(2_000_000_100);
        counter.block();
        counter.tick(3_000_000_000);
        let found = (counter.of_issuer().closed.issuer, counter.of_reaper());
        assert_eq!(found, (expected, Gaps::default()));
        counter.enter(Phase::Open);
        counter.tick(3_000_009_000);
        assert_eq!(counter.of_reaper().gap_ns_sum, 9_000);
        counter.enter(Phase::Drain);
        counter.tick(4_000_000_000);
        assert_eq!(counter.of_reaper().gap_ns_sum, 9_000);
    }

    #[test]
    fn a_wait_for_the_driver_is_no_gap_and_a_lost_core_is() {
        let host = Still::default();
        let mut counter = counter(&host, Phase::Closed);
        // (voluntary and involuntary switches in 10 us, whether these are a gap)
        let cases = [(0, 0, 1), (1, 0, 0), (0, 1, 1), (2, 1, 1), (3, 0, 0)];
        counter.tick(0);
        let mut expected = 0;
        for (number, (voluntary, involuntary, gaps)) in (1..).zip(cases) {
            switch(&host, voluntary, involuntary);
            counter.tick(10_000 * number);
            expected += gaps;
            assert_eq!(counter.of_issuer().closed.issuer.gaps, expected, "case {number}");
        }
    }

    /// Polls after a park at the given instants, for a request submitted at 0.
    fn polled_at(instants_ns: &[u64]) -> (u64, u64) {
        let host = Still::default();
        let mut counter = counter(&host, Phase::Open);
        counter.tick(0);
        counter.block();
        // The park.
        switch(&host, 1, 0);
        let device = Polled(AtomicU64::new(instants_ns.len() as u64));
        let next = Cell::new(0);
        let now_ns = || instants_ns[next.replace(next.get() + 1)];
        let (_, done_ns) = poll(0, 0, &device, now_ns, &mut counter);
        (done_ns, counter.of_reaper().gap_ns_sum)
    }

    #[test]
    fn a_late_wake_up_counts_where_the_request_has_ended() {
        assert_eq!(polled_at(&[50_000]), (50_000, 50_000));
        assert_eq!(polled_at(&[50_000, 51_000]), (51_000, 0));
        assert_eq!(polled_at(&[50_000, 51_000, 71_000]), (71_000, 20_000));
    }

    /// Requests of which each is polled at these instants, the last of which finds it ended.
    fn late_ends(requests: &[&[u64]]) -> Gaps {
        let [open, sparse] = [Phase::Open, Phase::Sparse].map(|phase| late_in(phase, requests));
        let of_issuer = sparse.of_issuer().sparse.and_then(|sparse| sparse.late_ends);
        assert_eq!(of_issuer.unwrap_or_default(), open.late_ends());
        open.late_ends()
    }

    fn late_in(phase: Phase, requests: &[&[u64]]) -> GapCounter<'static> {
        let host = Box::leak(Box::new(Still::default()));
        let mut counter = counter(host, phase);
        counter.tick(0);
        for instants_ns in requests {
            let device = Polled(AtomicU64::new(instants_ns.len() as u64));
            let next = Cell::new(0);
            let now_ns = || instants_ns[next.replace(next.get() + 1)];
            poll(0, 0, &device, now_ns, &mut counter).0.expect("an end");
        }
        counter
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
}
