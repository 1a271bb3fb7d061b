//! Arrival schedules: computed in full before a cell starts, equal bit for bit on every platform.
//!
//! Arrivals are Poisson because a fixed rate would lock phase with the time slices of a scheduler.
//! All cells of a block use the same schedule, so the seed belongs to the block.

use thiserror::Error;

use crate::rng::ScheduleRng;

/// Largest number of arrivals of one schedule: 100 times the longest planned cell, 800 MB.
pub const ARRIVALS_MAX: f64 = 1e8;

const NS_PER_S: f64 = 1e9;

/// Why a schedule cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ScheduleError {
    /// The rate is zero, negative, not a number or too high for a nanosecond clock.
    #[error("arrival rate is {rate_per_s} per second: accepted is above 0 and at most 1e8")]
    Rate {
        /// The requested rate.
        rate_per_s: f64,
    },
    /// The schedule would exceed the memory limit.
    #[error("schedule would hold {expected} arrivals: accepted are at most 1e8")]
    TooMany {
        /// The expected number of arrivals.
        expected: f64,
    },
}

/// Poisson arrivals as offsets in nanoseconds from the start, strictly rising and all below
/// `duration_ns`. An empty schedule is legal.
///
/// Each gap is rounded to whole nanoseconds, at least one, and gaps are added as integers, so
/// errors do not accumulate and no platform rounds differently.
///
/// # Errors
/// [`ScheduleError::Rate`] unless the rate is above 0 and at most 1e8 per second;
/// [`ScheduleError::TooMany`] for more than 1e8 expected arrivals.
pub fn poisson_schedule_ns(
    rate_per_s: f64,
    duration_ns: u64,
    seed: u64,
) -> Result<Vec<u64>, ScheduleError> {
    // Above 1e8 a rounded gap of at least 1 ns would no longer resemble its exponential.
    if !(rate_per_s > 0.0 && rate_per_s <= 1e8) {
        return Err(ScheduleError::Rate { rate_per_s });
    }
    let expected = rate_per_s * (duration_ns as f64 / NS_PER_S);
    if expected > ARRIVALS_MAX {
        return Err(ScheduleError::TooMany { expected });
    }
    let mean_gap_ns = NS_PER_S / rate_per_s;
    let mut rng = ScheduleRng::new(seed);
    let mut arrivals_ns = Vec::with_capacity(expected as usize);
    let mut now_ns = 0_u64;
    loop {
        // Truncation after adding a half rounds to nearest; the cast saturates when a tiny rate
        // makes a gap longer than the clock.
        let gap_ns = (rng.exponential() * mean_gap_ns + 0.5) as u64;
        now_ns = now_ns.saturating_add(gap_ns.max(1));
        if now_ns >= duration_ns {
            return Ok(arrivals_ns);
        }
        arrivals_ns.push(now_ns);
    }
}

/// Bursts of arrivals: an interrupted Poisson process (Kuczura, Bell System Technical Journal
/// 52(3), 1973). Bursts of exponential length alternate with exponential pauses; arrivals within a
/// burst are Poisson.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// Mean arrivals of a burst; above 0.
    pub requests: f64,
    /// Rate within a burst over the mean rate; above 1.
    pub peak: f64,
}

/// Arrivals at a mean rate, in bursts; without `bursts` those of [`poisson_schedule_ns`].
///
/// # Errors
/// As [`poisson_schedule_ns`], for the rate within a burst as well.
pub fn schedule_ns(
    rate_per_s: f64,
    duration_ns: u64,
    seed: u64,
    bursts: Option<Bursts>,
) -> Result<Vec<u64>, ScheduleError> {
    let Some(Bursts { requests, peak }) = bursts else {
        return poisson_schedule_ns(rate_per_s, duration_ns, seed);
    };
    let within_per_s = rate_per_s * peak;
    let is_burst = requests > 0.0 && requests.is_finite() && peak > 1.0;
    if !(rate_per_s > 0.0 && within_per_s <= 1e8 && is_burst) {
        return Err(ScheduleError::Rate { rate_per_s: within_per_s });
    }
    let expected = rate_per_s * (duration_ns as f64 / NS_PER_S);
    if expected > ARRIVALS_MAX {
        return Err(ScheduleError::TooMany { expected });
    }
    let mut rng = ScheduleRng::new(seed);
    let mut draw_ns = |mean_ns: f64| ((rng.exponential() * mean_ns + 0.5) as u64).max(1);
    let gap_ns = NS_PER_S / within_per_s;
    let burst_ns = requests * gap_ns;
    let pause_ns = burst_ns * (peak - 1.0);
    // The process is in its steady state at time 0: in a burst for one part in `peak` of the time.
    // A second generator leaves the first for lengths and gaps.
    let in_burst = ScheduleRng::new(!seed).uniform() * peak < 1.0;
    let mut now_ns = if in_burst { 0 } else { draw_ns(pause_ns) };
    let mut arrivals_ns = Vec::with_capacity(expected as usize);
    while now_ns < duration_ns {
        let end_ns = now_ns.saturating_add(draw_ns(burst_ns));
        // The exponential is memoryless, so the gap that the end of a burst cuts off is drawn anew.
        loop {
            now_ns = now_ns.saturating_add(draw_ns(gap_ns));
            if now_ns >= end_ns || now_ns >= duration_ns {
                break;
            }
            arrivals_ns.push(now_ns);
        }
        now_ns = end_ns.saturating_add(draw_ns(pause_ns));
    }
    Ok(arrivals_ns)
}

