//! Digests of buffers, computed alike on the device and on the host.

use super::{Cost, VECTOR_BYTES, elements_of};
use crate::driver::{DevicePtr, Grid};
use crate::kernel_set::KernelSet;
use crate::verify::{Check, VerifyError, pattern_word};

/// Folds a buffer into one word for each thread.
#[derive(Debug, Clone, Copy)]
pub struct Digest {
    /// The buffer, aligned to 16 bytes.
    pub src: DevicePtr,
    /// Bytes of the buffer; a remainder below 16 bytes is not read.
    pub bytes: u64,
    /// One u64 for each thread of the grid.
    pub partials: DevicePtr,
    pub grid: Grid,
}

launcher! {
    Digest(self), self.grid, [ptr self.src, u64 self.bytes / VECTOR_BYTES, ptr self.partials]
        => Cost { dram_read_bytes: self.bytes / VECTOR_BYTES * VECTOR_BYTES, ..Cost::default() }
}

/// The fold after one more word. It is a bijection of `fold` and of `word`, so one changed word
/// always changes the result.
pub fn step(fold: u64, word: u64) -> u64 {
    let fold = (fold ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    fold ^ (fold >> 29)
}

/// Each thread has the host's fold, and one changed bit changes the fold of its thread alone.
pub fn verify_digest(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("digest", kernels)?;
    let grid = Grid::new(2, 64);
    let threads = grid.total_threads();
    let partials = check.zeros::<u64>(threads as usize)?;
    // Rounds of four with a remainder and without, and fewer vectors than threads.
    for vectors in [threads * 9 + 5, threads * 8, 20] {
        let mut words: Vec<u64> =
            (0..2 * vectors).map(|i| u64::from(pattern_word(i, 31)) << 16).collect();
        let src = check.buffer(&words)?;
        let (bytes, at) = (vectors * VECTOR_BYTES, partials.device_ptr());
        let launch = Digest { src: src.device_ptr(), bytes, partials: at, grid };
        let last = words.len() - 1;
        for flipped in [0, 1 << 63] {
            words[last] ^= flipped;
            src.write(last, &words[last..])?;
            check.run(&launch)?;
            let fold_of = |thread| {
                elements_of(thread, threads, vectors).fold(thread, |fold, i| {
                    step(step(fold, words[2 * i as usize]), words[2 * i as usize + 1])
                })
            };
            let expected: Vec<u64> = (0..threads).map(fold_of).collect();
            check.same_slice("folds", &partials.to_vec()?, &expected)?;
        }
    }
    Ok(())
}
