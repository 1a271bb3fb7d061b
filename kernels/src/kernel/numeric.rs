//! Shared by the checks of the numeric kernels: test numbers, and sums in the kernels' order.

use crate::pattern::pattern_word;

/// `count` numbers in [-1, 1) from a seed, each exact in single precision.
pub(crate) fn numbers(count: u64, seed: u32) -> Vec<f32> {
    let scale = 1.0 / f32::from(1_u16 << 15);
    (0..count).map(|index| f32::from((pattern_word(index, seed) >> 16) as i16) * scale).collect()
}

/// The bits of each number: equal bits distinguish zeros and need no tolerance.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Sums the values of 128 threads in the kernels' order: one half onto the other.
pub(crate) fn tree_sum(mut parts: [f32; 128]) -> f32 {
    let mut half = parts.len() / 2;
    while half > 0 {
        for at in 0..half {
            parts[at] += parts[at + half];
        }
        half /= 2;
    }
    parts[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_adds_every_part_once() {
        let parts = std::array::from_fn(|at| at as f32);
        assert_eq!(tree_sum(parts), 8128.0);
    }

    #[test]
    fn numbers_are_in_range_and_follow_the_seed() {
        let row = numbers(1000, 3);
        assert!(row.iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(row.iter().any(|x| *x < -0.9) && row.iter().any(|x| *x > 0.9));
        assert_eq!(row, numbers(1000, 3));
        assert_ne!(row, numbers(1000, 4));
    }
}
