//! Latencies of the open loop, block by block: as they are, and over those of the solo cells.

use gpubench_record::{CellResult, Condition};

use super::cells::Cells;
use super::key::Key;
use super::logs::Logs;
use super::pairs::Alone;
use super::systematic::Systematic;

/// A quantile of the latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantile {
    Median,
    P99,
}

impl Quantile {
    /// That of a cell, in ns; `None` without a positive one.
    pub(crate) fn ns(self, cell: &CellResult) -> Option<f64> {
        let of = &cell.figures;
        let ns = match self {
            Self::Median => of.open_latency_p50_ns,
            Self::P99 => of.open_latency_p99_ns,
        };
        ns.filter(|ns| *ns > 0.0)
    }

    /// By how much it may be lower, as a logarithm: what late requests can have added.
    fn late(self, cell: &CellResult) -> f64 {
        let of = &cell.figures;
        let lower = match self {
            Self::Median => of.open_latency_p50_lower_ns,
            Self::P99 => of.open_latency_p99_lower_ns,
        };
        let both = self.ns(cell).zip(lower.filter(|ns| *ns > 0.0));
        both.map_or(0.0, |(as_is, lower)| (as_is / lower).ln().max(0.0))
    }
}

/// The cells of one condition whose open loops can be trusted.
pub(crate) fn trusted<'a>(cells: &Cells<'a>, key: &Key) -> Alone<'a> {
    let mut alone = cells.alone(key);
    alone.only_punctual();
    alone
}

/// The logarithms of a quantile of these cells.
pub(crate) fn logs(alone: &Alone<'_>, quantile: Quantile) -> Logs {
    let values = alone.measured.iter();
    let values = values.filter_map(|(block, cell)| {
        let log = quantile.ns(cell)?.ln();
        log.is_finite().then_some((*block, log, quantile.late(cell)))
    });
    let counted: Vec<(u32, f64, f64)> = values.collect();
    let late = counted.iter().map(|(.., late)| late).sum::<f64>();
    Logs {
        blocks: counted.iter().map(|(block, ..)| *block).collect(),
        logs: counted.iter().map(|(_, log, _)| *log).collect(),
        systematic: Systematic {
            down: late / counted.len().max(1) as f64,
            ..Systematic::default()
        },
    }
}

/// The values of these cells, in ns.
pub(crate) fn values_ns(cells: &Cells<'_>, contended: &Key, quantile: Quantile) -> Vec<f64> {
    let trusted = trusted(cells, contended).measured.into_iter();
    trusted.filter_map(|(_, cell)| quantile.ns(cell)).collect()
}

/// The quantile beside the aggressor over that of the solo cell of the same block.
pub(crate) fn over_solo(cells: &Cells<'_>, contended: &Key, quantile: Quantile) -> Vec<f64> {
    ratios(cells, contended, |cell| quantile.ns(cell))
}

/// The p99 over the median beside the aggressor, over the same of the solo cell: above 1 where the
/// tail moves more than the median.
pub(crate) fn tail_over_median(cells: &Cells<'_>, contended: &Key) -> Vec<f64> {
    ratios(cells, contended, |cell| Some(Quantile::P99.ns(cell)? / Quantile::Median.ns(cell)?))
}

fn ratios(
    cells: &Cells<'_>,
    contended: &Key,
    figure: impl Fn(&CellResult) -> Option<f64>,
) -> Vec<f64> {
    let Some(mut pairs) = cells.pair(contended, &contended.with(Condition::S)) else {
        return Vec::new();
    };
    pairs.only_punctual();
    let blocks = pairs.measured.iter();
    blocks.filter_map(|(_, top, solo)| Some(figure(top)? / figure(solo)?)).collect()
}
