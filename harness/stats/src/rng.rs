//! The random generator behind schedules, orders and resampling: PCG64, with its own seeding.
//!
//! O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms for
//! random number generation", HMC-CS-2014-0905: 128-bit linear congruential state, output XSL-RR.
//! A seed must give the same arrivals for years and on every platform: the tests compare the
//! stream of `rand_pcg` with NumPy's, so a version that changes it fails here. Not for secrets.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use rand_xoshiro::SplitMix64;

/// 2^-53, the distance between neighbouring doubles in `[0.5, 1)`.
const ULP_OF_UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// PCG64 with the distributions that the harness needs, equal bit for bit on every platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRng(Pcg64);

impl ScheduleRng {
    /// Spreads a seed over state and stream with SplitMix64 (Steele, Lea and Flood, OOPSLA 2014),
    /// so that neighbouring seeds give unrelated sequences.
    #[must_use]
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
    fn exponentials_have_mean_and_variance_one() {
        let mut rng = ScheduleRng::new(3);
        let n = 100_000;
        let values: Vec<f64> = (0..n).map(|_| rng.exponential()).collect();
        let found = crate::moments::moments(&values).unwrap();
        // Five standard errors: 1 / sqrt(n) for the mean, sqrt(2) / sqrt(n) for the deviation.
        assert!((found.mean - 1.0).abs() < 0.016, "{found:?}");
        assert!((found.sd - 1.0).abs() < 0.023, "{found:?}");
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
