//! How long before an instant the wall clock stops sleeping and starts to spin.
//!
//! A sleeping thread wakes late by an amount that belongs to the machine, so the amount is measured
//! where the thread runs: the guard is twice the 99th percentile of measured wake-ups.

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
    fn one_outlier_in_two_hundred_does_not_decide() {
        let mut late = vec![60_000; 199];
        late.push(5_000_000);
        assert_eq!(guard_ns(&mut late), 120_000);
    }
}