/// A fingerprint of a schedule: 64-bit FNV-1a (Fowler, Noll and Vo; IETF draft-eastlake-fnv) over
/// the offsets as little-endian bytes. It distinguishes schedules; it does not resist forgery.
#[must_use]
pub fn schedule_hash(arrivals_ns: &[u64]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    arrivals_ns
        .iter()
        .flat_map(|arrival| arrival.to_le_bytes())
        .fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// From NumPy's raw words of the generator and 40-digit logarithms:
    /// `t += max(1, floor(e * 1e9 / rate + 0.5))`, see the tests of `rng`.
    #[test]
    fn a_schedule_equals_the_oracle() {
        let actual = poisson_schedule_ns(250.0, 10 * SECOND_NS, 42).unwrap();
        assert_eq!(
            actual[..6],
            [1_645_726, 4_151_161, 9_554_417, 12_268_389, 16_914_640, 17_807_511]
        );
        assert_eq!(actual.len(), 2_498);
        assert_eq!(schedule_hash(&actual), 0x651e_d121_3bc9_dade);
    }

    /// FNV-1a of nothing is its basis; of the eight bytes "\x01\0\0\0\0\0\0\0" see the oracle.
    #[test]
    fn the_fingerprint_equals_its_definition() {
        assert_eq!(schedule_hash(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(schedule_hash(&[1]), 0x89cd_3129_1d2a_efa4);
        assert_ne!(schedule_hash(&[1, 2]), schedule_hash(&[2, 1]));
    }

    #[test]
    fn arrivals_rise_strictly_and_stay_below_the_end() {
        for (rate_per_s, seed) in [(1e8, 1), (1e8, 2), (3e7, 3), (1000.0, 4)] {
            let actual = poisson_schedule_ns(rate_per_s, SECOND_NS / 1000, seed).unwrap();
            assert!(actual.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(actual.iter().all(|&t| t > 0 && t < SECOND_NS / 1000));
        }
    }

    #[test]
    fn an_arrival_at_the_very_end_is_too_late() {
        let all = poisson_schedule_ns(1000.0, SECOND_NS, 8).unwrap();
        let until = |end_ns| poisson_schedule_ns(1000.0, end_ns, 8).unwrap().len();
        assert_eq!((until(all[100]), until(all[100] + 1)), (100, 101));
    }

    #[test]
    fn counts_have_the_mean_and_variance_of_poisson() {
        let counts: Vec<f64> = (0..400)
            .map(|seed| poisson_schedule_ns(100.0, SECOND_NS, seed).unwrap().len() as f64)
            .collect();
        let found = crate::moments::moments(&counts).unwrap();
        // Mean 100 with standard error 0.5; deviation 10 with standard error 0.35.
        assert!((found.mean - 100.0).abs() < 2.5, "{found:?}");
        assert!((found.sd - 10.0).abs() < 1.8, "{found:?}");
    }

    /// The limit of the index of dispersion for counts of an interrupted Poisson process with rate
    /// `l` that leaves bursts at rate `a` and pauses at rate `b` is `1 + 2 l a / (a + b)^2`.
    #[test]
    fn bursts_have_the_mean_rate_and_the_dispersion_of_the_process() {
        let bursts = Some(Bursts { requests: 10.0, peak: 5.0 });
        let counts: Vec<f64> = (0..400)
            .map(|seed| {
                let all = schedule_ns(100.0, 20 * SECOND_NS, seed, bursts).unwrap();
                assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(all.last().is_none_or(|last| *last < 20 * SECOND_NS));
                all.len() as f64
            })
            .collect();
        let found = crate::moments::moments(&counts).unwrap();
        let (l, a, b) = (500.0_f64, 50.0_f64, 12.5_f64);
        let dispersion = 1.0 + 2.0 * l * a / (a + b).powi(2);
        // Mean 2000 with deviation 166, so a standard error of 8.3; of the variance 7 %.
        assert!((found.mean - 2_000.0).abs() < 35.0, "{found:?}");
        let observed = found.sd.powi(2) / found.mean;
        assert!((observed / dispersion - 1.0).abs() < 0.3, "{observed} {dispersion}");
    }

    #[test]
    fn schedules_without_bursts_are_poisson_and_bad_bursts_are_refused() {
        let plain = poisson_schedule_ns(100.0, SECOND_NS, 3).unwrap();
        assert_eq!(schedule_ns(100.0, SECOND_NS, 3, None).unwrap(), plain);
        for (requests, peak) in [(0.0, 2.0), (5.0, 1.0), (f64::NAN, 2.0), (5.0, 1e7)] {
            let bursts = Some(Bursts { requests, peak });
            let refused = schedule_ns(100.0, SECOND_NS, 3, bursts);
            assert!(refused.is_err(), "{requests} {peak}");
        }
    }

    #[test]
    fn impossible_schedules_are_refused() {
        for rate_per_s in [0.0, -1.0, 1.1e8, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(
                    poisson_schedule_ns(rate_per_s, SECOND_NS, 1),
                    Err(ScheduleError::Rate { .. })
                ),
                "{rate_per_s} was accepted"
            );
        }
        assert!(matches!(
            poisson_schedule_ns(1e8, 2 * SECOND_NS, 1),
            Err(ScheduleError::TooMany { .. })
        ));
        assert!(poisson_schedule_ns(1e-300, SECOND_NS, 1).unwrap().is_empty());
        assert!(poisson_schedule_ns(5.0, 0, 1).unwrap().is_empty());
    }
}
