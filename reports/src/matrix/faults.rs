//! All faults of one mechanism as one figure of the matrix; the table of faults has each of them.

use std::collections::BTreeSet;

use gpubench_record::{Axis, FaultTally, MatrixRow, OutcomeKind, RunRecord};

use super::Selection;
use gpubench_show::{Labels, clean};

pub(crate) struct FaultSummary {
    /// `19/21 held, 1 trial each`.
    pub(crate) held: String,
    /// Faults of which no trial harmed a victim, and all faults with a trial.
    pub(crate) held_of: [usize; 2],
    /// The level of the axis, where the trials decide it.
    pub(crate) level: Option<String>,
    pub(crate) word: Option<String>,
    /// Measured where the trials decide the level.
    pub(crate) outcome: OutcomeKind,
    pub(crate) note: Option<String>,
}

/// Whether every level that is open is L2 or better.
pub(crate) fn is_at_least_bounded(level: Option<&str>) -> bool {
    level.is_some_and(|level| level.starts_with("L2") || level.starts_with("L3"))
}

/// The faults of one variant, of the selected classes.
pub(crate) fn summary(record: &RunRecord, variant: &str, selection: &Selection) -> FaultSummary {
    let has = |class: Option<&str>| selection.has_axis(Axis::Fault.as_str(), class);
    let rows = record.matrix.iter();
    let rows = rows.filter(|row| row.variant == variant && row.is_of_fault());
    let mut rows: Vec<&MatrixRow> = rows.filter(|row| has(row.sub_axis.as_deref())).collect();
    // The axis is complete without a fault that the device does not have.
    let waived = |row: &MatrixRow| row.outcome.outcome == OutcomeKind::Waived;
    if !rows.iter().all(|row| waived(row)) {
        rows.retain(|row| !waived(row));
    }
    let tallies = tallies(record, variant).filter(|tally| has(Some(&tally.class)));
    let tallies: Vec<&FaultTally> = tallies.collect();
    let level = level(&rows, &tallies);
    let bounded = || rows.iter().all(|row| is_at_least_bounded(row.level.as_deref()));
    let at_least = (level.is_none() && !rows.is_empty() && bounded()).then(|| "L2..L3".to_owned());
    FaultSummary {
        held: held(&tallies),
        held_of: [contained(&tallies), tallies.len()],
        outcome: match level {
            Some(_) => OutcomeKind::Measured,
            None => rows.first().map_or(OutcomeKind::Inconclusive, |row| row.outcome.outcome),
        },
        note: note(&tallies, level.is_some(), &rows),
        level: level.map(|(level, _)| level.to_owned()).or(at_least),
        word: level.and_then(|(_, word)| word.map(str::to_owned)),
    }
}

/// The faults of a variant with a trial, without controls.
fn tallies<'a>(record: &'a RunRecord, variant: &'a str) -> impl Iterator<Item = &'a FaultTally> {
    let tallies = record.fault_tallies.iter();
    tallies.filter(move |one| one.variant == variant && one.class != "control" && one.trials > 0)
}

/// How many trials each fault of these variants had: `1 trial each`.
pub(crate) fn trials_each<'a>(
    record: &'a RunRecord,
    variants: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let tallies = variants.flat_map(|variant| tallies(record, variant));
    each(tallies.map(|tally| tally.trials))
}

fn each(trials: impl Iterator<Item = u32>) -> Option<String> {
    let trials: BTreeSet<u32> = trials.collect();
    Some(match (trials.first()?, trials.last()?) {
        (1, 1) => "1 trial each".to_owned(),
        (least, most) if least == most => {
            format!("{} each", gpubench_record::counted(most, "trial"))
        }
        (least, most) => format!("{least} to {most} trials each"),
    })
}

/// Level and word of the axis: those of the weakest fault where the trials decide every fault. A
/// fault that harmed a victim decides them alone: L1 where another fault was contained, else L0.
fn level<'a>(
    rows: &[&'a MatrixRow],
    tallies: &[&FaultTally],
) -> Option<(&'a str, Option<&'a str>)> {
    let decided = || {
        let measured = rows.iter().filter(|row| row.outcome.is_measured());
        measured.filter_map(|row| Some((row.level.as_deref()?, row.word.as_deref())))
    };
    let weakest = decided().min_by_key(|(level, _)| *level)?;
    let any_contained = tallies.iter().any(|tally| tally.contained > 0);
    match weakest {
        ("L0" | "L1", _) if any_contained => Some(("L1", Some("Partial"))),
        ("L0", _) => Some(weakest),
        _ => (decided().count() == rows.len()).then_some(weakest),
    }
}

