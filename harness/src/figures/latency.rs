//! Latencies of the open loop, block by block: as they are, and over those of the solo cells.

use gpubench_record::{CellResult, Condition, Estimate};
use gpubench_stats::{Confidence, Effect, LogRatio, NoEstimate};

use super::cells::Cells;
use super::estimate::printed;
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

/// A figure of the open loops of a contended pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Latency {
    /// The p99 beside the aggressor, in ns.
    P99,
    /// A quantile beside the aggressor over that of the solo cell of the same block.
    OverSolo(Quantile),
    /// The p99 over the median beside the aggressor, over the same of the solo cell: above 1 where
    /// the tail moves more than the median.
    TailOverMedian,
}

/// The figure with its 95 % interval and what lateness can have done to it; `None` without a block.
pub(crate) fn estimate(
    cells: &Cells<'_>,
    contended: &Key,
    latency: Latency,
) -> Option<Result<Estimate, NoEstimate>> {
    let blocks = match latency {
        Latency::P99 => {
            let trusted = trusted(cells, contended).measured.into_iter();
            let blocks = trusted.filter_map(|(_, cell)| {
                let ns = Quantile::P99.ns(cell)?;
                Some([ns, -ns * (-Quantile::P99.late(cell)).exp_m1(), 0.0])
            });
            blocks.collect()
        }
        Latency::OverSolo(quantile) => {
            ratios(cells, contended, |cell| Some([quantile.ns(cell)?, quantile.late(cell), 0.0]))
        }
        Latency::TailOverMedian => ratios(cells, contended, |cell| {
            let value = Quantile::P99.ns(cell)? / Quantile::Median.ns(cell)?;
            Some([value, Quantile::P99.late(cell), Quantile::Median.late(cell)])
        }),
    };
    (!blocks.is_empty()).then(|| interval(&blocks, latency))
}

/// The interval of blocks that each have a value, and by how much it may be lower and higher.
fn interval(blocks: &[[f64; 3]], latency: Latency) -> Result<Estimate, NoEstimate> {
    let mean = |at: usize| blocks.iter().map(|block| block[at]).sum::<f64>() / blocks.len() as f64;
    let (down, up) = (mean(1), mean(2));
    let values = || blocks.iter().map(|[value, ..]| *value);
    let (found, lo, hi) = if latency == Latency::P99 {
        let mean = Effect::of_mean(&values().collect::<Vec<f64>>())?.interval(Confidence::P95)?;
        (printed(mean, "ns"), mean.lo - down, mean.hi + up)
    } else {
        let logs = values().map(f64::ln).collect();
        let ratio = LogRatio::from_logs(logs)?.interval(Confidence::P95)?;
        (printed(ratio, "ratio"), ratio.lo * (-down).exp(), ratio.hi * up.exp())
    };
    let is_late = down > 0.0 || up > 0.0;
    Ok(if is_late { Systematic::default().with_ends(found, lo, hi) } else { found })
}

/// The figure of each contended cell over that of its solo cell: a value, and by how much its
/// logarithm may be lower and higher.
fn ratios(
    cells: &Cells<'_>,
    contended: &Key,
    figure: impl Fn(&CellResult) -> Option<[f64; 3]>,
) -> Vec<[f64; 3]> {
    let Some(mut pairs) = cells.pair(contended, &contended.with(Condition::S)) else {
        return Vec::new();
    };
    pairs.only_punctual();
    let blocks = pairs.measured.iter().filter_map(|(_, top, solo)| {
        let ([top, down, up], [solo, solo_down, solo_up]) = (figure(top)?, figure(solo)?);
        Some([top / solo, down + solo_up, up + solo_down])
    });
    blocks.collect()
}
