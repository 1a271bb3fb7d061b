//! Latencies of the open loop, block by block: as they are, and over those of the solo cells.

use gpubench_record::{CellFigures, CellResult, Condition, Estimate, Gate, GateState, LostKind};
use gpubench_stats::{Confidence, Effect, LogRatio, NoEstimate};

use super::cells::{Cells, Key, Reading};
use super::rates::{Alone, LeftOut, Logs, Pairs, printed};
use super::systematic::Systematic;
use crate::gate::OPEN_REQUESTS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    Median,
    P99,
}

impl Quantile {
    /// That of a cell, in ns; `None` without a positive one.
    pub fn ns(self, cell: &CellResult) -> Option<f64> {
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
pub fn trusted<'a>(cells: &Cells<'a>, key: &Key) -> Alone<'a> {
    let mut alone = cells.alone(key);
    alone.only_punctual();
    alone
}

/// The logarithms of a quantile of these cells.
pub fn logs(alone: &Alone<'_>, quantile: Quantile) -> Logs {
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
        confidence: alone.confidence,
    }
}

/// A figure of the open loops of a contended pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// A quantile in ns.
    Of(Quantile),
    /// A quantile beside the aggressor over that of the solo cell of the same block.
    OverSolo(Quantile),
    /// The p99 over the median beside the aggressor, over the same of the solo cell: above 1 where
    /// the tail moves more than the median.
    TailOverMedian,
}

