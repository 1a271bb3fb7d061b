//! The wall clock: CLOCK_MONOTONIC, a sleep that ends in a spin, tokens between threads.
//!
//! Sleeping with `clock_nanosleep` up to the guard and spinning from there was within 7 us of the
//! instant at the 99th percentile, where a plain sleep was 370 us late.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::io::retry_on_intr;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::thread::{Cores, ReaperCores, Switches};
use super::{ClockError, Time, Token, thread};

#[derive(Debug)]
pub struct WallClock {
    guard: Guard,
    tokens: RwLock<BTreeMap<u32, Arc<Token>>>,
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

impl WallClock {
    /// A clock with the minimum guard; [`WallClock::measure_guard`] adjusts it to the machine.
    pub fn new() -> Self {
        Self { guard: Guard::new(), tokens: RwLock::new(BTreeMap::new()) }
    }

    /// How long before an instant sleeping now turns into spinning.
    pub fn guard_ns(&self) -> u64 {
        self.guard.ns()
    }

    /// Limits the growth of the guard, so that a real-time thread that waits at this rate spins
    /// less than the kernel's limit.
    pub fn limit_guard(&self, rate_per_s: f64) {
        let ceiling_ns = if thread::fifo_is_unthrottled() {
            GUARD_NS_MAX
        } else {
            (thread::FIFO_BUSY_MAX / rate_per_s * 1e9) as u64
        };
        self.guard.set_ceiling(ceiling_ns);
    }

    /// Measures how late this thread wakes and sets the guard accordingly.
    pub fn measure_guard(&self) -> Result<u64, ClockError> {
        thread::set_timer_slack_ns(1)?;
        let mut late_ns = Vec::with_capacity(WAKES);
        for ahead_ns in WAKES_AHEAD_NS.into_iter().cycle().take(WAKES) {
            let due_ns = monotonic_ns() + ahead_ns;
            nanosleep_until(due_ns)?;
            late_ns.push(monotonic_ns().saturating_sub(due_ns));
        }
        let guard_ns = guard_ns(&mut late_ns);
        self.guard.set_measured(guard_ns);
        Ok(guard_ns)
    }

    /// Sleeps up to the guard before an instant, and adapts the guard.
    pub fn sleep_to_guard(&self, t_ns: u64) -> Result<(), ClockError> {
        let sleep_to_ns = t_ns.saturating_sub(self.guard_ns());
        if monotonic_ns() < sleep_to_ns {
            nanosleep_until(sleep_to_ns)?;
            self.guard.adapt(monotonic_ns() > t_ns);
        }
        Ok(())
    }

    pub fn spin_until(&self, t_ns: u64) {
        while monotonic_ns() < t_ns {
            std::hint::spin_loop();
        }
    }

    fn token(&self, id: u32) -> Arc<Token> {
        let known = {
            let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
            tokens.get(&id).map(Arc::clone)
        };
        known.unwrap_or_else(|| {
            let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(tokens.entry(id).or_default())
        })
    }
}

impl Time for WallClock {
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn sleep_until(&self, t_ns: u64) -> Result<(), ClockError> {
        self.sleep_to_guard(t_ns)?;
        self.spin_until(t_ns);
        Ok(())
    }

    fn is_wall(&self) -> bool {
        true
    }

    fn switches(&self) -> Option<Switches> {
        Some(Switches::of_this_thread())
    }

    fn sleep_and_spin(&self, t_ns: u64, tick: &mut dyn FnMut(u64)) -> Result<(), ClockError> {
        self.sleep_to_guard(t_ns)?;
        // Without an earlier wake-up the thread should have spun from this instant on.
        let mut now_ns = monotonic_ns();
        tick(now_ns.min(t_ns));
        while now_ns < t_ns {
            std::hint::spin_loop();
            now_ns = monotonic_ns();
            tick(now_ns);
        }
        Ok(())
    }

