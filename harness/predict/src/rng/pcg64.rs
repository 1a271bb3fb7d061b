//! PCG64 (XSL-RR 128/64), seeded as `numpy.random.default_rng(seed)` seeds it.
//!
//! M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for
//! Random Number Generation", HMC-CS-2014-0905: a 128-bit linear congruence, folded and rotated.

use super::{SeedSequence, Stream};

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

/// NumPy's default bit generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    /// The generator of `numpy.random.default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let words: [u64; 4] = SeedSequence::new(seed).generate_state();
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let increment = (wide(words[2], words[3]) << 1) | 1;
        let mut generator = Self {
            state: 0,
            increment,
        };
        generator.step();
        generator.state = generator.state.wrapping_add(wide(words[0], words[1]));
        generator.step();
        generator
    }

    fn step(&mut self) {
        self.state = self
            .state
            .wrapping_mul(MULTIPLIER)
            .wrapping_add(self.increment);
    }
}

impl Stream for Pcg64 {
    #[inline]
    fn next_bits(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_equal_numpy() {
        // numpy.random.default_rng(7).bit_generator.random_raw(4)
        let mut generator = Pcg64::new(7);
        let words: [u64; 4] = std::array::from_fn(|_| generator.next_bits());
        assert_eq!(words, RAW_7);
    }

    const RAW_7: [u64; 4] = [
        0xa006_41a9_f1e5_4a8b,
        0xe5af_cdbc_af26_6a95,
        0xc693_565f_940a_f962,
        0x39a7_2dab_d56a_2742,
    ];
}
