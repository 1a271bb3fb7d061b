//! The clock of a tenant: time, sleep and wake-ups between its threads.
//!
//! With a virtual GPU the model's clock is used. It advances only while every participant waits, so
//! a thread joins before its first driver call, waits only through this interface, and leaves
//! before it blocks on anything else (a pipe, a mutex, another thread). On the wall clock the same
//! calls are CLOCK_MONOTONIC, a sleep that ends in a spin, and one token per thread.
//!
//! No other file of this package reads a clock or sleeps.

pub mod thread;
mod virtual_time;
mod wall;

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use thread::{ReaperCores, Switches};
use virtual_time::VirtualTime;

pub use wall::WallClock;

/// Why a clock operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    #[error(
        "the libcuda of the virtual GPU keeps virtual time (version {version}) but lacks {symbol}: \
         use the library of this gpubench"
    )]
    MissingSymbol { version: i32, symbol: &'static str },
    /// The virtual clock refused a call.
    #[error("the virtual GPU's clock refused {call} with {code} ({})", os_error(*code))]
    Refused {
        call: &'static str,
        /// Its result, a negative error number.
        code: i32,
    },
    /// The operating system refused a call.
    #[error("{call} failed: {}", os_error(*errno))]
    System { call: &'static str, errno: i32 },
}

/// The name of an error number, whatever its sign.
fn os_error(number: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(number.abs())
}

/// The clock interface of the load generator. Instants are nanoseconds on the shared clock.
pub trait Time: Send + Sync + 'static {
    fn now_ns(&self) -> u64;

    /// Sleeps until the instant; returns at once when it has passed.
    fn sleep_until(&self, t_ns: u64) -> Result<(), ClockError>;

    /// Whether instants are those of the host, on which threads compete for cores.
    fn is_wall(&self) -> bool {
        false
    }

    /// How often the calling thread stopped running, on the wall clock.
    fn switches(&self) -> Option<Switches> {
        None
    }

    /// As [`Time::sleep_until`]; calls `tick` with the instant of every iteration of a spin at the
    /// end, of which the first is no later than `t_ns`.
    fn sleep_and_spin(&self, t_ns: u64, tick: &mut dyn FnMut(u64)) -> Result<(), ClockError> {
        self.sleep_until(t_ns)?;
        tick(t_ns);
        Ok(())
    }

    /// Joins the clock as participant `me`, on the calling thread.
    fn join(&self, me: u32) -> Result<(), ClockError>;

    fn leave(&self, me: u32) -> Result<(), ClockError>;

    /// Waits for this participant's token and takes it; an earlier token is not lost.
    fn park(&self, me: u32) -> Result<(), ClockError>;

    /// Gives participant `whom` its token.
    fn unpark(&self, whom: u32) -> Result<(), ClockError>;

    /// Reserves room for a participant of this process that will join soon.
    fn announce(&self, _id: u32) {}

    /// Prepares the reaping thread: moves it to its cores, on the wall clock. True if it got the
    /// real-time class too.
    /// Fails when the kernel refuses the cores.
    fn settle_reaper(&self, _cores: Option<ReaperCores>) -> Result<bool, ClockError> {
        Ok(false)
    }

    /// Requests punctual wake-ups for the issuer while it follows a schedule; true if granted.
    fn begin_schedule(&self, _rate_per_s: f64) -> bool {
        false
    }

    /// Ends the effect of [`Time::begin_schedule`].
    fn end_schedule(&self) {}
}

/// The clock of this process: virtual where the loaded libcuda keeps virtual time, else the wall
/// clock.
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
    /// Finds the clock: queries the libcuda that the loader finds for virtual time.
    /// Fails when the library keeps virtual time but lacks one of its functions.
    pub fn find() -> Result<Self, ClockError> {
        Ok(match VirtualTime::find()? {
            Some(time) => Self { kind: Kind::Virtual(Arc::new(time)) },
            None => Self::wall(),
        })
    }

    /// The wall clock, whatever libcuda is installed.
    pub fn wall() -> Self {
        Self { kind: Kind::Wall(Arc::new(WallClock::new())) }
    }

    /// Whether this is the model's time.
    pub fn is_virtual(&self) -> bool {
        matches!(self.kind, Kind::Virtual(_))
    }

    /// `virtual` or `wall`, as in messages and records.
    pub fn name(&self) -> &'static str {
        if self.is_virtual() { "virtual" } else { "wall" }
    }

    /// The wall clock, unless time is virtual.
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

    fn is_wall(&self) -> bool {
        self.time().is_wall()
    }

    fn switches(&self) -> Option<Switches> {
        self.time().switches()
    }

    fn sleep_and_spin(&self, t_ns: u64, tick: &mut dyn FnMut(u64)) -> Result<(), ClockError> {
        self.time().sleep_and_spin(t_ns, tick)
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

    fn settle_reaper(&self, cores: Option<ReaperCores>) -> Result<bool, ClockError> {
        self.time().settle_reaper(cores)
    }

    fn begin_schedule(&self, rate_per_s: f64) -> bool {
        self.time().begin_schedule(rate_per_s)
    }

    fn end_schedule(&self) {
        self.time().end_schedule();
    }
}

