//! Rates and ratios of rates: one logarithm for each block, over pairs of conditions.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{
    Calibration, CellResult, Condition, Ends, Estimate, LostKind, Plan, RunRecord,
};
use gpubench_stats::series::{Modes, modes};
use gpubench_stats::summary::{Fairness, fairness};
use gpubench_stats::{Confidence, LogRatio, NoEstimate};
use gpubench_store::timeline::RetentionChart;

use super::cells::{Cells, Key, Reading};
use super::systematic::{Block, Systematic};
use crate::gate::{CLOSED_REQUESTS, open_loop_doubt};

// Rates and ratios of rates, one logarithm for each block.

/// Smallest distance of two modes, as a log ratio. Nearer modes change no level: the nearest bounds
/// of levels are 0.17 apart. Without a minimum, rounding on a device without noise would count as a
/// mode.
pub const MODES_RATIO_MIN: f64 = 0.02;

/// The figures of a cell that are below 0 and cannot be. Logarithms of ratios and the growth of a
/// backlog have both signs; rates, times and shares have not.
pub fn below_zero(cell: &CellResult) -> impl Iterator<Item = (&'static str, f64)> {
    let tenants = cell.figures.tenants.values();
    let tenants = tenants.map(|one| ("a rate of a tenant", one.rate_per_s));
    let all = cell.figures.named().chain(tenants);
    let all = all.filter_map(|(name, value)| Some((name, value?)));
    all.filter(|(name, value)| {
        *value < 0.0 && !name.ends_with("_ln") && *name != "backlog_slope_per_s"
    })
}

/// Completed requests of the closed loop, per second.
pub fn closed_rate(cell: &CellResult) -> Option<f64> {
    cell.figures.closed_rate_per_s
}

/// The offered rate of the open loop, per second.
pub fn offered_rate(cell: &CellResult) -> Option<f64> {
    cell.figures.offered_per_s
}

/// Requests that the open loop completed, per second.
pub fn completed_rate(cell: &CellResult) -> Option<f64> {
    cell.figures.goodput_per_s
}

/// By how many requests its queue grows, per second.
pub fn growth(cell: &CellResult) -> Option<f64> {
    cell.figures.backlog_slope_per_s
}

/// The logarithm of the closed-loop rate of a cell; `None` without a positive one.
pub fn ln_rate(cell: &CellResult) -> Option<f64> {
    cell.figures.closed_rate_per_s.map(f64::ln).filter(|log| log.is_finite())
}

/// The rate of one cell over that of another; `None` where one has no positive rate.
pub fn rate_ratio(top: &CellResult, bottom: &CellResult) -> Option<f64> {
    let rate = |of: &CellResult| of.figures.closed_rate_per_s.filter(|rate| *rate > 0.0);
    Some(rate(top)? / rate(bottom)?)
}

/// The achieved dose of the contended cells: the rate of their aggressors over that of one alone.
pub fn achieved_doses(pairs: &Pairs<'_>) -> Vec<f64> {
    let contended = pairs.measured.iter();
    contended.filter_map(|(_, top, _)| top.figures.achieved_dose_ratio).collect()
}

/// The logarithm of one figure for each block.
#[derive(Debug, Clone)]
pub struct Logs {
    /// Block numbers, rising.
    pub blocks: Vec<u32>,
    pub logs: Vec<f64>,
    /// The part of the interval that no number of blocks narrows.
    pub systematic: Systematic,
    pub confidence: Confidence,
}

impl Logs {
    /// The logarithms of `P_top / P_bottom`, with P the closed-loop rate, of each block.
    pub fn of_rates(pairs: &Pairs<'_>) -> Self {
        Self::of_cells(pairs.measured.iter().copied(), pairs.confidence)
    }

