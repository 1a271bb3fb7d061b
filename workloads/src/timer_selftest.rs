//! Measures the punctuality of this machine: wake-ups on a Poisson schedule, as in the open loop.
//!
//! Wall time only. The result is the floor below which jitter has no verdict; in virtual time the
//! floor is the tick of the model.

use std::time::Duration;

use gpubench_stats::{ScheduleError, poisson_schedule_ns};

use crate::clock::thread::Cores;
use crate::clock::{ClockError, Time, WallClock, thread};

/// Wake-ups a second.
pub const RATE_PER_S: f64 = 1_000.0;

/// Delay before the schedule, so that the first wake-up is like the others.
const HEAD_START_NS: u64 = 5_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Other,
    /// SCHED_FIFO, where the process has permission.
    Fifo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Punctuality {
    pub class: Class,
    pub wakes: u64,
    /// How long before the instant sleeping turned into spinning, at the end.
    pub guard_ns: u64,
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Wake-ups later than [`OVER_NS`] that ended their sleep after the instant: the guard was too
    /// short for them.
    pub overslept: u64,
    /// Wake-ups later than [`OVER_NS`] that were awake in time and were stopped while they spun.
    pub stopped: u64,
}

/// Why punctuality cannot be measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SelfTestError {
    /// No permission for the class, as for most users.
    #[error("no permission for SCHED_FIFO: {0}")]
    Class(ClockError),
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The schedule is empty or cannot be made.
    #[error("no schedule of {0:?}: {1}")]
    Schedule(Duration, String),
    /// The measuring thread could not start, or panicked.
    #[error("the measuring thread: {0}")]
    Thread(String),
}

/// Measures for about `duration`, on a thread of its own.
/// Fails when the class is refused, or no wake-up falls into the duration.
pub fn punctuality(
    duration: Duration,
    class: Class,
    seed: u64,
) -> Result<Punctuality, SelfTestError> {
    on_thread(duration, class, seed, |_| ()).map(|((), found)| found)
}

/// As [`punctuality`], after the time that the host takes from a spinning thread of the class.
pub fn with_stops(
    duration: Duration,
    class: Class,
    seed: u64,
) -> Result<(Stops, Punctuality), SelfTestError> {
    on_thread(duration, class, seed, measure_stops)
}

fn on_thread<T: Send + 'static>(
    duration: Duration,
    class: Class,
    seed: u64,
    before: fn(&WallClock) -> T,
) -> Result<(T, Punctuality), SelfTestError> {
    let no_schedule = |error: ScheduleError| SelfTestError::Schedule(duration, error.to_string());
    let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let arrivals_ns = poisson_schedule_ns(RATE_PER_S, duration_ns, seed).map_err(no_schedule)?;
    if arrivals_ns.is_empty() {
        let what = "no wake-up falls into it".to_owned();
        return Err(SelfTestError::Schedule(duration, what));
    }
    // Class and timer slack belong to a thread and end with it.
    let measuring = std::thread::Builder::new()
        .name("timer-selftest".to_owned())
        .spawn(move || measure(&arrivals_ns, class, before))
        .map_err(|error| SelfTestError::Thread(error.to_string()))?;
    measuring.join().map_err(|_| SelfTestError::Thread("panicked".to_owned()))?
}

fn measure<T>(
    arrivals_ns: &[u64],
    class: Class,
    before: fn(&WallClock) -> T,
) -> Result<(T, Punctuality), SelfTestError> {
    let clock = WallClock::new();
    // As for the issuer of a victim, where there are enough cores.
    if let [_, _, own, _, ..] = Cores::of_this_thread()?.list()[..] {
        Cores::only(own).apply()?;
    }
    if class == Class::Fifo {
        thread::set_fifo().map_err(SelfTestError::Class)?;
    }
    clock.measure_guard()?;
    clock.limit_guard(RATE_PER_S);
    let measured_before = before(&clock);
    let mut late_ns = Vec::with_capacity(arrivals_ns.len());
    let (mut overslept, mut stopped) = (0, 0);
    let t0_ns = clock.now_ns() + HEAD_START_NS;
    for arrival_ns in arrivals_ns {
        let due_ns = t0_ns + arrival_ns;
        // An instant that has already passed counts as late, like a request of the open loop.
        clock.sleep_to_guard(due_ns)?;
        let awake_ns = clock.now_ns();
        clock.spin_until(due_ns);
        let by_ns = clock.now_ns().saturating_sub(due_ns);
        if by_ns > OVER_NS && awake_ns > due_ns {
            overslept += 1;
        } else if by_ns > OVER_NS {
            stopped += 1;
        }
        late_ns.push(by_ns);
    }
    late_ns.sort_unstable();
    let found = Punctuality {
        class,
        wakes: late_ns.len() as u64,
        guard_ns: clock.guard_ns(),
        p50_ns: nearest_rank(&late_ns, 500),
        p99_ns: nearest_rank(&late_ns, 990),
        p999_ns: nearest_rank(&late_ns, 999),
        max_ns: nearest_rank(&late_ns, 1_000),
        overslept,
        stopped,
    };
    Ok((measured_before, found))
}

/// The smallest figure that at least this many thousandths of all figures do not exceed.
fn nearest_rank(sorted: &[u64], thousandths: usize) -> u64 {
    let rank = (sorted.len() * thousandths).div_ceil(1_000);
    rank.checked_sub(1).and_then(|at| sorted.get(at)).copied().unwrap_or(0)
}

