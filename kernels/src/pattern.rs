//! The pattern of `pattern_fill`, computed on the host.

/// The word that `pattern_fill` stores at `index` for `seed`.
///
/// The finaliser of MurmurHash3 (A. Appleby, MurmurHash3.cpp, fmix32) over the folded index and the
/// seed; `cuda/pattern_fill.cu` and `cuda/pattern_check.cu` compute the same.
pub fn pattern_word(index: u64, seed: u32) -> u32 {
    let [low, high] = [index, index >> 32].map(|half| (half & 0xffff_ffff) as u32);
    let mut h = low ^ high.wrapping_mul(0x9e37_79b1) ^ seed;
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values of fmix32: 0 stays 0, 1 becomes 0x514e28b7 (also the hash of the empty
    /// string under seed 1 in the reference implementation).
    #[test]
    fn pattern_words_equal_the_published_finaliser() {
        assert_eq!(pattern_word(0, 0), 0);
        assert_eq!(pattern_word(1, 0), 0x514e_28b7);
        assert_eq!(pattern_word(0, 1), 0x514e_28b7);
    }

    #[test]
    fn the_high_half_of_an_index_counts() {
        assert_eq!(pattern_word(1 << 32, 0), pattern_word(0x9e37_79b1, 0));
        assert_eq!(pattern_word(5 | 3 << 32, 9), pattern_word(5 ^ 0xdaa6_6d13, 9));
    }

    #[test]
    fn neighbouring_words_and_seeds_differ() {
        let row = |seed| (0..1000).map(move |i| pattern_word(i, seed));
        assert_eq!(row(1).zip(row(2)).filter(|(a, b)| a == b).count(), 0);
        assert_eq!(row(1).zip(row(1).skip(1)).filter(|(a, b)| a == b).count(), 0);
    }
}
