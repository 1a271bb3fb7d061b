//! Mechanisms and axes that did not run, grouped by reason and remedy.

use gpubench_record::{Axis, OutcomeKind, RunRecord};

use super::Selection;
use super::label::Labels;
use crate::text::clean;

/// What did not run for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRun {
    /// Labels of the mechanisms; none where it is the axis of all.
    pub mechanisms: Vec<String>,
    /// The axis, where the mechanism itself ran.
    pub axis: Option<String>,
    /// Why.
    pub reason: String,
    /// What would cure it.
    pub remedy: Option<String>,
}

/// Waived mechanisms first, then axes of mechanisms that ran. A single fault is left to the table
/// of faults.
pub(super) fn not_run(record: &RunRecord, selection: &Selection, labels: &Labels) -> Vec<NotRun> {
    let mut groups: Vec<NotRun> = Vec::new();
    let waived = |kind| kind == OutcomeKind::Waived;
    let mechanisms = record.mechanisms.iter();
    for one in mechanisms.filter(|one| waived(one.outcome.outcome)) {
        if selection.has_mechanism(&one.name, &one.variant) {
            let reason = one.outcome.reason.as_deref().unwrap_or_default();
            let label = labels.get(&one.variant);
            add(&mut groups, label, None, reason, one.remedy.as_deref());
        }
    }
    for one in mechanisms_without_a_row(record, selection) {
        let mut own = record.matrix.iter().filter(|row| row.variant == *one);
        let reason = own.find_map(|row| row.outcome.reason.as_deref());
        add(&mut groups, labels.get(one), None, reason.unwrap_or_default(), None);
    }
    for skip in &record.plan.skips {
        let axis = skip.axis.as_deref();
        let is_fault = axis.is_some_and(|axis| axis.starts_with("fault/"));
        let (name, sub_axis) = match axis.and_then(|axis| axis.split_once('/')) {
            Some((axis, sub_axis)) => (axis, Some(sub_axis)),
            None => (axis.unwrap_or_default(), None),
        };
        let is_shown = selection.has_mechanism(&skip.name, &skip.variant)
            && (axis.is_none() || selection.has_axis(name, sub_axis));
        if is_shown && !is_fault {
            let label = labels.get(&skip.variant);
            add(&mut groups, label, axis, &skip.reason, skip.remedy.as_deref());
        }
    }
    waived_rows(record, selection, labels, &mut groups);
    groups.extend(not_asked(record, selection));
    groups
}

/// Axes that the profile includes and that no row of the record has.
fn not_asked(record: &RunRecord, selection: &Selection) -> Vec<NotRun> {
    let axes = Axis::ALL.iter().filter(|axis| {
        let name = axis.as_str();
        let of_overall = record.overall.iter().map(|row| &row.unmeasured_axes);
        let mut unmeasured = of_overall.flatten().map(String::as_str);
        let mut shown = record.matrix.iter().map(|row| row.axis.as_str());
        selection.has_axis(name, None)
            && unmeasured.any(|one| one == name)
            && !shown.any(|one| one == name)
    });
    let not_run = |axis: &Axis| NotRun {
        mechanisms: Vec::new(),
        axis: Some(axis.as_str().to_owned()),
        reason: "not asked for".to_owned(),
        remedy: (*axis == Axis::Fault).then(|| "--faults".to_owned()),
    };
    axes.map(not_run).collect()
}

/// Mechanisms that could run, and of which every row is waived.
fn mechanisms_without_a_row<'a>(
    record: &'a RunRecord,
    selection: &'a Selection,
) -> impl Iterator<Item = &'a String> {
    let ran = record.mechanisms.iter().filter(|one| {
        one.outcome.outcome != OutcomeKind::Waived
            && selection.has_mechanism(&one.name, &one.variant)
    });
    let variants = ran.map(|one| &one.variant);
    variants.filter(|variant| {
        let own = record.matrix.iter().filter(|row| row.variant == **variant);
        let mut own = own.map(|row| row.outcome.outcome).peekable();
        own.peek().is_some() && own.all(|outcome| outcome == OutcomeKind::Waived)
    })
}

/// Rows of mechanisms that ran, waived for a reason that no skip gives.
fn waived_rows(
    record: &RunRecord,
    selection: &Selection,
    labels: &Labels,
    groups: &mut Vec<NotRun>,
) {
    let rows = record.matrix.iter().filter(|row| {
        row.outcome.outcome == OutcomeKind::Waived
            && selection.has_mechanism(&row.mechanism, &row.variant)
            && selection.has_axis(&row.axis, row.sub_axis.as_deref())
    });
    for row in rows {
        let label = labels.get(&row.variant);
        let is_known = groups.iter().any(|group| {
            let of_axis = group.axis.is_none() || group.axis.as_deref() == Some(&row.axis);
            of_axis && group.mechanisms.contains(&label)
        });
        if is_known {
            continue;
        }
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        add(groups, label, Some(&row.axis), reason, None);
    }
}

/// Adds a mechanism to the group of the same axis, reason and remedy.
fn add(
    groups: &mut Vec<NotRun>,
    label: String,
    axis: Option<&str>,
    reason: &str,
    remedy: Option<&str>,
) {
    let (reason, remedy) = (clean(reason), remedy.map(clean));
    let axis = axis.map(clean);
    let is_same = |group: &&mut NotRun| {
        (&group.axis, &group.reason, &group.remedy) == (&axis, &reason, &remedy)
    };
    let whole = |group: &NotRun| group.axis.is_none() && group.mechanisms.contains(&label);
    if groups.iter().any(whole) {
        return;
    }
    match groups.iter_mut().find(is_same) {
        Some(group) if group.mechanisms.contains(&label) => {}
        Some(group) => group.mechanisms.push(label),
        None => groups.push(NotRun { mechanisms: vec![label], axis, reason, remedy }),
    }
}
