//! The wall clock: CLOCK_MONOTONIC, a sleep that ends in a spin, tokens between threads.
//!
//! Sleeping with `clock_nanosleep` up to the guard and spinning from there was within 7 us of the
//! instant at the 99th percentile, where a plain sleep was 370 us late.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustix::io::retry_on_intr;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::guard::{self, Guard};
use super::thread::{Cores, ReaperCores, Switches};
use super::token::Token;
use super::{ClockError, Time, thread};

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
    #[must_use]
    pub fn new() -> Self {
        Self { guard: Guard::new(), tokens: RwLock::new(BTreeMap::new()) }
    }

    /// How long before an instant sleeping now turns into spinning.
    #[must_use]
    pub fn guard_ns(&self) -> u64 {
        self.guard.ns()
    }

    /// Limits the growth of the guard, so that a real-time thread that waits at this rate spins
    /// less than the kernel's limit.
    pub fn limit_guard(&self, rate_per_s: f64) {
        let ceiling_ns = if thread::fifo_is_unthrottled() {
            guard::GUARD_NS_MAX
        } else {
            (thread::FIFO_BUSY_MAX / rate_per_s * 1e9) as u64
        };
        self.guard.set_ceiling(ceiling_ns);
    }

    /// Measures how late this thread wakes and sets the guard accordingly.
    ///
    /// # Errors
    /// When the kernel refuses the timer slack or the sleep.
    pub fn measure_guard(&self) -> Result<u64, ClockError> {
        thread::set_timer_slack_ns(1)?;
        let mut late_ns = Vec::with_capacity(guard::WAKES);
        for ahead_ns in guard::WAKES_AHEAD_NS.into_iter().cycle().take(guard::WAKES) {
            let due_ns = monotonic_ns() + ahead_ns;
            nanosleep_until(due_ns)?;
            late_ns.push(monotonic_ns().saturating_sub(due_ns));
        }
        let guard_ns = guard::guard_ns(&mut late_ns);
        self.guard.set_measured(guard_ns);
        Ok(guard_ns)
    }

    /// Sleeps up to the guard before an instant, and adapts the guard.
    ///
    /// # Errors
    /// When the kernel refuses the sleep.
    pub fn sleep_to_guard(&self, t_ns: u64) -> Result<(), ClockError> {
        let sleep_to_ns = t_ns.saturating_sub(self.guard_ns());
        if monotonic_ns() < sleep_to_ns {
            nanosleep_until(sleep_to_ns)?;
            self.guard.adapt(monotonic_ns() > t_ns);
        }
        Ok(())
    }

    /// Spins until an instant.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_uses_the_measured_guard() -> Result<(), ClockError> {
        let clock = WallClock::new();
        let guard_ns = clock.measure_guard()?;
        assert!((guard::GUARD_NS_MIN..=guard::GUARD_NS_MAX).contains(&guard_ns));
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
}