    /// The same of these blocks, each with both of its cells.
    pub fn of_cells<'a>(
        blocks: impl Iterator<Item = (u32, &'a CellResult, &'a CellResult)>,
        confidence: Confidence,
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
            confidence,
        }
    }

    /// The logarithms of the rate of each block.
    pub fn of_rate(alone: &Alone<'_>) -> Self {
        let rates =
            alone.measured.iter().filter_map(|(block, cell)| Some((*block, *cell, ln_rate(cell)?)));
        let counted: Vec<(u32, &CellResult, f64)> = rates.collect();
        Self {
            blocks: counted.iter().map(|(block, ..)| *block).collect(),
            logs: counted.iter().map(|(.., log)| *log).collect(),
            systematic: Systematic::of_rates(counted.iter().map(|(_, cell, _)| *cell)),
            confidence: alone.confidence,
        }
    }

    /// The logarithms of the ratio of SM clocks, in the blocks that have both. No lost CPU time
    /// moves a clock.
    pub fn of_clocks(pairs: &Pairs<'_>) -> Self {
        let clock = |cell: &CellResult| cell.figures.sm_clock_mhz;
        let measured = pairs.measured.iter();
        let counted = measured.filter_map(|(block, top, bottom)| {
            let log = clock(top)?.ln() - clock(bottom)?.ln();
            log.is_finite().then_some((*block, log))
        });
        let (blocks, logs) = counted.unzip();
        Self { blocks, logs, systematic: Systematic::default(), confidence: pairs.confidence }
    }

    pub fn mean(&self) -> Option<f64> {
        gpubench_stats::summary::mean(&self.logs).ok()
    }

    /// The logarithms of both series in the blocks that they share.
    pub fn shared(&self, other: &Self) -> (Vec<f64>, Vec<f64>) {
        let both = self.blocks.iter().zip(&self.logs).filter_map(|(block, mine)| {
            let at = other.blocks.iter().position(|one| one == block)?;
            Some((*mine, other.logs[at]))
        });
        both.unzip()
    }

    /// The ratio with its interval, and what disturbances add to it. Where the victim starved
    /// in most blocks, an upper bound.
    pub fn ratio(&self) -> Result<Estimate, NoEstimate> {
        let ratio = LogRatio::from_logs(self.logs.clone())?.interval(self.confidence)?;
        let ratio = self.systematic.widen(printed(ratio, "ratio"));
        Ok(if self.is_bound() { at_most(ratio) } else { ratio })
    }

    /// Whether the victim starved in most blocks, so that a ratio is the most that it can be.
    pub fn is_bound(&self) -> bool {
        2 * self.systematic.starved > self.blocks.len()
    }

    /// Both modes; `None` for one mode.
    pub fn two_modes(&self) -> Option<TwoModes> {
        two_modes(&self.logs, MODES_RATIO_MIN)
    }
}

// Two conditions of the same blocks, and the blocks that they leave out.

/// Two conditions of the same blocks.
#[derive(Debug, Default)]
pub struct Pairs<'a> {
    /// By block: the cells of the numerator and of the denominator, both measured.
    pub measured: Vec<(u32, &'a CellResult, &'a CellResult)>,
    /// By block: why it does not count.
    pub left_out: BTreeMap<u32, LeftOut>,
    /// Whether a cell that is left out failed, rather than being inconclusive.
    pub any_failed: bool,
    /// Of the intervals over these blocks.
    pub confidence: Confidence,
}

impl Pairs<'_> {
    /// Closed-loop requests of the victims of all these cells.
    pub fn requests(&self) -> u64 {
        let cells = self.measured.iter().flat_map(|(_, top, bottom)| [top, bottom]);
        cells.filter_map(|cell| cell.requests.get(CLOSED_REQUESTS)).sum()
    }
}

#[derive(Debug, Default)]
pub struct Alone<'a> {
    /// By block: its cell, measured.
    pub measured: Vec<(u32, &'a CellResult)>,
    /// Of the intervals over these blocks.
    pub confidence: Confidence,
    /// By block: why it does not count.
    pub left_out: BTreeMap<u32, LeftOut>,
}

/// Why a block does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub kind: LostKind,
    pub why: String,
}

