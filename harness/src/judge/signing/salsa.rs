//! scryptBlockMix over Salsa20/8 (RFC 7914, sections 3 and 4).

/// Words of a part of a block.
const WORDS: usize = 16;

/// Mixes a block of words; `spare` is as long as the block.
pub(super) fn mix_block(block: &mut [u32], spare: &mut [u32]) {
    let parts = block.len() / WORDS;
    let mut x = [0_u32; WORDS];
    x.copy_from_slice(&block[(parts - 1) * WORDS..]);
    for (number, part) in block.chunks_exact(WORDS).enumerate() {
        x.iter_mut()
            .zip(part)
            .for_each(|(word, other)| *word ^= other);
        salsa20_8(&mut x);
        // Even parts first, then the odd ones.
        let at = (number / 2 + (number % 2) * (parts / 2)) * WORDS;
        spare[at..at + WORDS].copy_from_slice(&x);
    }
    block.copy_from_slice(spare);
}

fn salsa20_8(x: &mut [u32; WORDS]) {
    let before = *x;
    for _ in 0..4 {
        for [a, b, c, d] in [[0, 4, 8, 12], [5, 9, 13, 1], [10, 14, 2, 6], [15, 3, 7, 11]] {
            quarter(x, a, b, c, d);
        }
        for [a, b, c, d] in [[0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]] {
            quarter(x, a, b, c, d);
        }
    }
    x.iter_mut()
        .zip(before)
        .for_each(|(word, other)| *word = word.wrapping_add(other));
}

fn quarter(x: &mut [u32; WORDS], a: usize, b: usize, c: usize, d: usize) {
    x[b] ^= x[a].wrapping_add(x[d]).rotate_left(7);
    x[c] ^= x[b].wrapping_add(x[a]).rotate_left(9);
    x[d] ^= x[c].wrapping_add(x[b]).rotate_left(13);
    x[a] ^= x[d].wrapping_add(x[c]).rotate_left(18);
}