/// The number of faults of which no trial harmed a victim.
fn contained(tallies: &[&FaultTally]) -> usize {
    let held = tallies.iter().filter(|tally| tally.contained == tally.trials);
    held.count()
}

/// The same in words.
fn held(tallies: &[&FaultTally]) -> String {
    let each = each(tallies.iter().map(|tally| tally.trials));
    let each = each.unwrap_or_else(|| "no trial counts".to_owned());
    format!("{}/{} held, {each}", contained(tallies), tallies.len())
}

/// What the names of faults that harmed a victim follow.
pub(crate) const HARMED_BY: &str = "a victim was harmed by: ";

/// The faults that harmed a victim; without one, how many trials give a level.
fn note(tallies: &[&FaultTally], is_decided: bool, rows: &[&MatrixRow]) -> Option<String> {
    if let Some(doubt) = tallies.iter().find_map(|tally| tally.doubt.as_ref()) {
        return Some(clean(doubt));
    }
    let harmful = tallies.iter().filter(|tally| tally.contained < tally.trials);
    let harmful: Vec<String> = harmful.map(|tally| clean(&tally.fault)).collect();
    if !harmful.is_empty() {
        return Some(format!("{HARMED_BY}{}", harmful.join(", ")));
    }
    if is_decided {
        return None;
    }
    if let Some(open) = rows.iter().find(|row| row.survival.is_none()) {
        let fault = open.aggressor.as_deref().map(clean).unwrap_or_default();
        return open.outcome.reason.as_ref().map(|why| format!("{fault}: {}", clean(why)));
    }
    let more = tallies.iter().filter_map(|tally| tally.more_for_l2).max();
    match more {
        Some(more) if more > 0 => {
            Some(format!("no victim harmed; {more} more trials of each would show L2"))
        }
        _ => rows.first().and_then(|row| row.outcome.reason.clone()),
    }
}

// Mechanisms and axes that did not run, grouped by reason and remedy.

/// What did not run for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRun {
    /// Labels of the mechanisms; none where it is the axis of all.
    pub mechanisms: Vec<String>,
    /// The axis, where the mechanism itself ran; [`NEIGHBOURS`] where it ran alone.
    pub axis: Option<String>,
    pub reason: String,
    pub remedy: Option<String>,
}

/// What a mechanism lacks that ran, with a tenant alone.
pub const NEIGHBOURS: &str = "neighbours";

impl NotRun {
    /// Whether no row of the mechanism has a figure beside a neighbour.
    fn is_whole(&self) -> bool {
        self.axis.as_deref().is_none_or(|axis| axis == NEIGHBOURS)
    }
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
        let axis = Some(NEIGHBOURS);
        add(&mut groups, labels.get(one), axis, reason.unwrap_or_default(), None);
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
        // The sentence on jitter names the aggressors that it is not measured beside.
        let is_part =
            name == Axis::Jitter.as_str() && record.matrix.iter().any(|row| row.jitter.is_some());
        if is_shown && !is_fault && !is_part {
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
    let waived = |row: &MatrixRow| row.outcome.outcome == OutcomeKind::Waived;
    let is_single_fault = |row: &MatrixRow| {
        let mut faults = record.matrix.iter().filter(|one| one.variant == row.variant);
        row.is_of_fault() && faults.any(|one| one.is_of_fault() && !waived(one))
    };
    let rows = record.matrix.iter().filter(|row| {
        waived(row)
            && selection.has_mechanism(&row.mechanism, &row.variant)
            && selection.has_axis(&row.axis, row.sub_axis.as_deref())
            && !is_single_fault(row)
    });
    for row in rows {
        let label = labels.get(&row.variant);
        let is_known = groups.iter().any(|group| {
            let of_axis = group.is_whole() || group.axis.as_deref() == Some(&row.axis);
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
    let whole = |group: &NotRun| group.is_whole() && group.mechanisms.contains(&label);
    if groups.iter().any(whole) {
        return;
    }
    match groups.iter_mut().find(is_same) {
        Some(group) if group.mechanisms.contains(&label) => {}
        Some(group) => group.mechanisms.push(label),
        None => groups.push(NotRun { mechanisms: vec![label], axis, reason, remedy }),
    }
}
