//! Counts the time in which a thread of the generator did not run although nothing blocked it.
//!
//! A thread that lost its core makes a request late and looks like a slow device. Its loop stamps
//! every iteration, and two stamps further apart than an iteration takes are a gap. Calls that may
//! block (submission, sleep, park) lie outside: the loop stamps their end without counting.

use gpubench_record::{Gaps, Phase};

use super::{DeviceError, Reap};
use crate::clock::Time;

/// Shortest gap. An iteration takes less, a switch to another thread and back takes longer.
pub(super) const GAP_NS_MIN: u64 = 5_000;

/// The gaps of one thread. Instants are nanoseconds since the common start.
#[derive(Debug, Default)]
pub(super) struct GapCounter {
    /// The last iteration; `None` while the thread is blocked.
    last_ns: Option<u64>,
    phase: Option<Phase>,
    closed: Gaps,
    open: Gaps,
}

impl GapCounter {
    /// Later gaps belong to this phase.
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = Some(phase);
    }

    /// An iteration of the loop; counts the time since the last one, if that is a gap.
    #[inline]
    pub(super) fn tick(&mut self, now_ns: u64) {
        if let Some(last_ns) = self.last_ns.replace(now_ns) {
            let gap_ns = now_ns.saturating_sub(last_ns);
            if gap_ns > GAP_NS_MIN {
                self.count(gap_ns);
            }
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

    /// The gaps of the closed loop and of the open loop.
    pub(super) fn counted(&self) -> (Gaps, Gaps) {
        (self.closed, self.open)
    }

    #[cold]
    fn count(&mut self, gap_ns: u64) {
        let gaps = match self.phase {
            Some(Phase::Closed) => &mut self.closed,
            Some(Phase::Open) => &mut self.open,
            Some(Phase::Warmup | Phase::Drain) | None => return,
        };
        gaps.gaps += 1;
        gaps.gap_ns_sum += gap_ns;
        gaps.gap_ns_max = gaps.gap_ns_max.max(gap_ns);
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
    gaps: &mut GapCounter,
) -> (Result<(), DeviceError>, u64) {
    let mut woken = gaps.last_ns.is_none();
    loop {
        let answer = reap.is_done(slot);
        let polled_ns = now_ns();
        if std::mem::take(&mut woken) && !matches!(answer, Ok(false)) {
            gaps.resume(submitted_ns);
        }
        gaps.tick(polled_ns);
        match answer {
            Ok(false) => std::hint::spin_loop(),
            Ok(true) => return (Ok(()), polled_ns),
            Err(error) => return (Err(error), polled_ns),
        }
    }
}

/// Whether the threads of a run count gaps: on the wall clock, where they poll.
pub(super) fn are_counted(time: &dyn Time, reap: &dyn Reap) -> bool {
    time.is_wall() && reap.polls()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn counter(phase: Phase) -> GapCounter {
        let mut counter = GapCounter::default();
        counter.enter(phase);
        counter
    }

    #[test]
    fn only_long_times_between_two_iterations_count() {
        let mut counter = counter(Phase::Closed);
        counter.tick(1_000_000);
        counter.tick(1_005_000);
        assert_eq!(counter.counted().0, Gaps::default(), "5 us are no gap");
        counter.tick(1_010_001);
        counter.tick(1_030_001);
        let expected = Gaps {
            gaps: 2,
            gap_ns_sum: 25_001,
            gap_ns_max: 20_000,
        };
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

    /// A device whose requests end at the n-th poll.
    struct Polled(AtomicU64);

    impl Reap for Polled {
        fn enter_thread(&self) -> Result<(), DeviceError> {
            Ok(())
        }
        fn wait(&self, _slot: usize) -> Result<(), DeviceError> {
            Ok(())
        }
        fn is_done(&self, _slot: usize) -> Result<bool, DeviceError> {
            Ok(self.0.fetch_sub(1, Ordering::Relaxed) == 1)
        }
        fn gpu_ns(&self, _slot: usize) -> Result<u64, DeviceError> {
            Ok(0)
        }
    }

    /// Polls after a park at the given instants, for a request submitted at 0.
    fn polled_at(instants_ns: &[u64]) -> (u64, u64) {
        let device = Polled(AtomicU64::new(instants_ns.len() as u64));
        let next = AtomicU64::new(0);
        let now_ns = || instants_ns[next.fetch_add(1, Ordering::Relaxed) as usize];
        let mut counter = counter(Phase::Open);
        let (_, done_ns) = poll(0, 0, &device, now_ns, &mut counter);
        (done_ns, counter.counted().1.gap_ns_sum)
    }

    #[test]
    fn a_late_wake_up_counts_where_the_request_has_ended() {
        assert_eq!(polled_at(&[50_000]), (50_000, 50_000));
        assert_eq!(polled_at(&[50_000, 51_000]), (51_000, 0));
        assert_eq!(polled_at(&[50_000, 51_000, 71_000]), (71_000, 20_000));
    }
}
