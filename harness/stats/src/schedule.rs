//! Arrival schedules: computed in full before a cell starts, equal bit for bit on every platform.
//!
//! Arrivals are Poisson because a fixed rate would lock phase with the time slices of a scheduler.
//! All cells of a block use the same schedule, so the seed belongs to the block.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use rand_xoshiro::SplitMix64;
use thiserror::Error;

/// Largest number of arrivals of one schedule: 100 times the longest planned cell, 800 MB.
pub const ARRIVALS_MAX: f64 = 1e8;

const NS_PER_S: f64 = 1e9;

#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ScheduleError {
    /// The rate is zero, negative, not a number or too high for a nanosecond clock.
    #[error("arrival rate is {rate_per_s} per second: accepted is above 0 and at most 1e8")]
    Rate { rate_per_s: f64 },
    /// The schedule would exceed the memory limit.
    #[error("schedule would hold {expected} arrivals: accepted are at most 1e8")]
    TooMany { expected: f64 },
}

/// Poisson arrivals as offsets in nanoseconds from the start, strictly rising and all below
/// `duration_ns`. An empty schedule is legal.
///
/// Each gap is rounded to whole nanoseconds, at least one, and gaps are added as integers, so
/// errors do not accumulate and no platform rounds differently.
/// Fails with [`ScheduleError::Rate`] unless the rate is above 0 and at most 1e8 per second;
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
/// Fails as [`poisson_schedule_ns`], for the rate within a burst as well.
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
pub fn schedule_hash(arrivals_ns: &[u64]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    arrivals_ns
        .iter()
        .flat_map(|arrival| arrival.to_le_bytes())
        .fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

// The random generator behind schedules, orders and resampling: PCG64, with its own seeding.
//
// O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms for
// random number generation", HMC-CS-2014-0905: 128-bit linear congruential state, output XSL-RR.
// A seed must give the same arrivals for years and on every platform: the tests compare the
// stream of `rand_pcg` with NumPy's, so a version that changes it fails here. Not for secrets.

/// 2^-53, the distance between neighbouring doubles in `[0.5, 1)`.
const ULP_OF_UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// PCG64 with the distributions that the harness needs, equal bit for bit on every platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRng(Pcg64);

impl ScheduleRng {
    /// Spreads a seed over state and stream with SplitMix64 (Steele, Lea and Flood, OOPSLA 2014),
    /// so that neighbouring seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        let mut mix = SplitMix64::seed_from_u64(seed);
        let mut wide = || (u128::from(mix.next_u64()) << 64) | u128::from(mix.next_u64());
        let (state, stream) = (wide(), wide());
        // `Pcg64::new` adds the increment, which is odd, and makes one step. Undone here: `state`
        // is the state before the first draw.
        let mut generator = Pcg64::new(state.wrapping_sub(stream | 1), stream >> 1);
        generator.advance(u128::MAX);
        Self(generator)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform on `[0, 1)` with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * ULP_OF_UNIT
    }

    /// Exponential with mean 1, as `-ln(u)` with u on `(0, 1]`: finite, and at least 0.
    ///
    /// The logarithm is libm's software version: the platform's may differ in the last digit.
    pub fn exponential(&mut self) -> f64 {
        let u = ((self.next_u64() >> 11) + 1) as f64 * ULP_OF_UNIT;
        // 0 - ln rather than -ln: u = 1 must give +0.
        0.0 - libm::log(u)
    }

    /// Uniform on `0..bound`; 0 when the bound is 0.
    ///
    /// Lemire's multiplication (ACM TOMACS 29(1), 2019) without the rejection step: the bias is
    /// below `bound / 2^64`, and every call draws exactly once.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u32
    }

    /// Shuffles a slice (Fisher and Yates; Knuth, TAOCP 2, 3.4.2, algorithm P).
    ///
    /// Only the first 2^32 elements are shuffled, more than any plan or sample has.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        let last = u32::try_from(items.len()).unwrap_or(u32::MAX);
        for end in (2..=last).rev() {
            let chosen = self.below(end);
            items.swap(end as usize - 1, chosen as usize);
        }
    }
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
        let found = crate::summary::moments(&counts).unwrap();
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

    /// NumPy 2.4.6: `g = numpy.random.PCG64(); s = g.state; s['state'] = {'state': S, 'inc': I};
    /// g.state = s; g.random_raw(6)`, with S and I from SplitMix64 of the seed.
    #[test]
    fn the_generator_equals_numpy() {
        for (seed, expected) in [
            (
                0,
                [
                    0x4fd2_ab10_306b_d407,
                    0x9e4f_625a_43b6_dfcf,
                    0x3b1f_cf3b_b503_750a,
                    0x35dc_fc9b_ce76_d9ab,
                    0x2118_e0e6_e6b0_4706,
                    0x3f6c_a9ef_2378_b289,
                ],
            ),
            (
                1,
                [
                    0xf732_350d_c9c9_69d6,
                    0x9b29_aa3b_6bcc_31ac,
                    0xe552_5882_5870_be04,
                    0xd91b_70d3_3b6b_1583,
                    0x82bc_7c79_e6eb_a033,
                    0x2d19_cd5d_424d_63d7,
                ],
            ),
            (
                42,
                [
                    0xa9a6_c568_4301_84fe,
                    0x88d7_435c_6d54_f869,
                    0x424f_beba_abf7_fcde,
                    0x81e3_ba0f_2c74_faec,
                    0x5020_8c43_353d_9e03,
                    0xccc8_ea19_6224_d93e,
                ],
            ),
            (
                u64::MAX,
                [
                    0x48e5_1c4b_e5b3_4d41,
                    0xb4a5_296c_675f_f6fe,
                    0xdfed_948d_2a5e_b330,
                    0xf3da_8b63_6e3b_9efe,
                    0xf38f_316e_c804_b142,
                    0x0a6e_741a_5e83_3201,
                ],
            ),
        ] {
            let mut rng = ScheduleRng::new(seed);
            let actual: Vec<u64> = (0..6).map(|_| rng.next_u64()).collect();
            assert_eq!(actual, expected, "seed {seed}");
        }
    }

    /// From the same raw words, in Python: `(w >> 11) * 2.0**-53` and mpmath's
    /// `-log(((w >> 11) + 1) * 2**-53)` at 40 digits, rounded once.
    #[test]
    fn distributions_equal_the_oracle() {
        let mut rng = ScheduleRng::new(42);
        let actual: Vec<f64> = (0..4).map(|_| rng.uniform()).collect();
        assert_eq!(
            actual,
            [
                0.662_700_975_374_724_2,
                0.534_534_654_679_493_5,
                0.259_029_312_681_349_1,
                0.507_381_085_114_008_7
            ]
        );
        let mut rng = ScheduleRng::new(42);
        for expected in [
            0.411_431_408_069_627_1,
            0.626_358_714_922_814_5,
            1.350_814_047_310_696_4,
            0.678_492_910_568_542_2,
        ] {
            let actual = rng.exponential();
            assert!((actual - expected).abs() <= expected * f64::EPSILON, "{actual} {expected}");
        }
    }

    /// Computed by this code with libm 0.2.16: no other implementation rounds alike. When it
    /// changes, seeds of old records no longer give their schedules.
    #[test]
    fn the_software_logarithm_is_pinned_to_the_last_bit() {
        let mut rng = ScheduleRng::new(7);
        let digest = (0..10_000)
            .fold(0_u64, |digest, _| digest.rotate_left(5) ^ rng.exponential().to_bits());
        assert_eq!(digest, 0xc7a2_c1e3_770c_c8ac);
    }

    #[test]
    fn shuffles_reach_every_order_about_equally() {
        let mut rng = ScheduleRng::new(9);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut order = [0, 1, 2, 3];
            rng.shuffle(&mut order);
            *counts.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        // 1000 each, standard deviation 31.
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_bound_of_zero_and_an_empty_slice_are_legal() {
        let mut rng = ScheduleRng::new(1);
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        rng.shuffle::<u8>(&mut []);
    }
}
