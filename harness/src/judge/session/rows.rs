//! The rows of a session: one figure of each block, computed from its cells.

use std::collections::BTreeMap;

use gpubench_compare::session::{Bounds, Parts};
use gpubench_compare::{Metric, Row, RowKey, Series};
use gpubench_record::{Axis, CellFigures, CellResult, Condition, RunRecord};
use gpubench_stats::moments::mean;

use super::cells::{Cells, Key};
use crate::gate::open_loop_doubt;

/// A figure of a cell.
type Figure = fn(&CellFigures) -> Option<f64>;

const P99_NS: Figure = |of| of.open_latency_p99_ns;
const P50_NS: Figure = |of| of.open_latency_p50_ns;

/// Fewest blocks of a row.
const BLOCKS_MIN: usize = 3;

/// The cells of one block, as far as they are measured.
#[derive(Clone, Copy)]
struct Block<'a> {
    cells: &'a Cells<'a>,
    contended: Option<&'a CellResult>,
    solo: Option<&'a CellResult>,
    native: Option<&'a CellResult>,
}

/// A planned cell, where it ran, and the cells of its block.
type Planned<'a> = (Option<&'a CellResult>, Block<'a>);

/// A figure of a block: in time and, where clocks are known, in cycles; with its bounds.
struct Value {
    time: f64,
    cycles: Option<f64>,
    bounds: Bounds,
}

/// Every row that the record planned.
pub(super) fn of<'a>(run: &'a RunRecord, cells: &'a Cells<'a>) -> BTreeMap<RowKey, Row> {
    let mut rows = BTreeMap::new();
    for key in cells.of(Condition::C) {
        add(run, cells, key, &contended(run, key), &mut rows);
    }
    for key in cells.of(Condition::S) {
        add(run, cells, key, &[Metric::Efficiency, Metric::SoloRate], &mut rows);
    }
    for key in cells.of(Condition::N) {
        add(run, cells, key, &[Metric::NativeRate], &mut rows);
    }
    rows
}

/// The figures of contended cells. Levels rest on full dose; below it there is a curve.
fn contended(run: &RunRecord, key: &Key<'_>) -> Vec<Metric> {
    if key.dose.is_some() {
        return vec![Metric::DoseRetention];
    }
    let mut metrics = vec![Metric::Retention, Metric::Guarantee, Metric::ContendedRate];
    if key.sub_axis == run.plan.jitter_from {
        metrics.extend([Metric::P99, Metric::P50, Metric::Jitter]);
    }
    metrics
}

/// Logs of the rate of the repeated solo cell over the first one, by variant and victim.
pub(super) fn repeats<'a>(cells: &'a Cells<'a>) -> BTreeMap<String, Vec<f64>> {
    let mut repeats: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for again in cells.of(Condition::SAgain) {
        let solo = Cells::solo(again);
        let blocks = cells.blocks(again).into_iter().flat_map(BTreeMap::keys);
        let logs = blocks.filter_map(|block| {
            let [two, one] = [again, &solo].map(|key| ln_rate(cells.measured(key, *block)?));
            Some(two? - one?)
        });
        let name = format!("{} {}", again.variant, again.victim);
        repeats.entry(name).or_default().extend(logs);
    }
    repeats
}

fn add<'a>(
    run: &RunRecord,
    cells: &'a Cells<'a>,
    key: &'a Key<'a>,
    metrics: &[Metric],
    rows: &mut BTreeMap<RowKey, Row>,
) {
    let axis = |metric| match metric {
        Metric::Jitter => Axis::Jitter.as_str().to_owned(),
        _ => format!("{}/{}", key.sub_axis.axis().as_str(), key.sub_axis.as_str()),
    };
    let mechanism = run.mechanisms.iter().find(|one| one.variant == key.variant);
    let unmeasured = mechanism.filter(|found| !found.outcome.is_measured());
    let unmeasured = unmeasured.map(|found| {
        let reason = found.outcome.reason.as_deref();
        Row::NotMeasured(reason.unwrap_or("the mechanism did not run").to_owned())
    });
    let blocks = cells.blocks(key).into_iter().flatten();
    let blocks: Vec<Planned<'_>> =
        blocks.map(|(block, result)| (*result, Block::of(cells, key, *block))).collect();
    for metric in metrics.iter().copied() {
        let row_key = RowKey {
            variant: key.variant.to_owned(),
            axis: axis(metric),
            victim: key.victim.to_owned(),
            aggressor: key.aggressor.map(str::to_owned),
            dose: key.dose,
            metric,
        };
        let row = unmeasured.clone();
        let row = row.unwrap_or_else(|| of_blocks(cells, &blocks, metric));
        // A group of its own repeats the native cells; the first one with figures counts.
        let known = rows.entry(row_key).or_insert_with(|| row.clone());
        if known.series().is_none() {
            *known = row;
        }
    }
}

