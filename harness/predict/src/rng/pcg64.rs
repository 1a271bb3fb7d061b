//! PCG64 (XSL-RR 128/64), seeded as `numpy.random.default_rng(seed)` seeds it.

use super::{SeedSequence, Stream};
use rand_core::Rng;

/// NumPy's default bit generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcg64(rand_pcg::Pcg64);

impl Pcg64 {
    /// The generator of `numpy.random.default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let words: [u64; 4] = SeedSequence::new(seed).generate_state();
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let [state, stream] = [wide(words[0], words[1]), wide(words[2], words[3])];
        Self(rand_pcg::Pcg64::new(state, stream))
    }
}

impl Stream for Pcg64 {
    #[inline]
    fn next_bits(&mut self) -> u64 {
        self.0.next_u64()
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
