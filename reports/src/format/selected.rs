//! A record with only the rows of the selected mechanisms and axes.

use std::borrow::Cow;

use gpubench_record::RunRecord;

use super::RenderOptions;
use crate::matrix::Selection;

/// The options with only the latency curves of the selected mechanisms, where jitter is selected.
pub(super) fn options(record: &RunRecord, options: &RenderOptions) -> RenderOptions {
    let selection = &options.selection;
    let mut part = options.clone();
    let hidden: Vec<&str> = record
        .mechanisms
        .iter()
        .filter(|one| !selection.has_mechanism(&one.name, &one.variant))
        .map(|one| one.variant.as_str())
        .collect();
    for chart in &mut part.latency {
        chart.curves.retain(|curve| {
            let of = |variant: &&str| curve.of.variant == **variant;
            selection.has_axis("jitter", None) && !hidden.iter().any(of)
        });
    }
    part.latency.retain(|chart| !chart.curves.is_empty());
    part
}

/// The record itself where all of it is selected.
pub(super) fn record<'a>(record: &'a RunRecord, selection: &Selection) -> Cow<'a, RunRecord> {
    if *selection == Selection::default() {
        return Cow::Borrowed(record);
    }
    let mut part = record.clone();
    let variants: Vec<String> = record
        .mechanisms
        .iter()
        .filter(|one| selection.has_mechanism(&one.name, &one.variant))
        .map(|one| one.variant.clone())
        .collect();
    let has = |variant: &String| selection.mechanisms.is_empty() || variants.contains(variant);
    let has_axis = |axis: &str, sub_axis: Option<&str>| selection.has_axis(axis, sub_axis);
    part.mechanisms.retain(|one| has(&one.variant));
    part.overall.retain(|row| has(&row.variant));
    part.matrix.retain(|row| has(&row.variant) && has_axis(&row.axis, row.sub_axis.as_deref()));
    let of_cell = |variant: &String, sub_axis: gpubench_record::SubAxis| {
        let axis = sub_axis.axis();
        has(variant) && has_axis(axis.as_str(), Some(sub_axis.as_str()))
    };
    part.cells.retain(|one| of_cell(&one.cell.variant, one.cell.sub_axis));
    part.plan.cells.retain(|cell| of_cell(&cell.variant, cell.sub_axis));
    part.plan.skips.retain(|skip| {
        let is = selection.has_mechanism(&skip.name, &skip.variant);
        let axis = skip.axis.as_deref().map(|axis| axis.split_once('/').unwrap_or((axis, "")));
        is && axis.is_none_or(|(axis, sub_axis)| has_axis(axis, Some(sub_axis)))
    });
    part.operator.retain(|row| has(&row.variant));
    part.service.retain(|row| has(&row.variant));
    part.dose_curves.retain(|curve| has(&curve.variant));
    part.probe_figures.retain(|one| has(&one.variant));
    let with_faults = has_axis("fault", None);
    part.fault_tallies.retain(|tally| with_faults && has(&tally.variant));
    part.claims.retain(|claim| {
        let of_mechanism = selection.mechanisms.is_empty()
            || claim.mechanisms.iter().any(|one| selection.has_mechanism(one, one));
        of_mechanism && selection.axes.is_empty()
    });
    Cow::Owned(part)
}
