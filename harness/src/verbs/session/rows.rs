//! The rows of a session: each figure of the record over its blocks, as a comparison needs it.

use std::collections::BTreeMap;

use gpubench_compare::session::{Bounds, Parts};
use gpubench_compare::{Metric, Row, RowKey, Series};
use gpubench_judge::figures::latency::{self, Quantile};
use gpubench_judge::figures::lone::{self, Lone};
use gpubench_judge::figures::{Alone, Cells, Key, LeftOut, Logs, Pairs, ln_rate};
use gpubench_record::{Axis, BLOCKS_MIN, CellResult, Condition, RunRecord};
use gpubench_stats::summary::mean;

use super::facts::Means;

/// What the rows of one record are made from.
pub(super) struct Source<'a> {
    pub run: &'a RunRecord,
    pub cells: &'a Cells<'a>,
    pub clocks: &'a Means<'a>,
    pub powers: &'a Means<'a>,
}

/// A figure over the blocks that have it.
struct Found<'a> {
    blocks: Vec<u32>,
    values: Vec<f64>,
    bounds: Bounds,
    is_bound: bool,
    /// The cells whose work is counted in cycles of their clock: numerator, and denominator.
    cells: BTreeMap<u32, [Option<&'a CellResult>; 2]>,
    /// Blocks that it leaves out, with the reason of the first.
    left_out: usize,
    why: Option<String>,
}

/// Why a pair without open loops has no latencies.
const NO_OPEN_LOOP: &str = "the profile asks for no open loop of this pair, so it has no latencies";

impl<'a> Source<'a> {
    /// Every row that the record planned.
    pub(super) fn rows(&self) -> BTreeMap<RowKey, Row> {
        let mut rows = BTreeMap::new();
        for key in self.cells.of(Condition::C) {
            if key.fewer.is_some() || !key.shape.is_usual() {
                continue;
            }
            for metric in self.contended_metrics(key) {
                self.add(key, metric, &mut rows);
            }
        }
        for key in self.cells.of(Condition::S).filter(|key| key.shape.is_usual()) {
            let of_victim = [Metric::Efficiency, Metric::SoloRate].as_slice();
            let alone = [Metric::AggressorRate].as_slice();
            for metric in if self.cells.has_victim(key) { of_victim } else { alone } {
                self.add(key, *metric, &mut rows);
            }
        }
        for key in self.cells.of(Condition::N) {
            self.add(key, Metric::NativeRate, &mut rows);
        }
        rows
    }

    /// The figures of contended cells. Levels rest on full dose; below it there is a curve.
    fn contended_metrics(&self, key: &Key) -> Vec<Metric> {
        if key.dose.is_some() {
            return vec![Metric::DoseRetention];
        }
        let mut metrics = vec![Metric::Retention, Metric::Guarantee, Metric::ContendedRate];
        if key.pair.sub_axis == self.run.plan.jitter_from {
            metrics.extend([Metric::P99, Metric::P50]);
        }
        if self.run.plan.has_jitter_of(key.pair.sub_axis) {
            metrics.push(Metric::Jitter);
        }
        metrics
    }

    /// Logs of the rate of the repeated solo cell over the first one, by variant and victim.
    pub(super) fn repeats(&self) -> BTreeMap<String, Vec<f64>> {
        let mut repeats: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for again in self.cells.of(Condition::SAgain) {
            let pairs = self.cells.pair(again, &again.with(Condition::S));
            let logs = pairs.map(|pairs| Logs::of_rates(&pairs).logs);
            let name = format!("{} {}", again.variant, again.pair.victim);
            repeats.entry(name).or_default().extend(logs.into_iter().flatten());
        }
        repeats
    }

