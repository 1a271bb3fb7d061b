//! Reads of on-chip memory: L1, shared memory and L2.

use super::streams::pattern_halves;
use crate::driver::{DevicePtr, Grid};
use crate::kernel::{Cost, VECTOR_BYTES, elements_of};
use crate::kernel_set::KernelSet;
use crate::verify::{Check, VerifyError};

// `l1_stream`: every block reads its own small part of a buffer repeatedly.

/// Reads a small part of a buffer in every block, several times.
#[derive(Debug, Clone, Copy)]
pub struct L1Stream {
    /// The buffer, aligned to 16 bytes: as many parts as there are blocks.
    pub src: DevicePtr,
    /// Bytes of each part, a multiple of 16; below the L1 size so that reads hit in L1.
    pub bytes_per_block: u32,
    pub passes: u32,
    /// Threads with this sum add one to `hits`; a load uses any fixed number.
    pub trigger: u64,
    /// One u32.
    pub hits: DevicePtr,
    pub grid: Grid,
}

impl L1Stream {
    fn vectors(&self) -> u32 {
        self.bytes_per_block / VECTOR_BYTES as u32
    }
}

launcher! {
    L1Stream(self), self.grid,
    [ptr self.src, u32 self.vectors(), u32 self.passes, u64 self.trigger, ptr self.hits] => {
        let reads =
            u64::from(self.grid.blocks) * u64::from(self.passes) * u64::from(self.vectors());
        Cost { l1_bytes: reads * VECTOR_BYTES, ..Cost::default() }
    }
}

/// The device counts the host's sums, and does not with one pass less.
pub fn verify_l1_stream(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("l1_stream", kernels)?;
    let (grid, passes) = (Grid::new(3, 64), 3_u32);
    let threads = u64::from(grid.threads);
    let hits = check.zeros::<u32>(1)?;
    // Two or three accesses after rounds of four, none or one, and fewer accesses than threads.
    for vectors in [150_u64, 266, 20] {
        let halves = pattern_halves(vectors * u64::from(grid.blocks), 41);
        let src = check.buffer(&halves)?;
        let load = L1Stream {
            src: src.device_ptr(),
            bytes_per_block: (vectors * VECTOR_BYTES) as u32,
            passes,
            trigger: 0,
            hits: hits.device_ptr(),
            grid,
        };
        let pair = |i: u64| halves[2 * i as usize].wrapping_add(halves[2 * i as usize + 1]);
        let sum = |thread: u64| {
            let first = thread / threads * vectors;
            let own = elements_of(thread % threads, threads, vectors).map(|i| pair(first + i));
            own.fold(0, u64::wrapping_add).wrapping_mul(u64::from(passes))
        };
        let sums: Vec<u64> = (0..grid.total_threads()).map(sum).collect();
        check.counts_sums(&sums, &hits, &|trigger| Box::new(L1Stream { trigger, ..load }))?;
        let less = L1Stream { trigger: sums[0], passes: passes - 1, ..load };
        check.same("hits with a pass less", check.count_hits(&hits, &less)?, 0)?;
    }
    Ok(())
}

// `shared_stream`: reads the shared memory of its block repeatedly.

/// Reads shared memory several times.
#[derive(Debug, Clone, Copy)]
pub struct SharedStream {
    /// Bytes of shared memory per block, a multiple of 16; at most 48 KiB, because more needs an
    /// opt-in of the function.
    pub bytes_per_block: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Threads with this sum add one to `hits`; a load uses any fixed number.
    pub trigger: u64,
    /// One u32.
    pub hits: DevicePtr,
    pub blocks: u32,
    pub threads: u32,
}

impl SharedStream {
    fn vectors(&self) -> u32 {
        self.bytes_per_block / VECTOR_BYTES as u32
    }
}

launcher! {
    SharedStream(self), Grid::new(self.blocks, self.threads).with_shared(self.bytes_per_block),
    [u32 self.vectors(), u32 self.passes, u64 self.trigger, ptr self.hits] => {
        let reads = u64::from(self.blocks) * u64::from(self.passes) * u64::from(self.vectors());
        Cost { l1_bytes: reads * VECTOR_BYTES, ..Cost::default() }
    }
}