/// The figure with its interval and what lateness can have done to it; `None` without a block.
pub fn estimate(
    cells: &Cells<'_>,
    contended: &Key,
    latency: Latency,
) -> Option<Result<Estimate, NoEstimate>> {
    let blocks = match latency {
        Latency::Of(quantile) => {
            let trusted = trusted(cells, contended).measured.into_iter();
            let blocks = trusted.filter_map(|(_, cell)| {
                let ns = quantile.ns(cell)?;
                Some([ns, -ns * (-quantile.late(cell)).exp_m1(), 0.0])
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
    (!blocks.is_empty()).then(|| interval(&blocks, latency, cells.confidence()))
}

/// The interval of blocks that each have a value, and by how much it may be lower and higher.
fn interval(
    blocks: &[[f64; 3]],
    latency: Latency,
    confidence: Confidence,
) -> Result<Estimate, NoEstimate> {
    let mean = |at: usize| blocks.iter().map(|block| block[at]).sum::<f64>() / blocks.len() as f64;
    let (down, up) = (mean(1), mean(2));
    let values = || blocks.iter().map(|[value, ..]| *value);
    let (found, lo, hi) = if matches!(latency, Latency::Of(_)) {
        let mean = Effect::of_mean(&values().collect::<Vec<f64>>())?.interval(confidence)?;
        (printed(mean, "ns"), mean.lo - down, mean.hi + up)
    } else {
        let logs = values().map(f64::ln).collect();
        let ratio = LogRatio::from_logs(logs)?.interval(confidence)?;
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

// The tail at the offered load: how much longer it is beside an aggressor than natively, block by
// block. It holds what the queue of the load makes of longer service times.
//
// `[(q99 - q50)_C - (q99 - q50)_N] / q50_N`. Subtrahend and denominator are native: with solo
// values there, a mechanism that is slow without a neighbour would have a shorter one.

/// The unit of jitter and of tails.
pub const UNIT: &str = "native medians";

/// The contended and native cells of the blocks whose open loops count; `None` where either was not
/// planned.
pub fn pairs<'a>(cells: &Cells<'a>, contended: &Key) -> Option<Pairs<'a>> {
    let mut pairs = cells.pair(contended, &cells.native_of(contended))?;
    if cells.reading() == Reading::Printed {
        pairs.only_punctual();
    }
    only_beside_the_aggressor(cells, contended, &mut pairs);
    Some(pairs)
}

/// What victims that did not keep up were offered and got done, as means over their blocks. They
/// have no percentiles there, because these grow with the length of the run.
pub struct Overload {
    pub blocks: usize,
    pub offered_per_s: Option<f64>,
    pub goodput_per_s: Option<f64>,
    pub backlog_slope_per_s: Option<f64>,
}

impl Overload {
    /// Of the contended cells; `None` where the victim kept up in all blocks.
    pub fn of(pairs: &Pairs<'_>) -> Option<Self> {
        let contended = pairs.measured.iter().map(|(_, top, _)| *top);
        let overloaded: Vec<&CellResult> = contended.filter(|cell| is_overloaded(cell)).collect();
        let mean = |figure: fn(&CellFigures) -> Option<f64>| {
            let values: Vec<f64> =
                overloaded.iter().filter_map(|cell| figure(&cell.figures)).collect();
            gpubench_stats::summary::mean(&values).ok()
        };
        (!overloaded.is_empty()).then(|| Self {
            blocks: overloaded.len(),
            offered_per_s: mean(|of| of.offered_per_s),
            goodput_per_s: mean(|of| of.goodput_per_s),
            backlog_slope_per_s: mean(|of| of.backlog_slope_per_s),
        })
    }
}

/// Leaves out blocks in which C overloaded and S is not measured. N is measured in every block
/// here, so an overload that stays is the aggressor's doing.
fn only_beside_the_aggressor(cells: &Cells<'_>, contended: &Key, pairs: &mut Pairs<'_>) {
    let solo = cells.blocks(&contended.with(Condition::S));
    let kept_up = |block: &u32| {
        solo.and_then(|solo| solo.get(block)).is_some_and(|one| one.measured().is_some())
    };
    let left_out = &mut pairs.left_out;
    pairs.measured.retain(|(block, top, _)| {
        let keep = !is_overloaded(top) || kept_up(block);
        if !keep {
            let why = "C overloaded, and S was not measured".to_owned();
            left_out.insert(*block, LeftOut { kind: LostKind::NotMeasured, why });
        }
        keep
    });
}

fn is_overloaded(cell: &CellResult) -> bool {
    cell.gate_state(&Gate::Overload) == Some(GateState::NotEvaluated)
}

/// The growth of the tail of each block, with its ends without the lateness of the harness.
pub struct Tail {
    pub blocks: Vec<u32>,
    pub values: Vec<f64>,
    ends: Vec<Ends>,
    confidence: Confidence,
}

impl Tail {
    /// Of the blocks with so many requests or more in both cells.
    pub fn of(pairs: &Pairs<'_>, requests_min: u64) -> Self {
        let mut tail = Self {
            blocks: Vec::new(),
            values: Vec::new(),
            ends: Vec::new(),
            confidence: pairs.confidence,
        };
        for (block, top, native) in &pairs.measured {
            if let Some(value) = beyond(top, native, native, requests_min) {
                tail.blocks.push(*block);
                tail.values.push(value);
                tail.ends.push(Ends::of(top, native, value));
            }
        }
        tail
    }

    /// The mean with its interval, and what lateness may have changed.
    pub fn estimate(&self) -> Result<Estimate, NoEstimate> {
        let jitter = Effect::of_mean(&self.values)?.interval(self.confidence)?;
        let jitter = printed(jitter, UNIT);
        let (down, up) = self.bounds();
        let (lo, hi) = (jitter.lo - down, jitter.hi + up);
        let known = self.ends.iter().all(|ends| ends.known);
        Ok(Systematic { known, ..Systematic::default() }.with_ends(jitter, lo, hi))
    }

    /// By how much the mean may be lower and higher: the means over blocks.
    pub fn bounds(&self) -> (f64, f64) {
        let mean = |of: fn(f64, &Ends) -> f64| {
            let blocks = self.values.iter().zip(&self.ends);
            blocks.map(|(value, ends)| of(*value, ends)).sum::<f64>()
                / self.values.len().max(1) as f64
        };
        (mean(|value, ends| value - ends.lo), mean(|value, ends| ends.hi - value))
    }
}

/// `[(q99 - q50)_cell - (q99 - q50)_reference] / q50_native`; `None` where a cell has too few
/// requests for a p99.
fn beyond(
    cell: &CellResult,
    reference: &CellResult,
    native: &CellResult,
    requests_min: u64,
) -> Option<f64> {
    let median_ns = native.figures.open_latency_p50_ns.filter(|ns| *ns > 0.0)?;
    let spread_ns = |of: &CellResult| {
        let has_enough = *of.requests.get(OPEN_REQUESTS)? >= requests_min;
        let spread_ns = of.figures.open_latency_p99_ns? - of.figures.open_latency_p50_ns?;
        has_enough.then_some(spread_ns)
    };
    let value = (spread_ns(cell)? - spread_ns(reference)?) / median_ns;
    value.is_finite().then_some(value)
}

/// The least and the most that the value of a block can be without the lateness of the harness.
struct Ends {
    lo: f64,
    hi: f64,
    /// Whether the cells have what they follow from.
    known: bool,
}

impl Ends {
    /// Each quantile lies between its lower figure and the one as measured, so each end takes the
    /// opposite ends of the two that are subtracted. Figures as measured where a cell has no lower
    /// ones: in virtual time, and in older records, whose part is unknown.
    fn of(cell: &CellResult, native: &CellResult, value: f64) -> Self {
        let known = [cell, native].iter().all(|cell| {
            let virtual_time = cell.gate_state(&Gate::Lateness) == Some(GateState::NotApplicable);
            virtual_time || cell.figures.open_latency_p99_lower_ns.is_some()
        });
        let [(lo, hi), (native_lo, native_hi)] = [cell, native].map(spread_ends_ns);
        let (Some(median_ns), true) = (native.figures.open_latency_p50_ns, known) else {
            return Self { lo: value, hi: value, known };
        };
        let median_lo_ns = native.figures.open_latency_p50_lower_ns.unwrap_or(median_ns);
        let (least_ns, most_ns) = (lo - native_hi, hi - native_lo);
        let by = |spread_ns: f64| [median_lo_ns, median_ns].map(|median_ns| spread_ns / median_ns);
        Self {
            lo: by(least_ns).into_iter().fold(value, f64::min),
            hi: by(most_ns).into_iter().fold(value, f64::max),
            known,
        }
    }
}

/// The least and the most of `q99 - q50`.
fn spread_ends_ns(cell: &CellResult) -> (f64, f64) {
    let of = &cell.figures;
    let quantile = |as_is: Option<f64>, lower: Option<f64>| {
        let as_is = as_is.unwrap_or(f64::NAN);
        (lower.unwrap_or(as_is), as_is)
    };
    let (p50_lo, p50) = quantile(of.open_latency_p50_ns, of.open_latency_p50_lower_ns);
    let (p99_lo, p99) = quantile(of.open_latency_p99_ns, of.open_latency_p99_lower_ns);
    (p99_lo - p50, p99 - p50_lo)
}
