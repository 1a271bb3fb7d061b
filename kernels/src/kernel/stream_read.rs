//! `stream_read`: reads a buffer once.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::{VECTOR_BYTES, elements_of};
use crate::kernel_set::{KernelSet, Launcher};
use crate::pattern::pattern_word;
use crate::verify::{Check, VerifyError};

/// Reads a buffer once.
#[derive(Debug, Clone, Copy)]
pub struct StreamRead {
    /// The buffer, aligned to 16 bytes.
    pub src: DevicePtr,
    /// Bytes of the buffer; a remainder below 16 bytes is not read.
    pub bytes: u64,
    /// Threads with this fold add one to `hits`; a load uses any fixed number.
    pub trigger: u64,
    /// One u32.
    pub hits: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for StreamRead {
    fn kernel(&self) -> Kernel {
        Kernel::StreamRead
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        let vectors = self.bytes / VECTOR_BYTES;
        Args::new().ptr(self.src).u64(vectors).u64(self.trigger).ptr(self.hits)
    }

    fn cost(&self) -> Cost {
        let bytes = self.bytes / VECTOR_BYTES * VECTOR_BYTES;
        Cost { dram_read_bytes: bytes, ..Cost::default() }
    }
}

/// The pattern of `pattern_fill` as the 64-bit halves of 16-byte vectors.
pub(crate) fn pattern_halves(vectors: u64, seed: u32) -> Vec<u64> {
    let word = |i| u64::from(pattern_word(i, seed));
    (0..2 * vectors).map(|half| word(2 * half) | word(2 * half + 1) << 32).collect()
}

/// The device finds the folds of the first and the last thread as often as the host does, and finds
/// none after a single bit of the buffer changes.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("stream_read", kernels)?;
    let grid = Grid::new(2, 64);
    let threads = grid.total_threads();
    let hits = check.zeros::<u32>(1)?;
    // Rounds of four with a remainder and without, and fewer vectors than threads.
    for vectors in [threads * 9 + 5, threads * 8, 20] {
        let mut halves = pattern_halves(vectors, 11);
        let src = check.buffer(&halves)?;
        let load = StreamRead {
            src: src.device_ptr(),
            bytes: vectors * VECTOR_BYTES,
            trigger: 0,
            hits: hits.device_ptr(),
            grid,
        };
        let pair = |i: u64| halves[2 * i as usize] ^ halves[2 * i as usize + 1];
        let fold = |thread| elements_of(thread, threads, vectors).fold(0, |fold, i| fold ^ pair(i));
        let folds: Vec<u64> = (0..threads).map(fold).collect();
        check.counts_sums(&folds, &hits, &|trigger| Box::new(StreamRead { trigger, ..load }))?;
        let last = halves.len() - 1;
        halves[last] ^= 1;
        src.write(last, &halves[last..])?;
        let trigger = folds[((vectors - 1) % threads) as usize];
        let found = check.count_hits(&hits, &StreamRead { trigger, ..load })?;
        check.same("hits after a bit flipped", found, 0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_leaves_out_the_unread_remainder() {
        let read = StreamRead {
            src: DevicePtr::NULL,
            bytes: 1000,
            trigger: 0,
            hits: DevicePtr::NULL,
            grid: Grid::new(1, 1),
        };
        assert_eq!(read.cost().dram_read_bytes, 992);
        assert_eq!(read.args().sizes(), [8, 8, 8, 8]);
    }

    #[test]
    fn halves_are_little_endian_pairs_of_words() {
        let halves = pattern_halves(1, 3);
        assert_eq!(halves.len(), 2);
        assert_eq!(halves[0] & 0xffff_ffff, u64::from(pattern_word(0, 3)));
        assert_eq!(halves[1] >> 32, u64::from(pattern_word(3, 3)));
    }
}