    fn join(&self, me: u32) -> Result<(), ClockError> {
        self.announce(me);
        thread::set_timer_slack_ns(1)
    }

    fn leave(&self, me: u32) -> Result<(), ClockError> {
        self.tokens.write().unwrap_or_else(PoisonError::into_inner).remove(&me);
        Ok(())
    }

    fn park(&self, me: u32) -> Result<(), ClockError> {
        self.token(me).take();
        Ok(())
    }

    fn unpark(&self, whom: u32) -> Result<(), ClockError> {
        self.token(whom).put();
        Ok(())
    }

    fn announce(&self, id: u32) {
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        tokens.entry(id).or_default();
    }

    fn settle_reaper(&self, cores: Option<ReaperCores>) -> Result<bool, ClockError> {
        match cores {
            None => Ok(false),
            Some(ReaperCores::Shared(cores)) => cores.apply().map(|()| false),
            Some(ReaperCores::Own(cpu)) => {
                Cores::only(cpu).apply()?;
                // It spins for as long as requests run, for which the kernel may stop a real-time
                // thread. On a shared core it would stop the others.
                Ok(thread::fifo_is_unthrottled() && thread::set_fifo_of_reaper().is_ok())
            }
        }
    }

    fn begin_schedule(&self, rate_per_s: f64) -> bool {
        // The kernel stops a real-time thread that spins for most of a second for the rest of it,
        // which would look like a stall of the device.
        self.limit_guard(rate_per_s);
        let busy = rate_per_s * self.guard_ns() as f64 * 1e-9;
        (busy < thread::FIFO_BUSY_MAX || thread::fifo_is_unthrottled())
            && thread::set_fifo().is_ok()
    }

    fn end_schedule(&self) {
        // The kernel cannot refuse the ordinary class.
        let _always_allowed = thread::set_other();
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Sleeps until an absolute instant of CLOCK_MONOTONIC, despite signals.
fn nanosleep_until(t_ns: u64) -> Result<(), ClockError> {
    let until = Timespec {
        tv_sec: (t_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (t_ns % 1_000_000_000).cast_signed(),
    };
    retry_on_intr(|| clock_nanosleep_absolute(ClockId::Monotonic, &until))
        .map_err(thread::failed("clock_nanosleep"))
}

// The guard: how long before an instant the wall clock stops sleeping and starts to spin.
//
// How late a sleeping thread wakes depends on the machine, so it is measured on the thread: the
// guard starts at twice the 99th percentile of measured wake-ups. Later conditions differ, because
// an idle machine sleeps more deeply than one that has just started processes. The guard therefore
// adapts: it doubles when a sleep ends after its instant, and shrinks slowly while sleeps end in
// time.

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
    fn sleeping_uses_the_measured_guard() -> Result<(), ClockError> {
        let clock = WallClock::new();
        let guard_ns = clock.measure_guard()?;
        assert!((super::GUARD_NS_MIN..=super::GUARD_NS_MAX).contains(&guard_ns));
        assert_eq!(clock.guard_ns(), guard_ns);
        Ok(())
    }

    #[test]
    fn a_token_reaches_a_thread_that_has_not_parked_yet() -> Result<(), ClockError> {
        let clock = Arc::new(WallClock::new());
        clock.unpark(7)?;
        let waiter = {
            let clock = Arc::clone(&clock);
            std::thread::spawn(move || {
                clock.join(7)?;
                clock.park(7)?;
                clock.leave(7)
            })
        };
        assert_eq!(waiter.join().ok(), Some(Ok(())));
        Ok(())
    }

    #[test]
    fn leaving_discards_the_token() -> Result<(), ClockError> {
        let clock = WallClock::new();
        clock.join(3)?;
        clock.unpark(3)?;
        clock.leave(3)?;
        assert!(clock.tokens.read().is_ok_and(|tokens| tokens.is_empty()));
        Ok(())
    }

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
}