impl<'a> Cells<'a> {
    /// The blocks in which both conditions were measured; `None` where either was not planned.
    pub fn pair(&self, top: &Key, bottom: &Key) -> Option<Pairs<'a>> {
        let (above, below) = (self.blocks(top)?, self.blocks(bottom)?);
        let mut pairs = Pairs { confidence: self.confidence(), ..Pairs::default() };
        let mut blocks: BTreeSet<u32> = above.keys().chain(below.keys()).copied().collect();
        blocks.retain(|block| {
            let of_both = above.contains_key(block) && below.contains_key(block);
            *block < self.common_blocks() || of_both
        });
        for block in blocks {
            let found = [above.get(&block), below.get(&block)];
            let planned = || found.iter().flatten();
            let doubts: Vec<LeftOut> = planned().filter_map(|one| one.doubt()).collect();
            let measured = found.map(|planned| planned.and_then(|planned| planned.measured()));
            pairs.any_failed |= found.iter().flatten().any(|planned| planned.failed());
            match measured {
                [Some(top), Some(bottom)] => match other_victim(top, bottom) {
                    None => pairs.measured.push((block, top, bottom)),
                    Some(why) => {
                        let kind = LostKind::Validity;
                        pairs.left_out.insert(block, LeftOut { kind, why });
                    }
                },
                _ => {
                    pairs.left_out.insert(block, LeftOut::of(&doubts));
                }
            }
        }
        Some(pairs)
    }

    pub fn alone(&self, key: &Key) -> Alone<'a> {
        let mut alone = Alone { confidence: self.confidence(), ..Alone::default() };
        for (block, planned) in self.blocks(key).into_iter().flatten() {
            match (planned.measured(), planned.doubt()) {
                (Some(cell), _) => alone.measured.push((*block, cell)),
                (None, doubt) => alone.left_out.extend(doubt.map(|doubt| (*block, doubt))),
            }
        }
        alone
    }
}

/// How the victims of two cells differ by what they reported, if they do: then a ratio of their
/// rates says nothing about the conditions.
fn other_victim(top: &CellResult, bottom: &CellResult) -> Option<String> {
    let [one, two] = [top, bottom].map(|cell| cell.tenant_results.first()?.identity.as_ref());
    let difference = one?.difference(two?)?;
    let [top, bottom] = [top, bottom].map(|cell| cell.cell.condition.as_str());
    Some(format!("the victims of {top} and {bottom} differ: {difference}"))
}

impl Pairs<'_> {
    /// Leaves out the blocks with an open loop that cannot be trusted.
    pub fn only_punctual(&mut self) {
        let left_out = &mut self.left_out;
        let kind = LostKind::Disturbance;
        self.measured.retain(|(block, top, bottom)| {
            let doubts = [top, bottom].map(|cell| {
                let why = open_loop_doubt(cell)?;
                Some(format!("{} {why}", cell.cell.condition.as_str()))
            });
            let doubts: Vec<String> = doubts.into_iter().flatten().collect();
            if !doubts.is_empty() {
                let why = doubts.join("; ");
                left_out.insert(*block, LeftOut { kind, why });
            }
            doubts.is_empty()
        });
    }
}

impl Alone<'_> {
    /// Leaves out the blocks with an open loop that cannot be trusted.
    pub fn only_punctual(&mut self) {
        let left_out = &mut self.left_out;
        self.measured.retain(|(block, cell)| {
            let why = open_loop_doubt(cell);
            if let Some(why) = &why {
                let why = format!("{} {why}", cell.cell.condition.as_str());
                left_out.insert(*block, LeftOut { kind: LostKind::Disturbance, why });
            }
            why.is_none()
        });
    }
}

impl LeftOut {
    /// Of a block with these doubts; the gravest kind counts.
    fn of(doubts: &[Self]) -> Self {
        let why: Vec<&str> = doubts.iter().map(|one| one.why.as_str()).collect();
        match doubts.iter().map(|one| one.kind).max() {
            Some(kind) => Self { kind, why: why.join("; ") },
            None => {
                Self { kind: LostKind::NotMeasured, why: "its partner was not planned".to_owned() }
            }
        }
    }
}