// Measures the time that the host takes from a spinning thread.
//
// The kernel's tick, interrupts and, under a hypervisor, other work on the physical core stop a
// thread of any class. A wake-up that falls into such a stop is late, however the thread waits for
// it: where stops fill a hundredth of the time, the 99th percentile of lateness is the length of a
// stop. The kernel's osnoise tracer uses the same method (Documentation/trace/osnoise-tracer.rst).

/// A gap between two readings longer than this is a stop. An open loop at 1 kHz must stay below
/// this lateness.
pub const OVER_NS: u64 = 10_000;

/// Below the fraction of a second that the kernel grants to a real-time thread.
const SPIN: Duration = Duration::from_millis(400);

/// How often and how long a spinning thread was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stops {
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
    pub span_ns: u64,
}

impl Stops {
    /// Fraction of the time spent in stops.
    pub fn share(&self) -> f64 {
        if self.span_ns == 0 {
            return 0.0;
        }
        self.total_ns as f64 / self.span_ns as f64
    }

    /// Stops per second.
    pub fn per_s(&self) -> f64 {
        if self.span_ns == 0 {
            return 0.0;
        }
        self.count as f64 * 1e9 / self.span_ns as f64
    }
}

/// Spins on the calling thread and records its stops.
fn measure_stops(clock: &WallClock) -> Stops {
    let begun_ns = clock.now_ns();
    let end_ns = begun_ns + SPIN.as_nanos() as u64;
    tally(begun_ns, end_ns, || clock.now_ns())
}

fn tally(begun_ns: u64, end_ns: u64, mut now_ns: impl FnMut() -> u64) -> Stops {
    let (mut count, mut total_ns, mut longest_ns) = (0, 0, 0);
    let mut last_ns = begun_ns;
    while last_ns < end_ns {
        let read_ns = now_ns();
        let gap_ns = read_ns.saturating_sub(last_ns);
        if gap_ns > OVER_NS {
            count += 1;
            total_ns += gap_ns;
            longest_ns = longest_ns.max(gap_ns);
        }
        last_ns = read_ns;
    }
    Stops { count, total_ns, longest_ns, span_ns: last_ns - begun_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_nearest() {
        let sorted: Vec<u64> = (1..=1_000).collect();
        for (thousandths, expected) in [(500, 500), (990, 990), (999, 999), (1_000, 1_000)] {
            assert_eq!(nearest_rank(&sorted, thousandths), expected);
        }
        assert_eq!(nearest_rank(&[7], 500), 7);
        assert_eq!(nearest_rank(&[], 500), 0);
    }

    #[test]
    fn a_short_measurement_has_ordered_figures() -> Result<(), SelfTestError> {
        let clock = WallClock::new();
        let begun_ns = clock.now_ns();
        let (stops, found) = with_stops(Duration::from_millis(60), Class::Other, 3)?;
        let elapsed_ns = clock.now_ns() - begun_ns;
        let late = found.overslept + found.stopped;
        assert!(late <= found.wakes, "{found:?}");
        assert_eq!(late == 0, found.max_ns <= OVER_NS, "{found:?}");
        assert!(stops.span_ns >= 400_000_000, "{stops:?}");
        let arrivals_ns = poisson_schedule_ns(RATE_PER_S, 60_000_000, 3).unwrap_or_default();
        assert_eq!(found.wakes, arrivals_ns.len() as u64);
        // A wake-up without a wait is never late.
        assert!(arrivals_ns.last().is_some_and(|last_ns| elapsed_ns >= *last_ns));
        assert!(found.p50_ns <= found.p99_ns && found.p99_ns <= found.p999_ns);
        assert!(found.p999_ns <= found.max_ns && found.guard_ns >= 100_000);
        Ok(())
    }

    #[test]
    fn fifo_is_granted_or_refused_by_name() {
        match punctuality(Duration::from_millis(30), Class::Fifo, 3) {
            Ok(found) => assert_eq!(found.class, Class::Fifo),
            Err(SelfTestError::Class(error)) => assert!(error.to_string().contains("sched")),
            Err(other) => panic!("neither granted nor refused: {other}"),
        }
    }

    #[test]
    fn a_duration_without_a_wake_up_is_refused() {
        let refused = punctuality(Duration::ZERO, Class::Other, 3);
        assert!(matches!(refused, Err(SelfTestError::Schedule(..))), "{refused:?}");
    }

    #[test]
    fn gaps_over_the_limit_are_stops_and_shorter_ones_are_not() {
        let mut readings = [1_000, 11_000, 12_000, 62_000, 63_000, 84_000, 100_000].into_iter();
        let stops = tally(0, 100_000, || readings.next().unwrap_or(u64::MAX));
        let expected = Stops {
            count: 3,
            total_ns: 50_000 + 21_000 + 16_000,
            longest_ns: 50_000,
            span_ns: 100_000,
        };
        assert_eq!(stops, expected);
        assert!((stops.share() - 0.87).abs() < 1e-12);
        assert!((stops.per_s() - 30_000.0).abs() < 1e-9);
    }

    #[test]
    fn a_measurement_without_time_has_no_share() {
        let stops = tally(5, 5, || unreachable!("no time to measure"));
        assert_eq!((stops.share(), stops.per_s()), (0.0, 0.0));
    }
}
