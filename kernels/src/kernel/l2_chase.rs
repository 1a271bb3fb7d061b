//! `l2_chase`: dependent loads through a ring of cache lines.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Words of one cache line of 128 bytes: one element of the ring lies in each.
pub const LINE_WORDS: u32 = 32;

/// Follows a ring with dependent loads, one chain per block.
#[derive(Debug, Clone, Copy)]
pub struct L2Chase {
    /// The ring, from `ring`.
    pub chain: DevicePtr,
    /// Block b starts at word b * `start_stride`; a multiple of `LINE_WORDS` inside the ring.
    pub start_stride_words: u32,
    /// Number of dependent loads.
    pub steps: u32,
    /// One u32 per block: its last position.
    pub last: DevicePtr,
    /// One u64 per block: its time on `%globaltimer`.
    pub elapsed_ns: DevicePtr,
    /// One chain per block; one thread of each block works.
    pub blocks: u32,
}

impl Launcher for L2Chase {
    fn kernel(&self) -> Kernel {
        Kernel::L2Chase
    }

    fn grid(&self) -> Grid {
        Grid::new(self.blocks, 1)
    }

    fn args(&self) -> Args {
        let args = Args::new().ptr(self.chain).u32(self.start_stride_words).u32(self.steps);
        args.ptr(self.last).ptr(self.elapsed_ns)
    }

    fn cost(&self) -> Cost {
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
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
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
