//! The overall level of a variant: that of its weakest axis, which is that of the weakest row of
//! the axis.

use std::collections::BTreeMap;

use gpubench_record::{Axis, OverallRow, Plan};

use super::level::{Level, LevelRange};
use super::requested::requests;
use super::row::Row;

/// One row for each variant, in the order of the matrix.
pub(super) fn rows(plan: &Plan, rows: &[Row]) -> Vec<OverallRow> {
    let mut variants: Vec<(&str, &str)> = Vec::new();
    let under_test = |row: &&Row| row.matrix.variant != plan.reference;
    for row in rows.iter().filter(under_test) {
        let variant = (row.matrix.mechanism.as_str(), row.matrix.variant.as_str());
        if !variants.contains(&variant) {
            variants.push(variant);
        }
    }
    variants
        .into_iter()
        .map(|(mechanism, variant)| {
            let own: Vec<&Row> = rows.iter().filter(|row| row.matrix.variant == variant).collect();
            of_variant(plan, mechanism, variant, &own)
        })
        .collect()
}

fn of_variant(plan: &Plan, mechanism: &str, variant: &str, rows: &[&Row]) -> OverallRow {
    let counting: Vec<Axis> = Axis::ALL.into_iter().filter(|axis| axis.counts_overall()).collect();
    let mut ranges: BTreeMap<Axis, Option<LevelRange>> = BTreeMap::new();
    let counts = |row: &&&Row| row.axis.counts_overall() && !row.cannot_run_here;
    for row in rows.iter().filter(counts) {
        let range = ranges.entry(row.axis).or_insert(row.range);
        *range = weaker(*range, row.range);
    }
    let has_level = |axis: &Axis| ranges.get(axis).is_some_and(Option::is_some);
    let expected = |axis: &Axis| ranges.contains_key(axis) || requests(plan, axis.as_str());
    let unmeasured_axes = counting
        .iter()
        .filter(|axis| expected(axis) && !has_level(axis))
        .map(|a| a.as_str().to_owned());
    let mut overall: Option<LevelRange> = None;
    let mut weakest: Option<(LevelRange, Axis)> = None;
    for (axis, range) in ranges.iter().filter_map(|(axis, range)| Some((*axis, (*range)?))) {
        overall = Some(overall.map_or(range, |known| known.weaker(range)));
        let weaker =
            weakest.is_none_or(|(known, _)| (range.worst, range.best) < (known.worst, known.best));
        if weaker {
            weakest = Some((range, axis));
        }
    }
    // An axis without a level could be the weakest, unless another axis is at L0.
    let open = ranges.values().any(Option::is_none);
    let overall = overall.filter(|range| !open || range.decided() == Some(Level::L0));
    let has_axis =
        |(axis, range): (&Axis, &Option<LevelRange>)| range.map(|_| axis.as_str().to_owned());
    OverallRow {
        axes: ranges.iter().filter_map(has_axis).collect(),
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        level: overall.map(|range| range.to_string()),
        weakest_axis: overall.and(weakest).map(|(_, axis)| axis.as_str().to_owned()),
        unmeasured_axes: unmeasured_axes.collect(),
    }
}

/// The weaker of two rows of one axis. A row without a level leaves the axis without one, unless
/// the other row is at L0.
fn weaker(left: Option<LevelRange>, right: Option<LevelRange>) -> Option<LevelRange> {
    let lowest = LevelRange::at(Level::L0);
    match (left, right) {
        (Some(left), Some(right)) => Some(left.weaker(right)),
        (Some(one), None) | (None, Some(one)) if one == lowest => Some(lowest),
        _ => None,
    }
}
