//! The guard: how long before an instant the wall clock stops sleeping and starts to spin.
//!
//! How late a sleeping thread wakes depends on the machine, so it is measured on the thread: the
//! guard starts at twice the 99th percentile of measured wake-ups. Later conditions differ, because
//! an idle machine sleeps more deeply than one that has just started processes. The guard therefore
//! adapts: it doubles when a sleep ends after its instant, and shrinks slowly while sleeps end in
//! time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum guard: a short measurement misses rare late wake-ups.
pub(super) const GUARD_NS_MIN: u64 = 100_000;

/// Maximum of the measured guard: on a busy machine a longer spin would waste a core.
pub(super) const GUARD_NS_MAX: u64 = 2_000_000;

/// Wake-ups measured for one guard.
pub(super) const WAKES: usize = 200;

/// Length of the measured sleeps: that between requests at 1 kHz. A processor that is idle for
/// longer sleeps more deeply and wakes later (a guest of a hypervisor polls for
/// `guest_halt_poll_ns`, 200 us, before it halts: the kernel's
/// Documentation/virt/guest-halt-polling.rst), so short sleeps alone would give too short a guard.
pub(super) const WAKES_AHEAD_NS: [u64; 5] = [150_000, 300_000, 600_000, 1_200_000, 2_400_000];

/// Number of punctual sleeps in which the guard loses about two thirds of its growth. In the long
/// run one sleep in a thousand then ends too late, a tenth of what the 99th percentile hides.
const PUNCTUAL_SLEEPS: u64 = 1_024;

/// The current guard of one clock, shared by its threads.
#[derive(Debug)]
pub(super) struct Guard {
    now_ns: AtomicU64,
    measured_ns: AtomicU64,
    ceiling_ns: AtomicU64,
}

impl Guard {
    /// The minimum guard, until it is measured.
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

    /// Starts again with a measured guard.
    pub(super) fn set_measured(&self, guard_ns: u64) {
        self.measured_ns.store(guard_ns, Ordering::Relaxed);
        self.now_ns.store(guard_ns, Ordering::Relaxed);
    }

    /// Limits its growth; a longer measured guard stays.
    pub(super) fn set_ceiling(&self, ceiling_ns: u64) {
        self.ceiling_ns.store(ceiling_ns, Ordering::Relaxed);
    }

    /// Adapts the guard to one sleep, which ended after its instant or not.
    pub(super) fn adapt(&self, overslept: bool) {
        let next_ns = next_ns(
            self.ns(),
            self.measured_ns.load(Ordering::Relaxed),
            self.ceiling_ns.load(Ordering::Relaxed),
            overslept,
        );
        self.now_ns.store(next_ns, Ordering::Relaxed);
    }
}

/// The guard after one sleep with guard `now_ns`.
fn next_ns(now_ns: u64, measured_ns: u64, ceiling_ns: u64, overslept: bool) -> u64 {
    if overslept {
        now_ns.saturating_mul(2).min(ceiling_ns.min(GUARD_NS_MAX)).max(now_ns)
    } else {
        now_ns - now_ns.saturating_sub(measured_ns).div_ceil(PUNCTUAL_SLEEPS)
    }
}

/// The guard for these measured lateness figures.
pub(super) fn guard_ns(late_ns: &mut [u64]) -> u64 {
    late_ns.sort_unstable();
    // Nearest rank: the smallest figure that is not below 99 % of all.
    let rank = (late_ns.len() * 99).div_ceil(100);
    let p99_ns = rank.checked_sub(1).and_then(|at| late_ns.get(at)).copied().unwrap_or(0);
    // Without a figure the smallest guard holds.
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
    fn it_doubles_up_to_its_ceiling_and_the_ceiling_never_shrinks_it() {
        let us = |us: u64| us * 1_000;
        assert_eq!(next_ns(us(120), us(120), us(500), true), us(240));
        assert_eq!(next_ns(us(400), us(120), us(500), true), us(500));
        assert_eq!(next_ns(us(600), us(600), us(500), true), us(600));
        assert_eq!(next_ns(us(1_500), us(120), u64::MAX, true), GUARD_NS_MAX);
    }

    #[test]
    fn it_shrinks_to_the_measured_guard_and_no_further() {
        let guard = Guard::new();
        guard.set_measured(120_000);
        guard.adapt(true);
        guard.adapt(true);
        assert_eq!(guard.ns(), 480_000);
        for _ in 0..PUNCTUAL_SLEEPS {
            guard.adapt(false);
        }
        // A little more than a third of the growth of 360 us is left.
        assert!((240_000..270_000).contains(&guard.ns()), "{}", guard.ns());
        for _ in 0..20 * PUNCTUAL_SLEEPS {
            guard.adapt(false);
        }
        assert_eq!(guard.ns(), 120_000);
    }

    #[test]
    fn one_outlier_in_two_hundred_is_ignored() {
        let mut late = vec![60_000; 199];
        late.push(5_000_000);
        assert_eq!(guard_ns(&mut late), 120_000);
    }
}
