//! Random streams: NumPy's, equal to the last bit, and a faster one.

mod ziggurat_tables;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};
use serde::{Deserialize, Serialize};
use ziggurat_tables::{RIGHT_EDGE, TABLES};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RngKind {
    /// NumPy's `default_rng(seed)`: a NumPy program gives the same figures.
    Numpy,
    /// xoshiro256++, for speed: the same distributions with other draws.
    #[default]
    Fast,
}

/// A source of 64 uniform bits, and the draws of the models.
pub trait Stream {
    /// The next 64 uniform bits.
    fn next_bits(&mut self) -> u64;

    /// A uniform number in [0, 1) with 53 bits, as in NumPy.
    fn uniform(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// An exponential number with mean one.
    fn standard_exponential(&mut self) -> f64
    where
        Self: Sized,
    {
        standard_exponential(self)
    }

    /// A normal number with mean zero and variance one (Box and Muller 1958; one of the pair).
    fn standard_normal(&mut self) -> f64
    where
        Self: Sized,
    {
        // 1 - u lies in (0, 1], so the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

// The fast generator: xoshiro256++, one independent stream for each seed and stream number.

/// xoshiro256++ (Blackman and Vigna 2021), seeded through SplitMix64 as its authors advise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastRng(Xoshiro256PlusPlus);

impl FastRng {
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

// PCG64 (XSL-RR 128/64), seeded as `numpy.random.default_rng(seed)` seeds it.

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

// NumPy's SeedSequence: mixes a small seed into a pool of four words and expands the pool.
//
// The algorithm is M. E. O'Neill's `seed_seq_fe` (pcg-random.org, "Developing a seed_seq
// Alternative", 2015) with the constants that NumPy documents as stable (NEP 19).

const POOL_WORDS: usize = 4;
const XSHIFT: u32 = 16;
const INIT_A: u32 = 0x43b0_d7e5;
const MULT_A: u32 = 0x931e_8875;
const INIT_B: u32 = 0x8b51_f9dd;
const MULT_B: u32 = 0x58f3_8ded;
const MIX_MULT_L: u32 = 0xca01_f9dd;
const MIX_MULT_R: u32 = 0x4973_f715;

/// The entropy pool of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedSequence {
    pool: [u32; POOL_WORDS],
}

struct Hash {
    constant: u32,
    multiplier: u32,
}

impl Hash {
    fn word(&mut self, word: u32) -> u32 {
        let mut value = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.multiplier);
        value = value.wrapping_mul(self.constant);
        value ^ (value >> XSHIFT)
    }
}

fn mix(x: u32, y: u32) -> u32 {
    let value = MIX_MULT_L.wrapping_mul(x).wrapping_sub(MIX_MULT_R.wrapping_mul(y));
    value ^ (value >> XSHIFT)
}

impl SeedSequence {
    /// The pool of a non-negative integer seed, as `numpy.random.SeedSequence(seed)`.
    pub fn new(seed: u64) -> Self {
        // A seed has two words of entropy. The pool holds them all; missing words count as zero.
        let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
        let mut hash = Hash { constant: INIT_A, multiplier: MULT_A };
        let mut pool = entropy.map(|word| hash.word(word));
        for source in 0..POOL_WORDS {
            for target in 0..POOL_WORDS {
                if source != target {
                    pool[target] = mix(pool[target], hash.word(pool[source]));
                }
            }
        }
        Self { pool }
    }

    /// `N` words of state, as `generate_state(N, numpy.uint64)`.
    pub fn generate_state<const N: usize>(&self) -> [u64; N] {
        let mut hash = Hash { constant: INIT_B, multiplier: MULT_B };
        let mut words = self.pool.iter().cycle().map(|word| hash.word(*word));
        // `cycle` over four words never ends, so the default is never used.
        let mut next = || u64::from(words.next().unwrap_or_default());
        std::array::from_fn(|_| next() | (next() << 32))
    }
}

// The exponential ziggurat, with the draws in the order of NumPy.
//
// About 99 % of the numbers need one word: 8 bits choose the layer, 53 bits the position in it.
// The tail (layer 0) and the wedge under the curve need a second one; a rejected wedge starts
// again.

/// An exponential number with mean one, as `Generator.standard_exponential()`.
#[inline]
fn standard_exponential<S: Stream>(stream: &mut S) -> f64 {
    loop {
        let word = stream.next_bits() >> 3;
        let layer = (word & 0xFF) as usize;
        let position = word >> 8;
        let x = position as f64 * TABLES.width[layer];
        if position < TABLES.accept_below[layer] {
            return x;
        }
        if let Some(x) = unlikely(stream, layer, x) {
            return x;
        }
    }
}

#[cold]
fn unlikely<S: Stream>(stream: &mut S, layer: usize, x: f64) -> Option<f64> {
    if layer == 0 {
        // log1p(-u) of u in [0, 1) is finite; log(u) would not be at zero.
        return Some(RIGHT_EDGE - (-stream.uniform()).ln_1p());
    }
    let low = TABLES.height[layer];
    let high = TABLES.height[layer - 1];
    ((high - low) * stream.uniform() + low < (-x).exp()).then_some(x)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
