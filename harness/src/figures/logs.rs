//! Rates and ratios of rates, one logarithm for each block.

use gpubench_record::{CellResult, Estimate};
use gpubench_stats::{Confidence, LogRatio, NoEstimate};

use super::estimate::printed;
use super::pairs::{Alone, Pairs};
use super::systematic::{Block, Systematic};
use super::two_modes::{TwoModes, two_modes};

/// Smallest distance of two modes, as a log ratio. Nearer modes change no level: the nearest bounds
/// of levels are 0.17 apart. Without a minimum, rounding on a device without noise would count as a
/// mode.
pub(crate) const MODES_RATIO_MIN: f64 = 0.02;

/// The logarithm of the closed-loop rate of a cell; `None` without a positive one.
pub(crate) fn ln_rate(cell: &CellResult) -> Option<f64> {
    cell.figures.closed_rate_per_s.map(f64::ln).filter(|log| log.is_finite())
}

/// The rate of one cell over that of another; `None` where one has no positive rate.
pub(crate) fn rate_ratio(top: &CellResult, bottom: &CellResult) -> Option<f64> {
    let rate = |of: &CellResult| of.figures.closed_rate_per_s.filter(|rate| *rate > 0.0);
    Some(rate(top)? / rate(bottom)?)
}

/// The achieved dose of the contended cells: the rate of their aggressors over that of one alone.
pub(crate) fn achieved_doses(pairs: &Pairs<'_>) -> Vec<f64> {
    let contended = pairs.measured.iter();
    contended.filter_map(|(_, top, _)| top.figures.achieved_dose_ratio).collect()
}

/// The logarithm of one figure for each block.
#[derive(Debug, Clone)]
pub(crate) struct Logs {
    /// Block numbers, rising.
    pub blocks: Vec<u32>,
    pub logs: Vec<f64>,
    /// The part of the interval that no number of blocks narrows.
    pub systematic: Systematic,
}

impl Logs {
    /// The logarithms of `P_top / P_bottom`, with P the closed-loop rate, of each block.
    pub(crate) fn of_rates(pairs: &Pairs<'_>) -> Self {
        Self::of_cells(pairs.measured.iter().copied())
    }

    /// The same of these blocks, each with both of its cells.
    pub(crate) fn of_cells<'a>(
        blocks: impl Iterator<Item = (u32, &'a CellResult, &'a CellResult)>,
    ) -> Self {
        let counted: Vec<_> = blocks
            .filter_map(|(block, top, bottom)| {
                let log = ln_rate(top)? - ln_rate(bottom)?;
                Some((block, Block { top, bottom, log }))
            })
            .collect();
        let (numbers, blocks): (Vec<u32>, Vec<Block<'_>>) = counted.into_iter().unzip();
        Self {
            blocks: numbers,
            logs: blocks.iter().map(|one| one.log).collect(),
            systematic: Systematic::of(&blocks),
        }
    }

    /// The logarithms of the rate of each block.
    pub(crate) fn of_rate(alone: &Alone<'_>) -> Self {
        let rates =
            alone.measured.iter().filter_map(|(block, cell)| Some((*block, *cell, ln_rate(cell)?)));
        let counted: Vec<(u32, &CellResult, f64)> = rates.collect();
        Self {
            blocks: counted.iter().map(|(block, ..)| *block).collect(),
            logs: counted.iter().map(|(.., log)| *log).collect(),
            systematic: Systematic::of_rates(counted.iter().map(|(_, cell, _)| *cell)),
        }
    }

    /// The logarithms of the ratio of SM clocks, in the blocks that have both. No lost CPU time
    /// moves a clock.
    pub(crate) fn of_clocks(pairs: &Pairs<'_>) -> Self {
        let clock = |cell: &CellResult| cell.figures.sm_clock_mhz;
        let measured = pairs.measured.iter();
        let counted = measured.filter_map(|(block, top, bottom)| {
            let log = clock(top)?.ln() - clock(bottom)?.ln();
            log.is_finite().then_some((*block, log))
        });
        let (blocks, logs) = counted.unzip();
        Self { blocks, logs, systematic: Systematic::default() }
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        gpubench_stats::moments::mean(&self.logs).ok()
    }

    /// The logarithms of both series in the blocks that they share.
    pub(crate) fn shared(&self, other: &Self) -> (Vec<f64>, Vec<f64>) {
        let both = self.blocks.iter().zip(&self.logs).filter_map(|(block, mine)| {
            let at = other.blocks.iter().position(|one| one == block)?;
            Some((*mine, other.logs[at]))
        });
        both.unzip()
    }

    /// The ratio with its 95 % interval, and what disturbances add to it.
    pub(crate) fn ratio(&self) -> Result<Estimate, NoEstimate> {
        let ratio = LogRatio::from_logs(self.logs.clone())?.interval(Confidence::P95)?;
        Ok(self.systematic.widen(printed(ratio, "ratio")))
    }

    /// Both modes; `None` for one mode.
    pub(crate) fn two_modes(&self) -> Option<TwoModes> {
        two_modes(&self.logs, MODES_RATIO_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::{Logs, Systematic};

    #[test]
    fn shared_keeps_the_blocks_of_both_series() {
        let series = |blocks: [u32; 3], logs: [f64; 3]| Logs {
            blocks: blocks.into(),
            logs: logs.into(),
            systematic: Systematic::default(),
        };
        let left = series([0, 1, 3], [0.1, 0.2, 0.4]);
        let right = series([1, 2, 3], [2.0, 3.0, 4.0]);
        assert_eq!(left.shared(&right), (vec![0.2, 0.4], vec![2.0, 4.0]));
    }
}
