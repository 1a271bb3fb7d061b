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
    /// Its word.
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

/// The summary of a variant.
pub(crate) fn summary(record: &RunRecord, variant: &str) -> FaultSummary {
    let rows = record.matrix.iter();
    let rows: Vec<&MatrixRow> = rows
        .filter(|row| row.variant == variant && is_of_fault(row))
        .collect();
    let tallies: Vec<&FaultTally> = record
        .fault_tallies
        .iter()
        .filter(|tally| tally.variant == variant && tally.class != "control" && tally.trials > 0)
        .collect();
    let level = level(&rows, &tallies);
    FaultSummary {
        held: held(&tallies),
        held_of: [contained(&tallies), tallies.len()],
        outcome: match level {
            Some(_) => OutcomeKind::Measured,
            None => rows
                .first()
                .map_or(OutcomeKind::Inconclusive, |row| row.outcome.outcome),
        },
        note: note(&tallies, level.is_some(), &rows),
        level: level.map(|(level, _)| level.to_owned()),
        word: level.and_then(|(_, word)| word.map(str::to_owned)),
    }
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
    let held = tallies
        .iter()
        .filter(|tally| tally.contained == tally.trials);
    held.count()
}

/// The same in words.
fn held(tallies: &[&FaultTally]) -> String {
    let trials: BTreeSet<u32> = tallies.iter().map(|tally| tally.trials).collect();
    let each = match (trials.first(), trials.last()) {
        (Some(1), Some(1)) => "1 trial each".to_owned(),
        (Some(least), Some(most)) if least == most => format!("{most} trials each"),
        (Some(least), Some(most)) => format!("{least} to {most} trials each"),
        _ => "no trial counts".to_owned(),
    };
    format!("{}/{} held, {each}", contained(tallies), tallies.len())
}

/// The faults that harmed a victim; without one, how many trials give a level.
fn note(tallies: &[&FaultTally], is_decided: bool, rows: &[&MatrixRow]) -> Option<String> {
    if let Some(doubt) = tallies.iter().find_map(|tally| tally.doubt.as_ref()) {
        return Some(clean(doubt));
    }
    let harmful = tallies
        .iter()
        .filter(|tally| tally.contained < tally.trials);
    let harmful: Vec<String> = harmful.map(|tally| clean(&tally.fault)).collect();
    if !harmful.is_empty() {
        return Some(format!("a victim was harmed by: {}", harmful.join(", ")));
    }
    if is_decided {
        return None;
    }
    let more = tallies.iter().filter_map(|tally| tally.more_for_l2).max();
    match more {
        Some(more) if more > 0 => Some(format!(
            "no victim was harmed; {more} more trials of each fault would show L2"
        )),
        _ => rows.first().and_then(|row| row.outcome.reason.clone()),
    }
}
