//! The fast generator: xoshiro256++, one independent stream for each seed and stream number.

use super::Stream;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// xoshiro256++ (Blackman and Vigna 2021), seeded through SplitMix64 as its authors advise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastRng(Xoshiro256PlusPlus);

impl FastRng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The generator of one stream of a seed. Streams that differ in one of the three numbers start
    /// at unrelated points of a period of 2^256.
    pub fn stream(seed: u64, replication: u64, stream: u64) -> Self {
        let mut bytes = [0_u8; 32];
        let mut word = seed;
        for (chunk, salt) in bytes.chunks_exact_mut(8).zip([replication, stream, seed, !stream]) {
            word = split_mix(word ^ split_mix(salt));
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Self(Xoshiro256PlusPlus::from_seed(bytes))
    }
}

/// One step of SplitMix64 (Steele, Lea and Flood 2014).
fn split_mix(word: u64) -> u64 {
    SplitMix64::seed_from_u64(word).next_u64()
}

impl Stream for FastRng {
    #[inline]
    fn next_bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn streams_differ_if_one_number_differs() {
        let mut first_words = HashSet::new();
        for seed in 0..8 {
            for replication in 0..8 {
                for stream in 0..8 {
                    let mut rng = FastRng::stream(seed, replication, stream);
                    assert!(first_words.insert(rng.next_bits()), "{seed} {replication} {stream}");
                }
            }
        }
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut rng = FastRng::new(1);
        let count = 200_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..count).map(|_| draw()).sum::<f64>() / 2e5;
        // Five standard errors each: 1/sqrt(n) for the mean of Exp(1), and of a squared normal
        // sqrt(2/n).
        let margin = 5.0 / (count as f64).sqrt();
        assert!((mean(&mut || rng.standard_exponential()) - 1.0).abs() < margin);
        assert!(mean(&mut || rng.standard_normal()).abs() < margin);
        let square = mean(&mut || rng.standard_normal().powi(2));
        assert!((square - 1.0).abs() < margin * 2_f64.sqrt());
    }
}
