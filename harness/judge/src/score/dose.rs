//! The retention at each dose of the aggressor, and the dose area. No level follows from them: the
//! row of the matrix is that of dose 1.

use gpubench_record::{DoseCurve, DosePoint, DoseRise, Estimate, MechanismRow, Outcome};
use gpubench_stats::effect::Effect;
use gpubench_stats::summary::dose_area;
use gpubench_stats::{Confidence, LogRatio, NoEstimate};

use super::row::Row;
use super::{Context, memory};
use crate::figures::{Cells, Logs, Pair, achieved_doses, printed};

/// Fewest blocks with every dose for an area: a t interval of two degrees of freedom.
const BLOCKS_MIN: usize = 3;

/// Smallest rise that is reported, as a ratio. A device without noise has smaller ones.
const RISE_MIN: f64 = 1.01;

/// The curves in report order; none where the plan has only full doses.
pub(super) fn curves(context: &Context<'_>) -> Vec<DoseCurve> {
    let doses = doses(context);
    if doses.len() < 2 {
        return Vec::new();
    }
    let mut curves = Vec::new();
    for mechanism in context.under_test() {
        for pair in context.cells.pairs() {
            if memory::applies_to(context, &pair) {
                continue;
            }
            curves.extend(curve(context, &doses, mechanism, &pair));
        }
    }
    curves
}

/// The doses of the contended cells, rising.
fn doses(context: &Context<'_>) -> Vec<f64> {
    let cells = context.input.plan.cells.iter();
    let contended = cells.filter(|cell| cell.condition.has_aggressor());
    let mut doses: Vec<f64> = contended.map(|cell| cell.dose).collect();
    doses.sort_by(f64::total_cmp);
    doses.dedup();
    doses
}

/// One dose with the logs of its blocks.
struct AtDose {
    point: DosePoint,
    logs: Logs,
    /// By how far the bounds of lost time move the ends of the retention.
    widening: [f64; 2],
}

/// The curve of a pair under a variant; `None` where the plan has no contended cell of it.
fn curve(
    context: &Context<'_>,
    doses: &[f64],
    mechanism: &MechanismRow,
    pair: &Pair,
) -> Option<DoseCurve> {
    let aggressor = pair.aggressor.clone()?;
    let at_dose = |dose: &f64| at_dose(&context.cells, *dose, &mechanism.variant, pair);
    let measured: Vec<AtDose> = doses.iter().filter_map(at_dose).collect();
    if measured.len() < 2 {
        return None;
    }
    let row = Row::of_mechanism(context, mechanism, pair.sub_axis.axis(), Some(pair)).finish();
    let mut outcome = row.matrix.outcome;
    let (blocks, area) = area(&measured);
    if outcome.is_measured() && blocks < BLOCKS_MIN {
        let left_out = measured.iter().find_map(|one| one.point.left_out.as_ref());
        let why = left_out.map_or_else(String::new, |why| format!(" ({why})"));
        outcome = Outcome::inconclusive(format!(
            "{blocks} blocks have every dose, {BLOCKS_MIN} are needed{why}"
        ));
    }
    let rises = rises(&measured);
    Some(DoseCurve {
        mechanism: mechanism.name.clone(),
        variant: mechanism.variant.clone(),
        sub_axis: pair.sub_axis,
        victim: pair.victim.clone(),
        aggressor,
        area: area.ok().filter(|_| blocks >= BLOCKS_MIN),
        outcome,
        rises,
        points: measured.into_iter().map(|one| one.point).collect(),
    })
}

fn at_dose(cells: &Cells<'_>, dose: f64, variant: &str, pair: &Pair) -> Option<AtDose> {
    let contended = cells.contended_at(variant, pair, dose)?;
    let pairs = cells.pair(contended, &contended.with(gpubench_record::Condition::S))?;
    let achieved = achieved_doses(&pairs);
    let logs = Logs::of_rates(&pairs);
    let retention = logs.ratio().ok();
    let statistical =
        LogRatio::from_logs(logs.logs.clone()).and_then(|one| one.interval(logs.confidence));
    let widening = match (&retention, statistical) {
        (Some(whole), Ok(part)) => [part.lo - whole.lo, whole.hi - part.hi],
        _ => [0.0; 2],
    };
    let left_out = pairs.left_out.iter().next();
    Some(AtDose {
        point: DosePoint {
            offered: dose,
            achieved: mean(&achieved).ok(),
            retention,
            left_out: left_out.map(|(block, why)| format!("block {block}: {}", why.why)),
        },
        logs,
        widening,
    })
}

fn mean(values: &[f64]) -> Result<Estimate, NoEstimate> {
    let mean = Effect::of_mean(values)?.interval(Confidence::P95)?;
    Ok(printed(mean, "ratio"))
}

/// The number of blocks that have every dose, and the mean of their areas. Without an aggressor,
/// at dose 0, the retention is 1 by definition.
fn area(measured: &[AtDose]) -> (usize, Result<Estimate, NoEstimate>) {
    let from_0 =
        |rest: Vec<f64>, first: f64| -> Vec<f64> { std::iter::once(first).chain(rest).collect() };
    let doses = from_0(measured.iter().map(|one| one.point.offered).collect(), 0.0);
    let log_of = |one: &AtDose, block: u32| {
        let at = one.logs.blocks.iter().position(|&known| known == block)?;
        Some(one.logs.logs[at].exp())
    };
    let of_block = |block: &u32| -> Option<Vec<f64>> {
        let heights = measured.iter().map(|one| log_of(one, *block));
        Some(from_0(heights.collect::<Option<_>>()?, 1.0))
    };
    let blocks = measured.first().map_or(&[][..], |one| &one.logs.blocks);
    let heights: Vec<Vec<f64>> = blocks.iter().filter_map(of_block).collect();
    let areas: Result<Vec<f64>, NoEstimate> =
        heights.iter().map(|one| dose_area(&doses, one)).collect();
    let whole = areas.and_then(|areas| mean(&areas)).and_then(|area| {
        let end = |index: usize| {
            let moved = measured.iter().map(|one| one.widening[index]).collect();
            dose_area(&doses, &from_0(moved, 0.0))
        };
        Ok(Estimate { lo: area.lo - end(0)?, hi: area.hi + end(1)?, ..area })
    });
    (heights.len(), whole)
}

/// The steps at which the retention rises: the interval of the paired ratio lies above 1. All steps
/// of a curve share an error of 5 % (Bonferroni).
fn rises(measured: &[AtDose]) -> Vec<DoseRise> {
    let steps = u32::try_from(measured.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let Ok(confidence) = Confidence::simultaneous(Confidence::P95.alpha(), steps) else {
        return Vec::new();
    };
    let step = |pair: &[AtDose]| {
        let (lower, higher) = pair[0].logs.shared(&pair[1].logs);
        if lower.len() < BLOCKS_MIN {
            return None;
        }
        let logs = lower.iter().zip(&higher).map(|(low, high)| high - low);
        let ratio = LogRatio::from_logs(logs.collect()).ok()?;
        let ratio = printed(ratio.interval(confidence).ok()?, "ratio");
        (ratio.lo > 1.0 && ratio.value >= RISE_MIN).then_some(DoseRise {
            from: pair[0].point.offered,
            to: pair[1].point.offered,
            ratio,
        })
    };
    measured.windows(2).filter_map(step).collect()
}
