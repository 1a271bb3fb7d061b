//! The one seam through which a tenant reads time, sleeps and hands over between its threads.
//!
//! On a GPU without hardware the model's clock rules: it moves only while every participant waits,
//! so a thread joins before its first driver call, does all its waiting through this seam, and
//! leaves before it blocks on anything else (a pipe, a mutex, another thread). On the wall clock
//! the same calls are CLOCK_MONOTONIC, a sleep that ends in a spin, and a token a thread.
//!
//! Nothing else in this package reads a clock or sleeps.

use std::sync::Arc;

mod guard;
mod participation;
pub mod thread;
mod token;
mod virtual_time;
mod wall;

pub use participation::Participation;
use thread::Cores;
use virtual_time::VirtualTime;
pub use wall::WallClock;

/// Why time could not be read, slept or handed over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// The library keeps virtual time but lacks a part of the seam.
    #[error("libcuda keeps virtual time (version {version}) but has no symbol {symbol}")]
    MissingSymbol {
        /// Version that the library reports.
        version: i32,
        /// The symbol.
        symbol: &'static str,
    },
    /// Virtual time refused a call.
    #[error("virtual time refused {call} with {code}")]
    Refused {
        /// The call, as exported.
        call: &'static str,
        /// Its answer, a negative error number.
        code: i32,
    },
    /// The operating system refused a call.
    #[error("{call} failed with error number {errno}")]
    System {
        /// The call.
        call: &'static str,
        /// Its error number.
        errno: i32,
    },
}

/// What the load generator needs of time. Instants are nanoseconds on the shared clock.
pub trait Time: Send + Sync + 'static {
    /// The present instant.
    fn now_ns(&self) -> u64;

    /// Returns at the instant, or at once when it has passed.
    ///
    /// # Errors
    /// When the clock refuses.
    fn sleep_until(&self, t_ns: u64) -> Result<(), ClockError>;

    /// Takes part in the clock as participant `me`, on the calling thread.
    ///
    /// # Errors
    /// When the clock refuses, for example a number that was not reserved.
    fn join(&self, me: u32) -> Result<(), ClockError>;

    /// Takes part no longer.
    ///
    /// # Errors
    /// When the clock refuses.
    fn leave(&self, me: u32) -> Result<(), ClockError>;

    /// Waits for a token and takes it; one that was left before the call is not lost.
    ///
    /// # Errors
    /// When the clock refuses.
    fn park(&self, me: u32) -> Result<(), ClockError>;

    /// Leaves the token of participant `whom`.
    ///
    /// # Errors
    /// When the clock refuses.
    fn unpark(&self, whom: u32) -> Result<(), ClockError>;

    /// Makes room for a participant of this process that is about to join.
    fn announce(&self, _id: u32) {}

    /// Readies the reaping thread: onto these cores, where cores are real.
    ///
    /// # Errors
    /// When the kernel refuses them.
    fn settle_reaper(&self, _cores: Option<&Cores>) -> Result<(), ClockError> {
        Ok(())
    }

    /// Asks for punctual waking of the issuer while it follows a schedule; true if it was given.
    fn begin_schedule(&self, _rate_per_s: f64) -> bool {
        false
    }

    /// Ends what [`Time::begin_schedule`] asked for.
    fn end_schedule(&self) {}
}

/// The clock of this process: virtual where the loaded libcuda keeps virtual time, wall elsewhere.
#[derive(Debug, Clone)]
pub struct Clock {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Virtual(Arc<VirtualTime>),
    Wall(Arc<WallClock>),
}

impl Clock {
    /// Finds the clock: asks the libcuda that the loader finds whether it keeps virtual time.
    ///
    /// # Errors
    /// When the library says that it does but lacks a part of the seam.
    pub fn find() -> Result<Self, ClockError> {
        Ok(match VirtualTime::find()? {
            Some(time) => Self {
                kind: Kind::Virtual(Arc::new(time)),
            },
            None => Self::wall(),
        })
    }

    /// The wall clock, whatever library is there.
    #[must_use]
    pub fn wall() -> Self {
        Self {
            kind: Kind::Wall(Arc::new(WallClock::new())),
        }
    }

    /// Whether time is the model's.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        matches!(self.kind, Kind::Virtual(_))
    }

    /// `virtual` or `wall`, as messages and records say it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.is_virtual() { "virtual" } else { "wall" }
    }

    /// The wall clock behind it, if it is one.
    #[must_use]
    pub fn as_wall(&self) -> Option<&WallClock> {
        match &self.kind {
            Kind::Virtual(_) => None,
            Kind::Wall(wall) => Some(wall),
        }
    }

    fn time(&self) -> &dyn Time {
        match &self.kind {
            Kind::Virtual(time) => &**time,
            Kind::Wall(time) => &**time,
        }
    }
}

impl Time for Clock {
    fn now_ns(&self) -> u64 {
        self.time().now_ns()
    }

    fn sleep_until(&self, t_ns: u64) -> Result<(), ClockError> {
        self.time().sleep_until(t_ns)
    }

    fn join(&self, me: u32) -> Result<(), ClockError> {
        self.time().join(me)
    }

    fn leave(&self, me: u32) -> Result<(), ClockError> {
        self.time().leave(me)
    }

    fn park(&self, me: u32) -> Result<(), ClockError> {
        self.time().park(me)
    }

    fn unpark(&self, whom: u32) -> Result<(), ClockError> {
        self.time().unpark(whom)
    }

    fn announce(&self, id: u32) {
        self.time().announce(id);
    }

    fn settle_reaper(&self, cores: Option<&Cores>) -> Result<(), ClockError> {
        self.time().settle_reaper(cores)
    }

    fn begin_schedule(&self, rate_per_s: f64) -> bool {
        self.time().begin_schedule(rate_per_s)
    }

    fn end_schedule(&self) {
        self.time().end_schedule();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_virtual_time_has_the_wall_clock() -> Result<(), ClockError> {
        let clock = Clock::find()?;
        assert_eq!(clock.name(), "wall");
        assert!(clock.as_wall().is_some());
        Ok(())
    }

    #[test]
    fn a_sleep_never_ends_early() -> Result<(), ClockError> {
        let clock = Clock::wall();
        for ahead_ns in [0, 1_000, 50_000, 300_000, 1_500_000] {
            let due_ns = clock.now_ns() + ahead_ns;
            clock.sleep_until(due_ns)?;
            assert!(clock.now_ns() >= due_ns);
        }
        clock.sleep_until(0)
    }
}