    fn add(&self, key: &Key, metric: Metric, rows: &mut BTreeMap<RowKey, Row>) {
        let sub_axis = key.pair.sub_axis;
        let row_key = RowKey {
            variant: key.variant.clone(),
            axis: match metric {
                Metric::Jitter => Axis::Jitter.as_str().to_owned(),
                _ => format!("{}/{}", sub_axis.axis().as_str(), sub_axis.as_str()),
            },
            victim: key.pair.victim.clone(),
            aggressor: key.pair.aggressor.clone(),
            dose: key.dose,
            metric,
        };
        let row = self.unmeasured(key).unwrap_or_else(|| self.row(key, metric));
        // A group of its own repeats the native cells; the first one with figures counts.
        let known = rows.entry(row_key).or_insert_with(|| row.clone());
        if known.series().is_none() {
            *known = row;
        }
    }

    /// The row of a mechanism that did not run.
    fn unmeasured(&self, key: &Key) -> Option<Row> {
        let mechanism = self.run.mechanisms.iter().find(|one| one.variant == key.variant)?;
        let reason = mechanism.outcome.reason.as_deref();
        let reason = reason.unwrap_or("the mechanism did not run");
        (!mechanism.outcome.is_measured()).then(|| Row::NotMeasured(reason.to_owned()))
    }

    fn row(&self, key: &Key, metric: Metric) -> Row {
        let found = match self.found(key, metric) {
            Ok(found) => found,
            Err(why) => return Row::Invalid(why),
        };
        let (have, all) = (found.blocks.len(), found.blocks.len() + found.left_out);
        if have < BLOCKS_MIN as usize || 2 * have < all {
            let why = found.why.as_deref().unwrap_or("no cell has the figure");
            return Row::Invalid(format!("{have} of {all} blocks have figures; {why}"));
        }
        let cycles = found.blocks.iter().zip(&found.values).map(|(block, value)| {
            let [top, bottom] = found.cells.get(block)?;
            let below = bottom.map_or(Some(0.0), |cell| self.clocks.ln(cell));
            let of_rate = if metric.is_latency() { ln_rate((*top)?)? } else { *value };
            Some(of_rate - (self.clocks.ln((*top)?)? - below?))
        });
        let cycles: Option<Vec<f64>> = cycles.collect();
        let mean_of = |means: &Means<'_>| {
            let logs = found.blocks.iter().map(|block| means.ln(found.cells.get(block)?[0]?));
            mean(&logs.collect::<Option<Vec<f64>>>()?).ok()
        };
        Row::Measured(Series {
            cycles: cycles.unwrap_or_default(),
            ln_clock: mean_of(self.clocks),
            ln_power: mean_of(self.powers),
            parts: self.parts(key, metric, &found.blocks),
            blocks: found.values,
            bounds: found.bounds,
            is_bound: found.is_bound,
        })
    }

    /// The figure of a row; an error says why there can be none.
    fn found(&self, key: &Key, metric: Metric) -> Result<Found<'a>, String> {
        let cells = self.cells;
        let (solo, native) = (key.with(Condition::S), cells.native_of(key));
        let ratio = |top: &Key, bottom: &Key| {
            let pairs = cells.pair(top, bottom).ok_or("a condition of it was not planned")?;
            Ok(Found::ratio(&pairs))
        };
        let quantile = |quantile| {
            let trusted = latency::trusted(cells, key);
            let mut measured = trusted.measured.iter().peekable();
            if measured.peek().is_some() && measured.all(|(_, cell)| cell.cell.closed_only) {
                return Err(NO_OPEN_LOOP.to_owned());
            }
            Ok(Found::alone(&trusted, latency::logs(&trusted, quantile)))
        };
        match metric {
            Metric::Retention | Metric::DoseRetention => ratio(key, &solo),
            Metric::Guarantee | Metric::Efficiency => ratio(key, &native),
            Metric::ContendedRate
            | Metric::SoloRate
            | Metric::NativeRate
            | Metric::AggressorRate => {
                let alone = cells.alone(key);
                Ok(Found::alone(&alone, Logs::of_rate(&alone)))
            }
            Metric::P99 => quantile(Quantile::P99),
            Metric::P50 => quantile(Quantile::Median),
            Metric::Jitter => self.jitter(key),
            Metric::Survival => Err("trials have counts, not blocks".to_owned()),
        }
    }

    fn jitter(&self, key: &Key) -> Result<Found<'a>, String> {
        let pairs = lone::pairs(self.cells, key).ok_or("a condition of it was not planned")?;
        let lone = Lone::of(&pairs);
        if lone.contended_ns.is_empty() {
            let is_closed = pairs.measured.iter().all(|(_, top, _)| top.cell.closed_only);
            let formats = "no latencies of single requests (formats before 2.4)";
            return Err(if is_closed { NO_OPEN_LOOP } else { formats }.to_owned());
        }
        let mut found = Found::of(lone.blocks, lone.values, Bounds::default(), &pairs.left_out);
        found.cells = contended_cells(&pairs);
        Ok(found)
    }

    /// The mean logarithm of the cost under each condition, in these blocks of a row.
    fn parts(&self, key: &Key, metric: Metric, blocks: &[u32]) -> Parts {
        let part = |condition: Condition| {
            if condition.has_aggressor() && !key.condition.has_aggressor() {
                return None;
            }
            let of = match condition {
                Condition::N => self.cells.native_of(key),
                condition => key.with(condition),
            };
            let logs = if metric.is_latency() {
                latency::logs(&latency::trusted(self.cells, &of), Quantile::P99)
            } else {
                Logs::of_rate(&self.cells.alone(&of))
            };
            let sign = if metric.is_latency() { 1.0 } else { -1.0 };
            let both = logs.blocks.iter().zip(&logs.logs);
            let costs = both.filter(|(block, _)| blocks.contains(block));
            mean(&costs.map(|(_, log)| sign * log).collect::<Vec<f64>>()).ok()
        };
        Parts {
            native: part(Condition::N),
            solo: part(Condition::S),
            contended: part(Condition::C),
        }
    }
}