// The retention of each block, for the page that draws it.

/// For each pair, the retention of each variant by block; pairs with a single block everywhere have
/// no chart.
pub fn retention_charts(run: &RunRecord) -> Vec<RetentionChart> {
    let Ok(cells) = Cells::index(&run.plan, &run.cells, Reading::Printed) else {
        return Vec::new();
    };
    let mut charts: BTreeMap<String, RetentionChart> = BTreeMap::new();
    for key in cells.of(Condition::C).filter(|key| key.is_scored()) {
        let (Some(aggressor), Some(pairs)) =
            (&key.pair.aggressor, cells.pair(key, &key.with(Condition::S)))
        else {
            continue;
        };
        let title =
            format!("{}: {} beside {aggressor}", key.pair.sub_axis.as_str(), key.pair.victim);
        let blocks = pairs.measured.iter();
        let points = blocks.filter_map(|(block, contended, solo)| {
            Some((f64::from(*block), rate_ratio(contended, solo)?))
        });
        let points: Vec<(f64, f64)> = points.collect();
        if !points.is_empty() {
            let chart = charts
                .entry(title.clone())
                .or_insert_with(|| RetentionChart { title, lines: BTreeMap::new() });
            chart.lines.entry(key.variant.clone()).or_default().extend(points);
        }
    }
    charts.retain(|_, chart| chart.lines.values().any(|points| points.len() > 1));
    charts.into_values().collect()
}

// Blocks in two modes.

/// Fewest blocks that are asked for two modes. Of fewer, two on each side of a gap are common.
const MODES_BLOCKS_MIN: usize = 6;

/// Two groups of blocks, by the mean and the size of each.
#[derive(Debug, Clone, Copy)]
pub struct TwoModes {
    pub low: f64,
    pub high: f64,
    low_n: u32,
    high_n: u32,
}

/// Both modes of a series; `None` for one mode, and for a series too short to have two.
pub fn two_modes(blocks: &[f64], smallest_gap: f64) -> Option<TwoModes> {
    if blocks.len() < MODES_BLOCKS_MIN {
        return None;
    }
    match modes(blocks, smallest_gap) {
        Ok(Modes::Two { low, low_n, high, high_n }) => Some(TwoModes { low, high, low_n, high_n }),
        Ok(Modes::One) | Err(_) => None,
    }
}

impl TwoModes {
    pub fn in_words(self, shown: impl Fn(f64) -> f64) -> String {
        let Self { low_n, high_n, .. } = self;
        let (low, high) = (shown(self.low), shown(self.high));
        format!("bimodal: {low:.3} in {low_n} blocks, {high:.3} in {high_n}")
    }
}

// Estimates in the form of the record, and as text.

/// An estimate in the form of the record.
pub fn printed(estimate: gpubench_stats::Estimate, unit: &str) -> Estimate {
    let gpubench_stats::Estimate { value, lo, hi, n } = estimate;
    Estimate { value, lo, hi, ends: Ends::Interval, parts: None, n, unit: unit.to_owned() }
}

/// The upper end of an estimate as a bound, of which no value is known.
fn at_most(estimate: Estimate) -> Estimate {
    Estimate { value: 0.0, lo: 0.0, ends: Ends::AtMost, parts: None, ..estimate }
}

/// The estimate as text: value, interval, unit and number of blocks.
pub fn in_words(estimate: &Estimate) -> String {
    let Estimate { value, lo, hi, n, unit, .. } = estimate;
    format!("{value:.3} [{lo:.3}, {hi:.3}] {unit}, n = {n}")
}

// What each tenant of a contended cell gets done, and how much of the device that uses.
//
// The progress of the victim is its rate over its native rate in the same block; that of an
// aggressor is its rate over its calibrated rate alone.

/// The tenants of one contended cell.
pub struct Progress<'a> {
    pub fairness: Fairness,
    pub least: f64,
    pub most: f64,
    pub utilisation: f64,
    /// Of each tenant, the victim first.
    pub each: Vec<f64>,
    pub cell: &'a CellResult,
}

