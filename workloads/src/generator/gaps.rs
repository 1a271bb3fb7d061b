//! Counts the time in which a thread of the generator did not run although nothing blocked it.
//!
//! A thread that lost its core makes a request late and looks like a slow device. Its loop stamps
//! every iteration, and two stamps further apart than an iteration takes are a gap. Calls that may
//! block (submission, sleep, park) lie outside: the loop stamps their end without counting. A poll
//! in which the driver waited for a lock is no gap either; the kernel's counts of switches tell.

#[cfg(test)]
mod tests;

use gpubench_record::{Gaps, Phase};

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

    /// The gaps of the closed loop and of the open loop.
    pub(super) fn counted(&self) -> (Gaps, Gaps) {
        (self.closed, self.open)
    }

    /// Requests of the open loop whose end can be stamped late because of a gap, each with the
    /// largest possible delay.
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
        if self.unseen_ns > 0 && self.phase == Some(Phase::Open) {
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
