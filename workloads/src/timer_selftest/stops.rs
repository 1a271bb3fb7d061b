//! Measures the time that the host takes from a spinning thread.
//!
//! The kernel's tick, interrupts and, under a hypervisor, other work on the physical core stop a
//! thread of any class. A wake-up that falls into such a stop is late, however the thread waits for
//! it: where stops fill a hundredth of the time, the 99th percentile of lateness is the length of a
//! stop. The kernel's osnoise tracer uses the same method (Documentation/trace/osnoise-tracer.rst).

use std::time::Duration;

use crate::clock::{Time, WallClock};

/// A gap between two readings longer than this is a stop. An open loop at 1 kHz must stay below
/// this lateness.
pub const OVER_NS: u64 = 10_000;

/// Below the fraction of a second that the kernel grants to a real-time thread.
const SPIN: Duration = Duration::from_millis(400);

/// How often and how long a spinning thread was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stops {
    /// Number of stops.
    pub count: u64,
    /// Their total length.
    pub total_ns: u64,
    pub longest_ns: u64,
    /// Length of the measurement.
    pub span_ns: u64,
}

impl Stops {
    /// Fraction of the time spent in stops.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.span_ns == 0 {
            return 0.0;
        }
        self.total_ns as f64 / self.span_ns as f64
    }

    /// Stops per second.
    #[must_use]
    pub fn per_s(&self) -> f64 {
        if self.span_ns == 0 {
            return 0.0;
        }
        self.count as f64 * 1e9 / self.span_ns as f64
    }
}

/// Spins on the calling thread and records its stops.
pub(super) fn measure(clock: &WallClock) -> Stops {
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
