//! Large launches from a few blocks: which ones to run, whether they may stand for the rest.

use super::counts::Counts;
use super::exec::{BlockCounts, Execution, Launch, Timer, execute, grid_blocks};
use super::fault::KernelFault;
use super::memory::DeviceMemory;
use super::program::Program;

/// What a sample says about the whole grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The blocks that ran and what they did.
    pub executed: Execution,
    /// Counts of the grid: those of the first and the last block, and the mean of the interior
    /// ones for each of the others.
    pub counts: Counts,
    /// Estimated bytes of the cache lines that the grid touches: what was seen, and for each block
    /// that did not run the mean of what an interior one added; never more than the ranges hold.
    pub footprint_bytes: u64,
    /// Largest relative difference between interior blocks over all counts.
    pub spread: f64,
    /// Whether the interior blocks are alike within the tolerance; if not, the grid figures mean
    /// nothing. Always true when every block ran.
    pub legitimate: bool,
}

/// The blocks to run: the first, the last, and `interior` others, one in each of as many equal
/// parts of the grid. Where in its part is scrambled, so that blocks of one parity or of one
/// column do not stand for all; equal arguments give equal blocks.
pub fn sample_blocks(grid_blocks: u64, interior: u64) -> Vec<u64> {
    if grid_blocks <= interior.saturating_add(2) {
        return (0..grid_blocks).collect();
    }
    let inside = grid_blocks - 2;
    let mut all = vec![0];
    for part in 0..interior {
        let bound =
            |part: u64| (u128::from(inside) * u128::from(part) / u128::from(interior)) as u64;
        let (from, to) = (bound(part), bound(part + 1));
        all.push(1 + from + scramble(part) % (to - from).max(1));
    }
    all.push(grid_blocks - 1);
    all
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
/// Generators", 2014).
fn scramble(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Runs a sample of a launch and extrapolates it. `tolerance` is the relative difference between
/// interior blocks that still counts as alike.
pub fn execute_sampled(
    program: &Program,
    launch: &Launch<'_>,
    interior: u64,
    tolerance: f64,
    memory: &mut DeviceMemory<'_>,
    timer: &mut dyn Timer,
) -> Result<Sampled, Box<KernelFault>> {
    let grid = grid_blocks(launch);
    let blocks = sample_blocks(grid, interior);
    let keeping = Launch {
        keep_blocks: true,
        limits: launch.limits.clone(),
        ..*launch
    };
    let executed = execute(program, &keeping, blocks, memory, timer)?;
    let mut touched = executed.footprint.read_ranges();
    touched.extend(executed.footprint.written_ranges());
    touched.sort_unstable();
    touched.dedup();
    let most = touched
        .into_iter()
        .map(|range| memory.range_bytes(range))
        .sum();
    Ok(extrapolate(executed, grid, tolerance, most))
}

/// Extrapolates an execution with `keep_blocks` of the blocks that [`sample_blocks`] chose.
pub fn extrapolate(
    executed: Execution,
    grid_blocks: u64,
    tolerance: f64,
    most_footprint_bytes: u64,
) -> Sampled {
    let ran = executed.blocks.len() as u64;
    if ran >= grid_blocks || ran < 3 {
        let legitimate = ran >= grid_blocks;
        let spread = if legitimate { 0.0 } else { f64::INFINITY };
        return Sampled {
            counts: executed.counts.clone(),
            footprint_bytes: executed.footprint.bytes(),
            spread,
            legitimate,
            executed,
        };
    }
    let interior = &executed.blocks[1..executed.blocks.len() - 1];
    let spread = spread(interior);
    let mut counts = executed.blocks[0].counts.clone();
    counts.add(&executed.blocks[executed.blocks.len() - 1].counts);
    let mut inside = Counts::default();
    interior.iter().for_each(|block| inside.add(&block.counts));
    let scale = |sum: u64| scaled(sum, grid_blocks - 2, interior.len() as u64);
    inside
        .sums_mut()
        .into_iter()
        .for_each(|sum| *sum = scale(*sum));
    counts.add(&inside);
    let added: u64 = interior.iter().map(|block| block.new_footprint_bytes).sum();
    let unseen = scaled(added, grid_blocks - ran, interior.len() as u64);
    let seen = executed.footprint.bytes();
    Sampled {
        counts,
        footprint_bytes: seen
            .saturating_add(unseen)
            .min(most_footprint_bytes.max(seen)),
        spread,
        legitimate: spread <= tolerance,
        executed,
    }
}

/// `sum * numerator / denominator`, wide enough and rounded to the nearest.
fn scaled(sum: u64, numerator: u64, denominator: u64) -> u64 {
    let denominator = u128::from(denominator.max(1));
    let product = u128::from(sum) * u128::from(numerator) + denominator / 2;
    u64::try_from(product / denominator).unwrap_or(u64::MAX)
}

/// The largest relative difference of any count between blocks.
fn spread(blocks: &[BlockCounts]) -> f64 {
    let all: Vec<Vec<u64>> = blocks.iter().map(|block| block.counts.sums()).collect();
    let figures = all.first().map_or(0, Vec::len);
    let one = |figure: usize| {
        let values = all.iter().map(|sums| sums[figure]);
        let most = values.clone().max().unwrap_or(0);
        let least = values.min().unwrap_or(0);
        if most == 0 {
            0.0
        } else {
            (most - least) as f64 / most as f64
        }
    };
    (0..figures).map(one).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_hold_both_ends_and_mix_parities() {
        let blocks = sample_blocks(100_000, 8);
        assert_eq!((blocks.len(), blocks[0], blocks[9]), (10, 0, 99_999));
        assert!(blocks.windows(2).all(|pair| pair[0] < pair[1]));
        let odd = blocks[1..9].iter().filter(|block| **block % 2 == 1).count();
        assert!((1..8).contains(&odd), "{odd} of 8 odd");
        assert_eq!(sample_blocks(6, 4), [0, 1, 2, 3, 4, 5]);
        assert_eq!(sample_blocks(7, 4).len(), 6);
        assert_eq!(sample_blocks(0, 4), [0u64; 0]);
    }
}
