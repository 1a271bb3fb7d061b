//! All faults of one mechanism as one figure of the matrix; the table of faults has each of them.

use std::collections::BTreeSet;

use gpubench_record::{FaultTally, MatrixRow, OutcomeKind, RunRecord};

use crate::text::clean;

/// All faults of one variant.
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
    /// What a reader must know.
    pub(crate) note: Option<String>,
}

/// Whether a row is one fault under one mechanism.
pub(crate) fn is_of_fault(row: &MatrixRow) -> bool {
    row.axis == "fault" && row.aggressor.is_some()
}

pub(crate) fn summary(record: &RunRecord, variant: &str) -> FaultSummary {
    let rows = record.matrix.iter();
    let rows: Vec<&MatrixRow> =
        rows.filter(|row| row.variant == variant && is_of_fault(row)).collect();
    let tallies: Vec<&FaultTally> = tallies(record, variant).collect();
    let level = level(&rows, &tallies);
    FaultSummary {
        held: held(&tallies),
        held_of: [contained(&tallies), tallies.len()],
        outcome: match level {
            Some(_) => OutcomeKind::Measured,
            None => rows.first().map_or(OutcomeKind::Inconclusive, |row| row.outcome.outcome),
        },
        note: note(&tallies, level.is_some(), &rows),
        level: level.map(|(level, _)| level.to_owned()),
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
        (least, most) if least == most => format!("{} each", crate::text::counted(most, "trial")),
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

/// The faults that harmed a victim; without one, how many trials give a level.
fn note(tallies: &[&FaultTally], is_decided: bool, rows: &[&MatrixRow]) -> Option<String> {
    if let Some(doubt) = tallies.iter().find_map(|tally| tally.doubt.as_ref()) {
        return Some(clean(doubt));
    }
    let harmful = tallies.iter().filter(|tally| tally.contained < tally.trials);
    let harmful: Vec<String> = harmful.map(|tally| clean(&tally.fault)).collect();
    if !harmful.is_empty() {
        return Some(format!("a victim was harmed by: {}", harmful.join(", ")));
    }
    if is_decided {
        return None;
    }
    let more = tallies.iter().filter_map(|tally| tally.more_for_l2).max();
    match more {
        Some(more) if more > 0 => {
            Some(format!("no victim was harmed; {more} more trials of each fault would show L2"))
        }
        _ => rows.first().and_then(|row| row.outcome.reason.clone()),
    }
}
