//! The operator's view: the progress of every tenant of a contended cell, its fairness, and the GPU
//! time of each tenant.
//!
//! The progress of the victim is its rate over its native rate in the same block; that of an
//! aggressor is its rate over its calibrated rate alone. A cell with a peer has no row: a peer
//! follows a schedule, so its rate is no speed. Figures are means over blocks with t intervals. No
//! level follows from them.

use std::collections::BTreeMap;

use gpubench_record::{
    Cell, CellResult, Condition, Estimate, OperatorRow, Role, SubAxis, TenantTime,
};
use gpubench_stats::effect::Effect;
use gpubench_stats::fairness::{Fairness, fairness};
use gpubench_stats::{Confidence, NoEstimate};

use super::Context;
use super::figures::printed;

/// Fewest blocks of a t interval worth printing.
const BLOCKS_MIN: usize = 3;

/// The subject of one row. Rows are in the order of these fields.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    /// Position of the mechanism in the plan.
    position: usize,
    variant: &'a str,
    mechanism: &'a str,
    sub_axis: SubAxis,
    victim: &'a str,
    aggressor: &'a str,
    tenants: usize,
}

/// One block.
struct Block<'a> {
    fairness: Fairness,
    progress_min: f64,
    progress_max: f64,
    utilisation: f64,
    cell: &'a CellResult,
}

/// The rows, in report order; a pair with too few blocks has none.
pub(super) fn rows(context: &Context<'_>) -> Vec<OperatorRow> {
    let plan = context.input.plan;
    let measured = || {
        let cells = context.input.cells.iter();
        cells.filter(|result| result.outcome.is_measured())
    };
    let is_native = |result: &&CellResult| {
        result.cell.condition == Condition::N && result.cell.variant == plan.reference
    };
    let natives: BTreeMap<_, &CellResult> =
        measured().filter(is_native).map(|result| (same_victim(&result.cell), result)).collect();
    let mut blocks: BTreeMap<Key<'_>, Vec<Block<'_>>> = BTreeMap::new();
    for result in measured() {
        let Some(key) = key(context, &result.cell) else {
            continue;
        };
        let native = natives.get(&same_victim(&result.cell));
        let block = native.and_then(|native| block(context, result, native));
        blocks.entry(key).or_default().extend(block);
    }
    let rows = blocks.into_iter();
    rows.filter_map(|(key, blocks)| row(&key, &blocks).ok().flatten()).collect()
}

/// What the native cell of a cell has in common with it.
fn same_victim(cell: &Cell) -> (&str, u32, SubAxis, &str) {
    (&cell.group, cell.block, cell.sub_axis, &cell.victim)
}

/// The row of a cell; `None` without contention at full dose, and with a peer.
fn key<'a>(context: &Context<'a>, cell: &'a Cell) -> Option<Key<'a>> {
    let has_peer = cell.tenants.iter().any(|one| one.role == Role::Peer);
    if cell.condition != Condition::C || cell.dose < 1.0 || has_peer {
        return None;
    }
    let mut planned = context.input.plan.mechanisms.iter();
    let position = planned.position(|one| one.variant == cell.variant);
    Some(Key {
        position: position.unwrap_or(usize::MAX),
        variant: &cell.variant,
        mechanism: &cell.mechanism,
        sub_axis: cell.sub_axis,
        victim: &cell.victim,
        aggressor: cell.aggressor.as_deref()?,
        tenants: cell.tenants.len(),
    })
}

/// The progress of all tenants in one block; `None` where that of one is unknown.
fn block<'a>(
    context: &Context<'_>,
    result: &'a CellResult,
    native: &CellResult,
) -> Option<Block<'a>> {
    let rate = |of: &CellResult| of.figures.closed_rate_per_s;
    let victim = rate(result)? / rate(native)?;
    let mut progress = vec![victim];
    progress.extend(neighbours(context, result)?);
    // Times for the same work, with the time alone as their unit.
    let shared: Vec<f64> = progress.iter().map(|one| 1.0 / one).collect();
    let fairness = fairness(&shared, &vec![1.0; progress.len()]).ok()?;
    Some(Block {
        fairness,
        progress_min: progress.iter().copied().fold(f64::INFINITY, f64::min),
        progress_max: progress.iter().copied().fold(0.0, f64::max),
        utilisation: used_by_victim(context, result, victim)
            + used_by_neighbours(context, result, &progress[1..]),
        cell: result,
    })
}