impl<'a> Found<'a> {
    fn of(
        blocks: Vec<u32>,
        values: Vec<f64>,
        bounds: Bounds,
        left_out: &BTreeMap<u32, LeftOut>,
    ) -> Self {
        Self {
            blocks,
            values,
            bounds,
            is_bound: false,
            cells: BTreeMap::new(),
            left_out: left_out.len(),
            why: left_out.values().next().map(|one| one.why.clone()),
        }
    }

    fn of_logs(logs: Logs, planned: usize, left_out: &BTreeMap<u32, LeftOut>) -> Self {
        let bounds = Bounds { down: logs.systematic.down, up: logs.systematic.up };
        let without = planned - logs.blocks.len();
        Self {
            is_bound: logs.is_bound(),
            left_out: without,
            ..Self::of(logs.blocks, logs.logs, bounds, left_out)
        }
    }

    fn ratio(pairs: &Pairs<'a>) -> Self {
        let planned = pairs.measured.len() + pairs.left_out.len();
        let cells = pairs.measured.iter();
        let cells = cells.map(|(block, top, bottom)| (*block, [Some(*top), Some(*bottom)]));
        Self {
            cells: cells.collect(),
            ..Self::of_logs(Logs::of_rates(pairs), planned, &pairs.left_out)
        }
    }

    fn alone(alone: &Alone<'a>, logs: Logs) -> Self {
        let planned = alone.measured.len() + alone.left_out.len();
        let cells = alone.measured.iter().map(|(block, cell)| (*block, [Some(*cell), None]));
        Self { cells: cells.collect(), ..Self::of_logs(logs, planned, &alone.left_out) }
    }
}

/// The contended cells that the latency was measured in.
fn contended_cells<'a>(pairs: &Pairs<'a>) -> BTreeMap<u32, [Option<&'a CellResult>; 2]> {
    let cells = pairs.measured.iter();
    cells.map(|(block, top, _)| (*block, [Some(*top), None])).collect()
}