fn of_blocks(cells: &Cells<'_>, blocks: &[Planned<'_>], metric: Metric) -> Row {
    let found: Vec<(&Block<'_>, Value)> = blocks
        .iter()
        .filter_map(|(_, block)| Some((block, block.value(metric)?)))
        .filter(|(_, value)| value.time.is_finite())
        .collect();
    if found.len() < BLOCKS_MIN || 2 * found.len() < blocks.len() {
        let (have, all) = (found.len(), blocks.len());
        let why = first_reason(blocks).unwrap_or("no cell has the figure");
        return Row::Invalid(format!("{have} of {all} blocks have figures; {why}"));
    }
    let bound = |end: fn(&Bounds) -> f64| {
        found.iter().map(|(_, value)| end(&value.bounds)).sum::<f64>() / found.len() as f64
    };
    let clocks = found.iter().map(|(block, _)| block.top(metric));
    let ln_clock: Option<Vec<f64>> = clocks.map(|cell| cells.ln_clock(cell?)).collect();
    let cycles: Option<Vec<f64>> = found.iter().map(|(_, value)| value.cycles).collect();
    Row::Measured(Series {
        blocks: found.iter().map(|(_, value)| value.time).collect(),
        bounds: Bounds { down: bound(|bounds| bounds.down), up: bound(|bounds| bounds.up) },
        cycles: cycles.unwrap_or_default(),
        ln_clock: ln_clock.and_then(|logs| mean(&logs).ok()),
        parts: parts(metric, found.iter().map(|(block, _)| *block)),
    })
}

/// The reason of the first cell that is not measured.
fn first_reason<'a>(blocks: &[Planned<'a>]) -> Option<&'a str> {
    let lost = blocks.iter().filter_map(|(result, _)| *result);
    lost.filter(|result| !result.outcome.is_measured())
        .find_map(|result| result.outcome.reason.as_deref())
}

impl<'a> Block<'a> {
    fn of(cells: &'a Cells<'a>, key: &'a Key<'a>, block: u32) -> Self {
        let contended = (key.condition == Condition::C).then(|| cells.measured(key, block));
        Self {
            cells,
            contended: contended.flatten(),
            solo: cells.measured(&Cells::solo(key), block),
            native: cells.measured(&cells.native(key), block),
        }
    }

    fn value(&self, metric: Metric) -> Option<Value> {
        match metric {
            Metric::Retention | Metric::DoseRetention => self.ratio(self.contended?, self.solo?),
            Metric::Guarantee => self.ratio(self.contended?, self.native?),
            Metric::Efficiency => self.ratio(self.solo?, self.native?),
            Metric::ContendedRate => self.rate(self.contended?),
            Metric::SoloRate => self.rate(self.solo?),
            Metric::NativeRate => self.rate(self.native?),
            Metric::P99 => self.latency(self.contended?, P99_NS),
            Metric::P50 => self.latency(self.contended?, P50_NS),
            Metric::Jitter => self.jitter(self.contended?, self.native?),
            Metric::Survival => None,
        }
    }

    /// The cell above the line.
    fn top(&self, metric: Metric) -> Option<&'a CellResult> {
        match metric {
            Metric::Efficiency | Metric::SoloRate => self.solo,
            Metric::NativeRate => self.native,
            _ => self.contended,
        }
    }

    /// The logarithm of the rate for each cycle of the SM clock.
    fn cycles(&self, cell: &CellResult) -> Option<f64> {
        Some(ln_rate(cell)? - self.cells.ln_clock(cell)?)
    }

    fn rate(&self, cell: &CellResult) -> Option<Value> {
        let time = ln_rate(cell)?;
        Some(Value {
            time,
            cycles: self.cycles(cell),
            bounds: Bounds { down: 0.0, up: loss(cell) },
        })
    }

    /// A rate that was measured too low makes the ratio too low, or too high below the line.
    fn ratio(&self, top: &CellResult, bottom: &CellResult) -> Option<Value> {
        let (top, bottom) = (self.rate(top)?, self.rate(bottom)?);
        Some(Value {
            time: top.time - bottom.time,
            cycles: top.cycles.zip(bottom.cycles).map(|(top, bottom)| top - bottom),
            bounds: Bounds { down: bottom.bounds.up, up: top.bounds.up },
        })
    }

    fn latency(&self, cell: &CellResult, figure: Figure) -> Option<Value> {
        let time = latency_ns(cell, figure)?.ln();
        Some(Value { time, cycles: self.cycles(cell), bounds: Bounds::default() })
    }

    /// `[(q99 - q50)_C - (q99 - q50)_N] / q50_N`.
    fn jitter(&self, contended: &CellResult, native: &CellResult) -> Option<Value> {
        let tail_ns = |cell| {
            let [p99, p50] = [P99_NS, P50_NS].map(|name| latency_ns(cell, name));
            Some(p99? - p50?)
        };
        let growth_ns = tail_ns(contended)? - tail_ns(native)?;
        Some(Value {
            time: growth_ns / latency_ns(native, P50_NS)?,
            cycles: self.cycles(contended),
            bounds: Bounds::default(),
        })
    }
}

/// The mean logarithm of the cost under each condition, in the blocks of the row.
fn parts<'a>(metric: Metric, blocks: impl Iterator<Item = &'a Block<'a>> + Clone) -> Parts {
    let cost = |cell: &CellResult| {
        if metric.is_latency() {
            Some(latency_ns(cell, P99_NS)?.ln())
        } else {
            ln_rate(cell).map(|rate| -rate)
        }
    };
    let part = |of: fn(&Block<'a>) -> Option<&'a CellResult>| {
        let costs: Vec<f64> = blocks.clone().filter_map(|block| cost(of(block)?)).collect();
        mean(&costs).ok()
    };
    Parts {
        native: part(|block| block.native),
        solo: part(|block| block.solo),
        contended: part(|block| block.contended),
    }
}

fn ln_rate(cell: &CellResult) -> Option<f64> {
    let rate = cell.figures.closed_rate_per_s?;
    (rate > 0.0).then(|| rate.ln())
}

/// The most by which the logarithm of the rate can be too low.
fn loss(cell: &CellResult) -> f64 {
    cell.figures.closed_rate_loss_max_ln.unwrap_or(0.0)
}

/// A latency of the open loop, where that can be trusted.
fn latency_ns(cell: &CellResult, figure: Figure) -> Option<f64> {
    let latency_ns = figure(&cell.figures)?;
    (latency_ns > 0.0 && open_loop_doubt(cell).is_none()).then_some(latency_ns)
}
