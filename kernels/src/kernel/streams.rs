//! Streams through a buffer: one read, one write, one copy.

use super::memory::PatternCheck;
use crate::driver::{DevicePtr, Grid};
use crate::kernel::{Cost, VECTOR_BYTES, elements_of};
use crate::kernel_set::KernelSet;
use crate::verify::{Check, VerifyError, pattern_word};

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
    pub grid: Grid,
}

launcher! {
    StreamRead(self), self.grid,
    [ptr self.src, u64 self.bytes / VECTOR_BYTES, u64 self.trigger, ptr self.hits] => {
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
pub fn verify_stream_read(kernels: &KernelSet) -> Result<(), VerifyError> {
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

#[derive(Debug, Clone, Copy)]
pub struct StreamWrite {
    /// The buffer, aligned to 16 bytes.
    pub dst: DevicePtr,
    /// Bytes of the buffer; a remainder below 16 bytes is not written.
    pub bytes: u64,
    /// Vector i becomes {value ^ i, i}.
    pub value: u64,
    pub grid: Grid,
}

launcher! {
    StreamWrite(self), self.grid, [ptr self.dst, u64 self.bytes / VECTOR_BYTES, u64 self.value] => {
        let bytes = self.bytes / VECTOR_BYTES * VECTOR_BYTES;
        Cost { dram_write_bytes: bytes, ..Cost::default() }
    }
}

/// Every vector has its value, and the one behind the buffer is unchanged.
pub fn verify_stream_write(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("stream_write", kernels)?;
    let guard = 0x5a5a_5a5a_5a5a_5a5a_u64;
    let value = 0x0123_4567_89ab_cdef;
    // More vectors than threads, and fewer.
    for vectors in [1_000_u64, 20] {
        let buffer = check.buffer(&vec![guard; 2 * vectors as usize + 2])?;
        let (dst, bytes) = (buffer.device_ptr(), vectors * VECTOR_BYTES);
        check.run(&StreamWrite { dst, bytes, value, grid: Grid::new(3, 96) })?;
        let mut expected: Vec<u64> = (0..vectors).flat_map(|i| [value ^ i, i]).collect();
        expected.extend([guard, guard]);
        check.same_slice("buffer", &buffer.to_vec()?, &expected)?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub struct StreamCopy {
    /// The target, aligned to 16 bytes.
    pub dst: DevicePtr,
    /// The source, aligned to 16 bytes, without overlap.
    pub src: DevicePtr,
    /// Bytes to copy; a remainder below 16 bytes is not copied.
    pub bytes: u64,
    pub grid: Grid,
}

launcher! {
    StreamCopy(self), self.grid, [ptr self.dst, ptr self.src, u64 self.bytes / VECTOR_BYTES] => {
        let bytes = self.bytes / VECTOR_BYTES * VECTOR_BYTES;
        Cost { dram_read_bytes: bytes, dram_write_bytes: bytes, ..Cost::default() }
    }
}

/// The copy equals the source on the device and on the host; memory behind it is unchanged.
pub fn verify_stream_copy(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("stream_copy", kernels)?;
    let (grid, seed) = (Grid::new(2, 64), 23);
    let threads = grid.total_threads();
    // Rounds of four with a remainder and without, and fewer vectors than threads.
    for vectors in [threads * 6 + 7, threads * 4, 20] {
        let halves = pattern_halves(vectors, seed);
        let src = check.buffer(&halves)?;
        let dst = check.zeros::<u64>(halves.len() + 2)?;
        let bytes = vectors * VECTOR_BYTES;
        check.run(&StreamCopy { dst: dst.device_ptr(), src: src.device_ptr(), bytes, grid })?;
        let wrong = check.zeros::<u32>(1)?;
        check.run(&PatternCheck {
            src: dst.device_ptr(),
            words: bytes / 4,
            seed,
            mismatches: wrong.device_ptr(),
            grid,
        })?;
        check.same("words that differ on the device", wrong.to_vec()?[0], 0)?;
        let mut expected = halves;
        expected.extend([0, 0]);
        check.same_slice("copy", &dst.to_vec()?, &expected)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Launcher as _;

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
