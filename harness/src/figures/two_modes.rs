//! Blocks in two modes.

use gpubench_stats::bimodal::{Modes, modes};

/// Fewest blocks that are asked for two modes. Of fewer, two on each side of a gap are common.
const MODES_BLOCKS_MIN: usize = 6;

/// Two groups of blocks, by the mean and the size of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TwoModes {
    pub low: f64,
    pub high: f64,
    low_n: u32,
    high_n: u32,
}

/// Both modes of a series; `None` for one mode, and for a series too short to have two.
pub(crate) fn two_modes(blocks: &[f64], smallest_gap: f64) -> Option<TwoModes> {
    if blocks.len() < MODES_BLOCKS_MIN {
        return None;
    }
    match modes(blocks, smallest_gap) {
        Ok(Modes::Two { low, low_n, high, high_n }) => Some(TwoModes { low, high, low_n, high_n }),
        Ok(Modes::One) | Err(_) => None,
    }
}

impl TwoModes {
    pub(crate) fn in_words(self, shown: impl Fn(f64) -> f64) -> String {
        let Self { low_n, high_n, .. } = self;
        let (low, high) = (shown(self.low), shown(self.high));
        format!("bimodal: {low:.3} in {low_n} blocks, {high:.3} in {high_n}")
    }
}
