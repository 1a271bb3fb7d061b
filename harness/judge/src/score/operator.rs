//! The operator's view: the progress of every tenant of a contended cell, its fairness, and the GPU
//! time of each tenant.
//!
//! A cell with a peer has no row: a peer follows a schedule, so its rate is no speed. Figures are
//! means over blocks with t intervals. No level follows from them.

use std::collections::BTreeMap;

use gpubench_record::{
    Cell, Condition, Estimate, OperatorRow, Plan, Role, SubAxis, TenantProgress, TenantTime,
};
use gpubench_stats::effect::Effect;
use gpubench_stats::{Confidence, NoEstimate};

use super::{Context, ScoreInput};
use crate::figures::printed;
use crate::figures::rates::Progress;

/// Fewest blocks of a t interval worth printing.
const BLOCKS_MIN: usize = 3;

/// The subject of one row. Rows are in the order of these fields.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject<'a> {
    position: usize,
    variant: &'a str,
    mechanism: &'a str,
    sub_axis: SubAxis,
    victim: &'a str,
    aggressor: &'a str,
    tenants: usize,
}

/// The rows, in report order; a pair with too few blocks has none.
pub(super) fn rows(context: &Context<'_>) -> Vec<OperatorRow> {
    let ScoreInput { plan, calibration, .. } = context.input;
    let mut blocks: BTreeMap<Subject<'_>, Vec<Progress<'_>>> = BTreeMap::new();
    for key in context.cells.of(Condition::C) {
        let Some(pairs) = context.cells.pair(key, &context.cells.native_of(key)) else {
            continue;
        };
        for (_, contended, native) in pairs.measured {
            if let Some(subject) = subject(plan, &contended.cell) {
                let progress = Progress::of(plan, calibration, contended, native);
                blocks.entry(subject).or_default().extend(progress);
            }
        }
    }
    let rows = blocks.into_iter();
    rows.filter_map(|(subject, blocks)| row(&subject, &blocks).ok().flatten()).collect()
}

/// The row of a cell; `None` without contention at full dose, and with a peer.
fn subject<'a>(plan: &Plan, cell: &'a Cell) -> Option<Subject<'a>> {
    let has_peer = cell.tenants.iter().any(|one| one.role == Role::Peer);
    if cell.dose < 1.0 || has_peer || !cell.shape.is_usual() {
        return None;
    }
    let mut planned = plan.mechanisms.iter();
    let position = planned.position(|one| one.variant == cell.variant);
    Some(Subject {
        position: position.unwrap_or(usize::MAX),
        variant: &cell.variant,
        mechanism: &cell.mechanism,
        sub_axis: cell.sub_axis,
        victim: &cell.victim,
        aggressor: cell.aggressor.as_deref()?,
        tenants: cell.tenants.len(),
    })
}

fn row(key: &Subject<'_>, blocks: &[Progress<'_>]) -> Result<Option<OperatorRow>, NoEstimate> {
    if blocks.len() < BLOCKS_MIN {
        return Ok(None);
    }
    let mean = |unit: &str, of: fn(&Progress<'_>) -> f64| -> Result<Estimate, NoEstimate> {
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
        progress_min: mean("ratio", |block| block.least)?,
        progress_max: mean("ratio", |block| block.most)?,
        jain: mean("index", |block| block.fairness.jain)?,
        utilisation: mean("of the device", |block| block.utilisation)?,
        gpu_time: gpu_time(blocks).unwrap_or_default(),
        progress: progress(blocks)?,
    }))
}

/// The progress of each tenant, and its share of all work, where all do the same.
fn progress(blocks: &[Progress<'_>]) -> Result<Vec<TenantProgress>, NoEstimate> {
    let equal = blocks.first().filter(|one| one.cell.cell.is_of_equals());
    let tenants = equal.map_or(&[][..], |one| &one.cell.cell.tenants);
    let mean = |values: Vec<f64>| -> Result<Estimate, NoEstimate> {
        Ok(printed(Effect::of_mean(&values)?.interval(Confidence::P95)?, "of the device"))
    };
    let of = |(at, tenant): (usize, &gpubench_record::CellTenant)| {
        let own = |one: &Progress<'_>| one.each.get(at).copied().unwrap_or(0.0);
        let share = |one: &Progress<'_>| own(one) / one.each.iter().sum::<f64>();
        let share = mean(blocks.iter().map(share).collect())?;
        Ok(TenantProgress {
            tenant: tenant.tenant.clone(),
            progress: mean(blocks.iter().map(own).collect())?,
            share: Estimate { unit: "of the work".to_owned(), ..share },
        })
    };
    tenants.iter().enumerate().map(of).collect()
}

/// The GPU time of each tenant over the blocks; `None` where one has none.
fn gpu_time(blocks: &[Progress<'_>]) -> Option<Vec<TenantTime>> {
    let planned = &blocks.first()?.cell.cell.tenants;
    let times: Option<Vec<f64>> = planned
        .iter()
        .map(|tenant| blocks.iter().map(|one| one.gpu_time_ns(&tenant.tenant)).sum::<Option<f64>>())
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