/// The part of the device that the victim used: its work over what the device does of that work, by
/// the peak of the aggressor beside it. A victim uses less than its share, so its share would be
/// too much; it stands where the work of the two has different units, or no peak is known.
fn used_by_victim(context: &Context<'_>, result: &CellResult, progress: f64) -> f64 {
    let calibration = &context.input.calibration;
    let work = || {
        let own = calibration.entries.get(&result.cell.victim)?;
        let peak = calibration.peaks.get(result.cell.aggressor.as_ref()?)?;
        let rate = result.figures.closed_rate_per_s?;
        (own.unit == peak.unit).then_some(rate * own.work_per_request / peak.peak_per_s)
    };
    work().unwrap_or(progress * context.input.plan.share)
}

/// The part that the neighbours used: an aggressor alone may use less than the whole device.
fn used_by_neighbours(context: &Context<'_>, result: &CellResult, progress: &[f64]) -> f64 {
    let alone = |workload: Option<&String>| {
        let peak = context.input.calibration.peaks.get(workload?)?;
        Some(peak.alone_per_s / peak.peak_per_s)
    };
    let neighbours = result.cell.tenants.iter().skip(1).zip(progress);
    neighbours.map(|(one, progress)| progress * alone(one.workload.as_ref()).unwrap_or(1.0)).sum()
}

/// The progress of each neighbour.
fn neighbours(context: &Context<'_>, result: &CellResult) -> Option<Vec<f64>> {
    let entries = &context.input.calibration.entries;
    let neighbours = result.cell.tenants.get(1..)?;
    // Before format 2.3 a cell had the rate of all aggressors together.
    let only = result.figures.achieved_dose_ratio;
    if let (1, Some(progress)) = (neighbours.len(), only) {
        return Some(vec![progress]);
    }
    let progress = neighbours.iter().map(|neighbour| {
        let alone = entries.get(neighbour.workload.as_ref()?)?.native_rate_per_s;
        Some(result.figures.tenants.get(&neighbour.tenant)?.rate_per_s? / alone)
    });
    progress.collect()
}

fn row(key: &Key<'_>, blocks: &[Block<'_>]) -> Result<Option<OperatorRow>, NoEstimate> {
    if blocks.len() < BLOCKS_MIN {
        return Ok(None);
    }
    let mean = |unit: &str, of: fn(&Block<'_>) -> f64| -> Result<Estimate, NoEstimate> {
        let values: Vec<f64> = blocks.iter().map(of).collect();
        let found = Effect::of_mean(&values)?.interval(Confidence::P95)?;
        Ok(printed(found, unit))
    };
    Ok(Some(OperatorRow {
        mechanism: key.mechanism.to_owned(),
        variant: key.variant.to_owned(),
        sub_axis: key.sub_axis,
        victim: key.victim.to_owned(),
        aggressor: key.aggressor.to_owned(),
        tenants: u32::try_from(key.tenants).unwrap_or(u32::MAX),
        antt: mean("ratio", |block| block.fairness.antt)?,
        stp: mean("devices", |block| block.fairness.stp)?,
        progress_min: mean("ratio", |block| block.progress_min)?,
        progress_max: mean("ratio", |block| block.progress_max)?,
        jain: mean("index", |block| block.fairness.jain)?,
        utilisation: mean("of the device", |block| block.utilisation)?,
        gpu_time: gpu_time(blocks).unwrap_or_default(),
    }))
}

/// The GPU time of each tenant over the blocks; `None` where one has none.
fn gpu_time(blocks: &[Block<'_>]) -> Option<Vec<TenantTime>> {
    let planned = &blocks.first()?.cell.cell.tenants;
    let times: Option<Vec<f64>> = planned
        .iter()
        .map(|tenant| {
            let of_block =
                |one: &Block<'_>| one.cell.figures.tenants.get(&tenant.tenant)?.gpu_time_ns;
            blocks.iter().map(of_block).sum::<Option<f64>>()
        })
        .collect();
    let times = times?;
    let total: f64 = times.iter().sum();
    let tenants = planned.iter().zip(times);
    let tenants = tenants.map(|(tenant, time)| TenantTime {
        tenant: tenant.tenant.clone(),
        workload: tenant.workload.clone().unwrap_or_default(),
        gpu_time_ns: time as u64,
        share: if total > 0.0 { time / total } else { 0.0 },
    });
    Some(tenants.collect())
}
