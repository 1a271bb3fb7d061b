//! The overall level of a variant: its weakest axis, and an axis its weakest row.

use std::collections::BTreeMap;

use gpubench_record::{Axis, OverallRow, Plan};

use super::level::{Level, LevelRange};
use super::row::Row;
use super::{EXCLUSIVE, asks};

/// One row for each variant, in the order of the matrix.
pub(super) fn rows(plan: &Plan, rows: &[Row]) -> Vec<OverallRow> {
    let mut variants: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| row.matrix.mechanism != EXCLUSIVE) {
        let variant = (row.matrix.mechanism.as_str(), row.matrix.variant.as_str());
        if !variants.contains(&variant) {
            variants.push(variant);
        }
    }
    variants
        .into_iter()
        .map(|(mechanism, variant)| {
            let own: Vec<&Row> = rows
                .iter()
                .filter(|row| row.matrix.variant == variant)
                .collect();
            of_variant(plan, mechanism, variant, &own)
        })
        .collect()
}

fn of_variant(plan: &Plan, mechanism: &str, variant: &str, rows: &[&Row]) -> OverallRow {
    let counting: Vec<Axis> = Axis::ALL
        .into_iter()
        .filter(|axis| axis.counts_overall())
        .collect();
    let mut ranges: BTreeMap<Axis, Option<LevelRange>> = BTreeMap::new();
    let counts = |row: &&&Row| row.axis.counts_overall() && !row.cannot_run_here;
    for row in rows.iter().filter(counts) {
        let known = ranges.entry(row.axis).or_insert(row.range);
        *known = weaker(*known, row.range);
    }
    let has_level = |axis: &Axis| ranges.get(axis).is_some_and(Option::is_some);
    let asked = |axis: &Axis| ranges.contains_key(axis) || asks(plan, axis.as_str());
    let unmeasured_axes = counting
        .iter()
        .filter(|axis| asked(axis) && !has_level(axis))
        .map(|a| a.as_str().to_owned());
    let mut overall: Option<LevelRange> = None;
    let mut weakest: Option<(LevelRange, Axis)> = None;
    for (axis, range) in ranges
        .iter()
        .filter_map(|(axis, range)| Some((*axis, (*range)?)))
    {
        overall = Some(overall.map_or(range, |known| known.weaker(range)));
        let weaker =
            weakest.is_none_or(|(known, _)| (range.worst, range.best) < (known.worst, known.best));
        if weaker {
            weakest = Some((range, axis));
        }
    }
    // An axis that ran and has no level could be the weakest, unless nothing can be weaker.
    let open = ranges.values().any(Option::is_none);
    let overall = overall.filter(|range| !open || range.decided() == Some(Level::L0));
    OverallRow {
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        level: overall.map(|range| range.to_string()),
        weakest_axis: overall
            .and(weakest)
            .map(|(_, axis)| axis.as_str().to_owned()),
        unmeasured_axes: unmeasured_axes.collect(),
    }
}

/// The weaker of two rows of one axis; without a level on either side there is none for the axis,
/// unless the other is as weak as can be.
fn weaker(left: Option<LevelRange>, right: Option<LevelRange>) -> Option<LevelRange> {
    let none = LevelRange::at(Level::L0);
    match (left, right) {
        (Some(left), Some(right)) => Some(left.weaker(right)),
        (Some(one), None) | (None, Some(one)) if one == none => Some(none),
        _ => None,
    }
}
