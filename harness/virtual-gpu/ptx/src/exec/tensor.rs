//! Products of matrices: `wmma.mma` of 16 by 16 by 16, halves in, single precision out.
//!
//! The PTX ISA does not define which lane holds which element, nor how intermediate sums are
//! rounded. Here lanes `l` and `l + 16` hold row `l` of `a` and column `l` of `b`, two elements per
//! register, and the lower lane counts; register `i` of lane `l` holds the sum of row `l % 16` and
//! column `8 (l / 16) + i`. Products are exact and added in the order of `k`.

use super::float::half;
use super::warp::Frame;
use crate::operands::{Product, Row};
use crate::program::Row32;

/// Rows and columns of all matrices.
const N: usize = 16;

type Matrix = [[f32; N]; N];

/// Computes `d = a b + c`; returns false and computes nothing unless all lanes are active.
pub(crate) fn multiply_add(frame: &mut Frame, rows: &Product, active: u32) -> bool {
    if active != u32::MAX {
        return false;
    }
    let same = [&rows.a, &rows.b, &rows.c].map(|fragment| uniform(frame, fragment));
    if let [Some(a), Some(b), Some(c)] = same {
        let sum = of_equal(a, b, f32::from_bits(c));
        for row in rows.d {
            frame.r32[usize::from(row)] = [sum.to_bits(); 32];
        }
        return true;
    }
    let sums = product(frame, rows);
    for (register, row) in rows.d.iter().enumerate() {
        let row: &mut Row32 = &mut frame.r32[usize::from(*row)];
        for (lane, value) in row.iter_mut().enumerate() {
            *value = sums[lane % N][lane / N * 8 + register].to_bits();
        }
    }
    true
}

/// The value of a fragment if all lanes of all registers hold the same. This case is sixty times
/// faster, and benchmarks fill their matrices this way.
fn uniform(frame: &Frame, fragment: &[Row; 8]) -> Option<u32> {
    let value = frame.r32[usize::from(fragment[0])][0];
    let mut last = None;
    for row in fragment {
        if last != Some(row) {
            let different =
                frame.r32[usize::from(*row)].iter().fold(0, |all, lane| all | (lane ^ value));
            if different != 0 {
                return None;
            }
        }
        last = Some(row);
    }
    Some(value)
}

/// One element of the sum where every register of `a` holds one value, and every one of `b`.
fn of_equal(a: u32, b: u32, c: f32) -> f32 {
    let pair = |word: u32| [word as u16, (word >> 16) as u16].map(half);
    let (a, b) = (pair(a), pair(b));
    (0..N).fold(c, |sum, k| sum + a[k % 2] * b[k % 2])
}

fn product(frame: &Frame, rows: &Product) -> Matrix {
    let (a, b) = (factor(frame, &rows.a), factor(frame, &rows.b));
    let mut sums = [[0.0; N]; N];
    for (register, row) in rows.c.iter().enumerate() {
        for (lane, bits) in frame.r32[usize::from(*row)].iter().enumerate() {
            sums[lane % N][lane / N * 8 + register] = f32::from_bits(*bits);
        }
    }
    for k in 0..N {
        for (row, sums) in sums.iter_mut().enumerate() {
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum += a[k][row] * b[k][column];
            }
        }
    }
    sums
}

