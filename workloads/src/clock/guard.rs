//! How long before an instant the wall clock stops sleeping and starts to spin.
//!
//! A sleeping thread wakes late by an amount that belongs to the machine, so the amount is measured
//! where the thread runs: the guard begins at twice the 99th percentile of measured wake-ups. That
//! was a moment ago, and an idle machine falls into a deeper sleep than one that has just started
//! processes, so the guard follows: it doubles when a sleep ended after its instant, and comes
//! slowly back while sleeps end in time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Never less than this: a short measurement misses rare late wake-ups.
pub(super) const GUARD_NS_MIN: u64 = 100_000;

/// Never more than this: a longer spin would be a core burnt on a machine that is merely busy.
pub(super) const GUARD_NS_MAX: u64 = 2_000_000;

/// Wake-ups measured for one guard.
pub(super) const WAKES: usize = 200;

/// How far ahead they are slept, one after the other: as long as a thread sleeps between requests
/// at 1 kHz. A processor that is idle for longer sleeps deeper and wakes later (a guest of a
/// hypervisor polls for `guest_halt_poll_ns`, 200 us, before it halts: the kernel's
/// Documentation/virt/guest-halt-polling.rst), so that short sleeps alone ask for too short a
/// guard.
pub(super) const WAKES_AHEAD_NS: [u64; 5] = [150_000, 300_000, 600_000, 1_200_000, 2_400_000];

/// In how many punctual sleeps the guard comes back by about two thirds of what it grew. One sleep
/// in a thousand may then end too late for good, a tenth of what the 99th percentile hides.
const PUNCTUAL_SLEEPS: u64 = 1_024;

/// The guard of one clock, as it is now. Threads that share a clock share what they learn.
#[derive(Debug)]
pub(super) struct Guard {
    now_ns: AtomicU64,
    measured_ns: AtomicU64,
    ceiling_ns: AtomicU64,
}

impl Guard {
    /// The smallest, until it is measured.
    pub(super) fn new() -> Self {
        Self {
            now_ns: AtomicU64::new(GUARD_NS_MIN),
            measured_ns: AtomicU64::new(GUARD_NS_MIN),
            ceiling_ns: AtomicU64::new(GUARD_NS_MAX),
        }
    }

    pub(super) fn ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Begins anew with a measured one.
    pub(super) fn set_measured(&self, guard_ns: u64) {
        self.measured_ns.store(guard_ns, Ordering::Relaxed);
        self.now_ns.store(guard_ns, Ordering::Relaxed);
    }

    /// How far it may grow; a measured one that is longer stays.
    pub(super) fn set_ceiling(&self, ceiling_ns: u64) {
        self.ceiling_ns.store(ceiling_ns, Ordering::Relaxed);
    }

    /// Learns from one sleep: whether it ended after the instant that it was to end before.
    pub(super) fn learn(&self, overslept: bool) {
        let next_ns = next_ns(
            self.ns(),
            self.measured_ns.load(Ordering::Relaxed),
            self.ceiling_ns.load(Ordering::Relaxed),
            overslept,
        );
        self.now_ns.store(next_ns, Ordering::Relaxed);
    }
}

/// The guard after one sleep with this one.
fn next_ns(now_ns: u64, measured_ns: u64, ceiling_ns: u64, overslept: bool) -> u64 {
    if overslept {
        now_ns
            .saturating_mul(2)
            .min(ceiling_ns.min(GUARD_NS_MAX))
            .max(now_ns)
    } else {
        now_ns - now_ns.saturating_sub(measured_ns).div_ceil(PUNCTUAL_SLEEPS)
    }
}

/// The guard that these measured lateness figures ask for.
pub(super) fn guard_ns(late_ns: &mut [u64]) -> u64 {
    late_ns.sort_unstable();
    // Nearest rank: the smallest figure that at least 99 % of all do not exceed.
    let rank = (late_ns.len() * 99).div_ceil(100);
    let p99_ns = rank
        .checked_sub(1)
        .and_then(|at| late_ns.get(at))
        .copied()
        .unwrap_or(0);
    p99_ns.saturating_mul(2).clamp(GUARD_NS_MIN, GUARD_NS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_99th_percentile_within_its_bounds() {
        let mut late: Vec<u64> = (1..=200).map(|us| us * 1_000).collect();
        assert_eq!(guard_ns(&mut late), 2 * 198_000);
        assert_eq!(guard_ns(&mut [1_000; 200]), GUARD_NS_MIN);
        assert_eq!(guard_ns(&mut [900_000_000; 200]), GUARD_NS_MAX);
        assert_eq!(guard_ns(&mut []), GUARD_NS_MIN);
    }

    #[test]
    fn it_doubles_up_to_its_ceiling_and_never_shrinks_by_it() {
        let us = |us: u64| us * 1_000;
        assert_eq!(next_ns(us(120), us(120), us(500), true), us(240));
        assert_eq!(next_ns(us(400), us(120), us(500), true), us(500));
        assert_eq!(next_ns(us(600), us(600), us(500), true), us(600));
        assert_eq!(next_ns(us(1_500), us(120), u64::MAX, true), GUARD_NS_MAX);
    }

    #[test]
    fn it_comes_back_to_what_was_measured_and_no_further() {
        let guard = Guard::new();
        guard.set_measured(120_000);
        guard.learn(true);
        guard.learn(true);
        assert_eq!(guard.ns(), 480_000);
        for _ in 0..PUNCTUAL_SLEEPS {
            guard.learn(false);
        }
        // A third and a little is left of the 360 us that it grew.
        assert!((240_000..270_000).contains(&guard.ns()), "{}", guard.ns());
        for _ in 0..20 * PUNCTUAL_SLEEPS {
            guard.learn(false);
        }
        assert_eq!(guard.ns(), 120_000);
    }

    #[test]
    fn one_outlier_in_two_hundred_does_not_decide() {
        let mut late = vec![60_000; 199];
        late.push(5_000_000);
        assert_eq!(guard_ns(&mut late), 120_000);
    }
}
