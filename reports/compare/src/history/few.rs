//! Changes that too few nights leave open, and where a change lies.

use gpubench_record::Margins;
use gpubench_stats::NoEstimate;
use gpubench_stats::change_point::Search;
use gpubench_stats::summary::{mean, moments};

use crate::diff::{Figures, margin_of};
use crate::session::Metric;

/// Standard deviations of the nights before that a change has to exceed.
const APART_SD: f64 = 4.0;

/// The largest loss after which every night is worse than every night before it, and that no search
/// can decide: it has too few nights, or too few of them are after the loss.
pub(super) fn worse(
    values: &[f64],
    metric: Metric,
    margins: Margins,
) -> Result<Option<f64>, NoEstimate> {
    let part_min = Search::default().part_min;
    let is_searched = values.len() >= 2 * part_min;
    let mut found: Option<f64> = None;
    for at in 1..values.len() {
        let (before, after) = values.split_at(at);
        if is_searched && after.len() >= part_min {
            continue;
        }
        // Upwards is worse.
        let of = |values: &[f64]| -> Vec<f64> {
            values.iter().map(|value| value * metric.worse()).collect()
        };
        let (before, after) = (of(before), of(after));
        let spread = if before.len() > 1 { moments(&before)?.sd } else { 0.0 };
        let [centre, moved] = [mean(&before)?, mean(&after)?];
        let margin = margin_of(margins, metric, f64::midpoint(centre.abs(), moved.abs()));
        let worst = before.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let best = after.iter().copied().fold(f64::INFINITY, f64::min);
        let loss = moved - centre;
        let is_apart = best > worst && best - centre > APART_SD * spread;
        if loss >= margin && is_apart && found.is_none_or(|known| loss > known) {
            found = Some(loss);
        }
    }
    Ok(found.map(|loss| Figures::unit_of(metric, loss * metric.worse())))
}

/// The first value after a change: where the two means leave the least sum of squares.
pub(super) fn step_of(values: &[f64]) -> Result<usize, NoEstimate> {
    let mut best = (f64::NEG_INFINITY, 1);
    for at in 1..values.len() {
        let (before, after) = values.split_at(at);
        let size = before.len() as f64 * after.len() as f64;
        // The sum of squares is that of all values less this one, over their number.
        let between = size * (mean(after)? - mean(before)?).powi(2);
        if between > best.0 {
            best = (between, at);
        }
    }
    Ok(best.1)
}