/// The device counts the host's sums, and does not with one pass less.
pub fn verify_shared_stream(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("shared_stream", kernels)?;
    let hits = check.zeros::<u32>(1)?;
    let (blocks, threads, passes) = (3_u32, 64_u32, 5_u32);
    // One or two accesses after rounds of four, three or none, and fewer accesses than threads.
    for vectors in [333, 202, 20] {
        let load = SharedStream {
            bytes_per_block: vectors * VECTOR_BYTES as u32,
            passes,
            trigger: 0,
            hits: hits.device_ptr(),
            blocks,
            threads,
        };
        let sum = |block: u32, thread: u32| {
            let own = elements_of(u64::from(thread), u64::from(threads), u64::from(vectors));
            own.map(|i| i + u64::from(block)).sum::<u64>() * u64::from(passes)
        };
        let sums: Vec<u64> =
            (0..blocks * threads).map(|thread| sum(thread / threads, thread % threads)).collect();
        check.counts_sums(&sums, &hits, &|trigger| Box::new(SharedStream { trigger, ..load }))?;
        // No thread has the largest sum if one pass is missing.
        let trigger = sums.iter().copied().max().unwrap_or(0);
        let less = SharedStream { trigger, passes: passes - 1, ..load };
        check.same("hits with a pass less", check.count_hits(&hits, &less)?, 0)?;
    }
    Ok(())
}

// `l2_stream`: reads a buffer that fits in L2 repeatedly.

/// Reads a buffer several times, bypassing L1.
#[derive(Debug, Clone, Copy)]
pub struct L2Stream {
    /// The buffer, aligned to 16 bytes.
    pub src: DevicePtr,
    /// Bytes of the buffer; below the size of L2 so that reads hit in L2.
    pub bytes: u64,
    pub passes: u32,
    /// Threads with this sum add one to `hits`; a load uses any fixed number.
    pub trigger: u64,
    /// One u32.
    pub hits: DevicePtr,
    pub grid: Grid,
}

launcher! {
    L2Stream(self), self.grid,
    [
        ptr self.src, u64 self.bytes / VECTOR_BYTES, u32 self.passes, u64 self.trigger,
        ptr self.hits,
    ] => {
        let bytes = self.bytes / VECTOR_BYTES * VECTOR_BYTES * u64::from(self.passes);
        Cost { l2_bytes: bytes, ..Cost::default() }
    }
}

/// The device counts the host's sums over all passes, and does not with one pass less.
pub fn verify_l2_stream(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("l2_stream", kernels)?;
    let grid = Grid::new(2, 64);
    let threads = grid.total_threads();
    let hits = check.zeros::<u32>(1)?;
    let passes = 3;
    // Rounds of four with a remainder and without, and fewer vectors than threads.
    for vectors in [threads * 5 + 3, threads * 4, 20] {
        let halves = pattern_halves(vectors, 31);
        let src = check.buffer(&halves)?;
        let load = L2Stream {
            src: src.device_ptr(),
            bytes: vectors * VECTOR_BYTES,
            passes,
            trigger: 0,
            hits: hits.device_ptr(),
            grid,
        };
        let pair = |i: u64| halves[2 * i as usize].wrapping_add(halves[2 * i as usize + 1]);
        let sum = |thread| {
            let once = elements_of(thread, threads, vectors).map(pair).fold(0, u64::wrapping_add);
            once.wrapping_mul(u64::from(passes))
        };
        let sums: Vec<u64> = (0..threads).map(sum).collect();
        check.counts_sums(&sums, &hits, &|trigger| Box::new(L2Stream { trigger, ..load }))?;
        let less = L2Stream { trigger: sums[0], passes: passes - 1, ..load };
        check.same("hits with a pass less", check.count_hits(&hits, &less)?, 0)?;
    }
    Ok(())
}

// `l2_chase`: dependent loads through a ring of cache lines.

/// Words of one cache line of 128 bytes: one element of the ring lies in each.
pub const LINE_WORDS: u32 = 32;

/// Follows a ring with dependent loads, one chain per block.
#[derive(Debug, Clone, Copy)]
pub struct L2Chase {
    /// The ring, from `ring`.
    pub chain: DevicePtr,
    /// Block b starts at word b * `start_stride`; a multiple of `LINE_WORDS` inside the ring.
    pub start_stride_words: u32,
    pub steps: u32,
    /// One u32 per block: its last position.
    pub last: DevicePtr,
    /// One u64 per block: its time on `%globaltimer`.
    pub elapsed_ns: DevicePtr,
    /// One chain per block; one thread of each block works.
    pub blocks: u32,
}

