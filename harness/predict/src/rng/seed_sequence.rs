//! NumPy's SeedSequence: mixes a small seed into a pool of four words and expands the pool.
//!
//! The algorithm is M. E. O'Neill's `seed_seq_fe` (pcg-random.org, "Developing a seed_seq
//! Alternative", 2015) with the constants that NumPy documents as stable (NEP 19).

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

/// A hash with a constant that changes with each hashed word.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_equals_numpy() {
        // numpy.random.SeedSequence(7).generate_state(4, numpy.uint64), and of 2**40 + 5.
        assert_eq!(SeedSequence::new(7).generate_state(), SEED_7);
        assert_eq!(SeedSequence::new((1 << 40) + 5).generate_state(), SEED_WIDE);
    }

    const SEED_7: [u64; 4] = [
        0xead0_f701_7c32_6e58,
        0x0879_c4f0_f97e_037a,
        0x623a_8c4b_6745_675f,
        0xb344_3fad_6038_6cac,
    ];
    const SEED_WIDE: [u64; 4] = [
        0xdae4_1755_e08a_170b,
        0x8415_abe8_7ecd_cb2c,
        0x2525_c5b4_4b91_18d0,
        0x42c2_793f_3392_bed3,
    ];
}