// Joins the clock for a scope and always leaves it at the end.

/// Participation of a thread in the clock.
///
/// `leave` ends it. Dropping ends it too, for a thread that unwinds or returns early, so that it
/// does not stop the clock for the others.
pub struct Participation<'t> {
    time: &'t dyn Time,
    me: Option<u32>,
}

impl<'t> Participation<'t> {
    pub fn join(time: &'t dyn Time, me: u32) -> Result<Self, ClockError> {
        time.join(me)?;
        Ok(Self { time, me: Some(me) })
    }

    pub fn leave(mut self) -> Result<(), ClockError> {
        self.me.take().map_or(Ok(()), |me| self.time.leave(me))
    }
}

impl Drop for Participation<'_> {
    fn drop(&mut self) {
        if let Some(me) = self.me.take() {
            // The thread already ends with an error of its own, and a second one cannot be
            // returned. The clock detects a dead participant by itself.
            let _already_failing = self.time.leave(me);
        }
    }
}

// The token with which one thread wakes another on the wall clock.

/// At most one token; putting a second one has no effect.
#[derive(Debug, Default)]
struct Token {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    left: bool,
    waiting: bool,
}

impl Token {
    fn take(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.left {
            state.waiting = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state = State::default();
    }

    /// Puts the token. It makes a system call only when a thread waits for it.
    fn put(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.left = true;
        if state.waiting {
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A clock that stands still and passes for the wall clock. It counts its participants and has
    /// the switches that a test gives it.
    #[derive(Debug, Default)]
    pub(crate) struct Still {
        joined: AtomicI32,
        pub(crate) switched: Mutex<Switches>,
    }

    impl Time for Still {
        fn now_ns(&self) -> u64 {
            0
        }
        fn is_wall(&self) -> bool {
            true
        }
        fn switches(&self) -> Option<Switches> {
            Some(*self.switched.lock().expect("no test panicked"))
        }
        fn sleep_until(&self, _t_ns: u64) -> Result<(), ClockError> {
            Ok(())
        }
        fn join(&self, _me: u32) -> Result<(), ClockError> {
            self.joined.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
        fn leave(&self, _me: u32) -> Result<(), ClockError> {
            self.joined.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
        fn park(&self, _me: u32) -> Result<(), ClockError> {
            Ok(())
        }
        fn unpark(&self, _whom: u32) -> Result<(), ClockError> {
            Ok(())
        }
    }

    #[test]
    fn an_error_of_the_clock_names_the_clock_the_call_and_the_cause() {
        let refused = ClockError::Refused { call: "gpubench_vt_join", code: -35 };
        assert_eq!(
            refused.to_string(),
            "the virtual GPU's clock refused gpubench_vt_join with -35 (Resource deadlock avoided \
             (os error 35))"
        );
        let system = ClockError::System { call: "sched_setaffinity", errno: 22 };
        assert_eq!(system.to_string(), "sched_setaffinity failed: Invalid argument (os error 22)");
    }

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

    #[test]
    fn a_participant_leaves_however_its_scope_ends() -> Result<(), ClockError> {
        let time = Still::default();
        let joined = || time.joined.load(Ordering::SeqCst);
        let participation = Participation::join(&time, 3)?;
        assert_eq!(joined(), 1);
        participation.leave()?;
        assert_eq!(joined(), 0);
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _participation = Participation::join(&time, 3);
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(unwound.is_err());
        assert_eq!(joined(), 0);
        Ok(())
    }

    #[test]
    fn an_early_token_is_not_lost_and_two_count_as_one() {
        let token = Arc::new(Token::default());
        token.put();
        token.put();
        token.take();
        let taken = Arc::new(AtomicU32::new(0));
        let waiter = {
            let (token, taken) = (Arc::clone(&token), Arc::clone(&taken));
            std::thread::spawn(move || {
                token.take();
                taken.store(1, Ordering::SeqCst);
            })
        };
        // Only this second token can wake the waiter: the first two count as one.
        while !token.state.lock().is_ok_and(|state| state.waiting) {
            std::thread::yield_now();
        }
        assert_eq!(taken.load(Ordering::SeqCst), 0);
        token.put();
        assert!(waiter.join().is_ok());
        assert_eq!(taken.load(Ordering::SeqCst), 1);
    }
}