launcher! {
    L2Chase(self), Grid::new(self.blocks, 1),
    [
        ptr self.chain, u32 self.start_stride_words, u32 self.steps,
        ptr self.last, ptr self.elapsed_ns,
    ] => {
        let steps = u64::from(self.blocks) * u64::from(self.steps);
        // A load of one word moves one sector of 32 bytes (Nsight Compute guide, "L2 cache").
        Cost { chase_steps: steps, l2_bytes: 32 * steps, ..Cost::default() }
    }
}

/// A ring through `lines` cache lines in random order: `ring[i]` is the word index of the element
/// after the one at word i. Words between the elements are zero.
///
/// Sattolo's algorithm (1986) over a SplitMix64 sequence (Steele, Lea, Flood 2014): one full cycle
/// of all lines, so that a chase visits each line once before it repeats, in an unpredictable
/// order.
pub fn ring(lines: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..lines).collect();
    let mut state = seed;
    for at in (1..order.len()).rev() {
        let random = split_mix(&mut state);
        // Multiply-shift onto [0, at): Sattolo never swaps an element with itself.
        let other = ((u128::from(random) * at as u128) >> 64) as usize;
        order.swap(at, other);
    }
    let mut words = vec![0_u32; lines as usize * LINE_WORDS as usize];
    for (line, next) in order.into_iter().enumerate() {
        words[line * LINE_WORDS as usize] = next * LINE_WORDS;
    }
    words
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Every block ends where the host ends and takes time. A broken ring gives no time.
pub fn verify_l2_chase(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("l2_chase", kernels)?;
    let (lines, blocks) = (512, 4);
    let start_stride_words = lines / blocks * LINE_WORDS;
    let mut words = ring(lines, 7);
    let chase = |words: &[u32], steps| -> Result<(Vec<u32>, Vec<u64>), VerifyError> {
        let chain = check.buffer(words)?;
        let last = check.zeros::<u32>(blocks as usize)?;
        let elapsed_ns = check.zeros::<u64>(blocks as usize)?;
        check.run(&L2Chase {
            chain: chain.device_ptr(),
            start_stride_words,
            steps,
            last: last.device_ptr(),
            elapsed_ns: elapsed_ns.device_ptr(),
            blocks,
        })?;
        Ok((last.to_vec()?, elapsed_ns.to_vec()?))
    };
    for steps in [0, 1_500] {
        let (last, elapsed_ns) = chase(&words, steps)?;
        let ends = |block| (0..steps).fold(block * start_stride_words, |at, _| words[at as usize]);
        check.same_slice("ends", &last, &(0..blocks).map(ends).collect::<Vec<_>>())?;
        for elapsed in elapsed_ns {
            // The start value does not matter: only the difference is kept.
            check.lasted("a chase", 1, 1 + elapsed, u64::from(steps > 0))?;
        }
    }
    words[0] = u32::MAX;
    let (last, elapsed_ns) = chase(&words, 1)?;
    check.same("end of a broken ring", last[0], u32::MAX)?;
    check.same("time of a broken ring", elapsed_ns[0], 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_one_cycle_through_all_lines() {
        for (lines, seed) in [(1, 1), (2, 1), (3, 9), (64, 1), (1000, 5)] {
            let words = ring(lines, seed);
            let mut at = 0;
            for step in 1..=lines {
                at = words[at as usize];
                assert_eq!(at % LINE_WORDS, 0);
                assert_eq!(at == 0, step == lines, "{lines} lines, step {step}");
            }
        }
    }

    #[test]
    fn the_seed_decides_the_ring() {
        assert_eq!(ring(256, 3), ring(256, 3));
        assert_ne!(ring(256, 3), ring(256, 4));
    }

    /// The first output for state 0 in the reference implementation (splitmix64.c, S. Vigna).
    #[test]
    fn split_mix_is_the_published_one() {
        assert_eq!(split_mix(&mut 0), 0xe220_a839_7b1d_cdaf);
    }
}