/// The elements of `a` by column, or of `b` by row: elements with the same `k` are adjacent.
fn factor(frame: &Frame, fragment: &[Row; 8]) -> Matrix {
    let mut elements = [[0.0; N]; N];
    for (register, row) in fragment.iter().enumerate() {
        let row = &frame.r32[usize::from(*row)];
        for lane in 0..N {
            elements[2 * register][lane] = half(row[lane] as u16);
            elements[2 * register + 1][lane] = half((row[lane] >> 16) as u16);
        }
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: Product = Product {
        d: [24, 25, 26, 27, 28, 29, 30, 31],
        a: [0, 1, 2, 3, 4, 5, 6, 7],
        b: [8, 9, 10, 11, 12, 13, 14, 15],
        c: [16, 17, 18, 19, 20, 21, 22, 23],
    };

    fn frame(fill: impl Fn(usize, usize) -> u32) -> Frame {
        let rows = (0..32).map(|row| std::array::from_fn(|lane| fill(row, lane)));
        Frame { r32: rows.collect(), ..Frame::default() }
    }

    fn bits(seed: &mut u64) -> u32 {
        // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
        *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (z ^ (z >> 27)) as u32
    }

    #[test]
    fn halves_convert_exactly() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (0x0400, 2f32.powi(-14)),
            (0x0001, 2f32.powi(-24)),
            (0x83FF, -1023.0 * 2f32.powi(-24)),
            (0x7C00, f32::INFINITY),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(half(bits), value, "{bits:#x}");
        }
        assert!(half(0x7E00).is_nan() && half(0x8000).is_sign_negative());
    }

    #[test]
    fn random_matrices_match_the_plain_product() {
        for first in 0..50 {
            let mut seed = first;
            let words: Vec<[u32; 32]> = (0..32)
                .map(|row| {
                    std::array::from_fn(|lane| match row {
                        // Halves between 1/16 and 16 of either sign, equal in both copies.
                        0..16 => {
                            let mut own = seed ^ (row as u64) << 8 ^ (lane as u64 % 16);
                            let word = bits(&mut own);
                            (word & 0x83FF_83FF) | (0x2C00_2C00 + (word >> 3 & 0x0C00_0C00))
                        }
                        _ => (bits(&mut seed) as f32 / 1e9).to_bits(),
                    })
                })
                .collect();
            let mut all = frame(|row, lane| words[row][lane]);
            assert!(multiply_add(&mut all, &ROWS, u32::MAX));
            let element = |first: usize, position: usize, k: usize| {
                half((words[first + k / 2][position] >> (16 * (k % 2))) as u16)
            };
            for row in 0..16 {
                for column in 0..16 {
                    let (lane, register) = (row + 16 * (column / 8), column % 8);
                    let mut sum = f32::from_bits(words[16 + register][lane]);
                    for k in 0..16 {
                        sum += element(0, row, k) * element(8, column, k);
                    }
                    assert_eq!(all.r32[24 + register][lane], sum.to_bits(), "{row}, {column}");
                }
            }
        }
    }

    #[test]
    fn equal_elements_give_the_sum_of_the_general_path() {
        let mut seed = 3;
        for _ in 0..100 {
            let (a, b) = (bits(&mut seed) & 0xBFFF_BFFF, bits(&mut seed) & 0xBFFF_BFFF);
            let c = (bits(&mut seed) as f32 / 1e6).to_bits();
            let mut all = frame(|row, _| [a, b, c, 0][row / 8]);
            let sums = product(&all, &ROWS);
            assert!(multiply_add(&mut all, &ROWS, u32::MAX));
            for row in 24..32 {
                assert_eq!(all.r32[row], [sums[0][0].to_bits(); 32], "{a:#x} {b:#x} {c:#x}");
            }
            assert!(sums.iter().flatten().all(|sum| sum.to_bits() == sums[0][0].to_bits()));
        }
    }

    #[test]
    fn one_different_element_takes_the_general_path() {
        for (row, lane) in [(0, 0), (7, 15), (8, 3), (15, 9), (16, 31), (23, 0)] {
            let one = |at: usize| if at < 16 { 0x3C00_3C00 } else { 0 };
            let equal = frame(|at, _| one(at));
            let other = frame(|at, l| {
                one(at) ^ u32::from((at, l) == (row, lane)) << if at < 16 { 9 } else { 30 }
            });
            let of = |mut frame: Frame| {
                assert!(multiply_add(&mut frame, &ROWS, u32::MAX));
                frame.r32[24..].to_vec()
            };
            assert!(of(equal) != of(other), "{row}, {lane}");
        }
    }

    #[test]
    fn a_partial_warp_computes_nothing() {
        let mut all = frame(|_, _| 0x3C00_3C00);
        let before = all.r32.clone();
        assert!(!multiply_add(&mut all, &ROWS, 0xFFFF));
        assert_eq!(all.r32, before);
    }
}