impl<'a> Progress<'a> {
    /// Of a contended cell and the native cell of its block; `None` where the progress of a tenant
    /// is unknown.
    pub fn of(
        plan: &Plan,
        calibration: &Calibration,
        contended: &'a CellResult,
        native: &CellResult,
    ) -> Option<Self> {
        let victim = rate_ratio(contended, native)?;
        let mut progress = vec![victim];
        progress.extend(neighbours(calibration, contended)?);
        // Times for the same work, with the time alone as their unit.
        let shared: Vec<f64> = progress.iter().map(|one| 1.0 / one).collect();
        Some(Self {
            fairness: fairness(&shared, &vec![1.0; progress.len()]).ok()?,
            least: progress.iter().copied().fold(f64::INFINITY, f64::min),
            most: progress.iter().copied().fold(0.0, f64::max),
            utilisation: used_by_victim(plan, calibration, contended, victim)
                + used_by_neighbours(calibration, contended, &progress[1..]),
            each: progress,
            cell: contended,
        })
    }

    pub fn gpu_time_ns(&self, tenant: &str) -> Option<f64> {
        self.cell.figures.tenants.get(tenant)?.gpu_time_ns
    }
}

/// The part of the device that the victim used: its work over what the device does of that work, by
/// the peak of the aggressor beside it. A victim uses less than its share, so its share would be
/// too much; it stands where the work of the two has different units, or no peak is known.
fn used_by_victim(
    plan: &Plan,
    calibration: &Calibration,
    contended: &CellResult,
    progress: f64,
) -> f64 {
    let work = || {
        let own = calibration.entries.get(&contended.cell.victim)?;
        let peak = calibration.peaks.get(contended.cell.aggressor.as_ref()?)?;
        let rate = contended.figures.closed_rate_per_s?;
        (own.unit == peak.unit).then_some(rate * own.work_per_request / peak.peak_per_s)
    };
    work().unwrap_or(progress * plan.share)
}

/// The part that the neighbours used: an aggressor alone may use less than the whole device.
fn used_by_neighbours(calibration: &Calibration, contended: &CellResult, progress: &[f64]) -> f64 {
    let alone = |workload: Option<&String>| {
        let peak = calibration.peaks.get(workload?)?;
        Some(peak.alone_per_s / peak.peak_per_s)
    };
    let neighbours = contended.cell.tenants.iter().skip(1).zip(progress);
    neighbours.map(|(one, progress)| progress * alone(one.workload.as_ref()).unwrap_or(1.0)).sum()
}

fn neighbours(calibration: &Calibration, contended: &CellResult) -> Option<Vec<f64>> {
    let neighbours = contended.cell.tenants.get(1..)?;
    // In format 1.0 a cell had the rate of all aggressors together.
    let only = contended.figures.achieved_dose_ratio;
    if let (1, Some(progress)) = (neighbours.len(), only) {
        return Some(vec![progress]);
    }
    let progress = neighbours.iter().map(|neighbour| {
        let alone = calibration.entries.get(neighbour.workload.as_ref()?)?.native_rate_per_s;
        Some(contended.figures.tenants.get(&neighbour.tenant)?.rate_per_s? / alone)
    });
    progress.collect()
}

#[cfg(test)]
mod tests {
    use super::{Confidence, Logs, Systematic};

    #[test]
    fn shared_keeps_the_blocks_of_both_series() {
        let series = |blocks: [u32; 3], logs: [f64; 3]| Logs {
            blocks: blocks.into(),
            logs: logs.into(),
            systematic: Systematic::default(),
            confidence: Confidence::P95,
        };
        let left = series([0, 1, 3], [0.1, 0.2, 0.4]);
        let right = series([1, 2, 3], [2.0, 3.0, 4.0]);
        assert_eq!(left.shared(&right), (vec![0.2, 0.4], vec![2.0, 4.0]));
    }
}
