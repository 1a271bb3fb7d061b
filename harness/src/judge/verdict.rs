//! How a matrix ends: the status that its record and what was asked for come to.
//!
//! A mechanism that was set up and whose proof does not hold, or that could not be set up, failed:
//! 4, as a cell that failed. One that cannot run here is waived. Where that leaves nothing but the
//! reference the run ends with 3, whoever asked; where something else was measured, one that
//! `--mechanism` names ends it with 3 too, because it was wanted and is not there, and one that
//! `all` or a profile brought ends it with 0, because either is for every host.

use gpubench_record::{ExitCode, MechanismRow, OutcomeKind, RunRecord};

use crate::catalogue::EXCLUSIVE;
use crate::error::ExpectedError;

/// The status of a finished run. `named` are the mechanisms of `--mechanism`.
///
/// # Errors
/// For every status but those of a run that was done, or is inconclusive and must not be.
pub fn of(record: &RunRecord, named: &[String], strict: bool) -> Result<ExitCode, ExpectedError> {
    if let Some(reason) = &record.fault_trials_stopped {
        return Err(ExpectedError::FaultTrialsStopped {
            reason: reason.clone(),
            not_held: record.fault_trials_not_held().count(),
            planned: record.plan.fault_trials.len(),
        });
    }
    let failed = |kind: OutcomeKind| kind == OutcomeKind::Failed;
    let cells = record.cells.iter();
    let broken: Vec<_> = cells.filter(|cell| failed(cell.outcome.outcome)).collect();
    if let Some(first) = broken.first() {
        return Err(ExpectedError::TrialFailed {
            failed: broken.len(),
            cells: record.cells.len(),
            first: first.id.clone(),
            reason: first.outcome.reason.clone().unwrap_or_default(),
        });
    }
    in_force(&record.mechanisms)?;
    let mut rows = record.matrix.iter();
    let inconclusive = |kind: OutcomeKind| kind == OutcomeKind::Inconclusive;
    if strict && rows.any(|row| inconclusive(row.outcome.outcome)) {
        return Ok(ExitCode::Inconclusive);
    }
    there(&record.mechanisms, named).map(|()| ExitCode::Done)
}

/// Whether every mechanism that ran was in force.
fn in_force(mechanisms: &[MechanismRow]) -> Result<(), ExpectedError> {
    let mut rows = mechanisms.iter();
    match rows.find(|row| row.outcome.outcome == OutcomeKind::Failed) {
        None => Ok(()),
        Some(row) => Err(ExpectedError::MechanismFailed {
            variant: row.variant.clone(),
            reason: row.outcome.reason.clone().unwrap_or_default(),
        }),
    }
}

/// Whether what was asked for was there to be measured.
fn there(mechanisms: &[MechanismRow], named: &[String]) -> Result<(), ExpectedError> {
    let waived = |row: &&MechanismRow| row.outcome.outcome == OutcomeKind::Waived;
    let told = |rows: &[&MechanismRow]| {
        let one = |row: &&MechanismRow| {
            let reason = row
                .outcome
                .reason
                .as_deref()
                .unwrap_or("no reason was told");
            format!("{}: {reason}", row.variant)
        };
        rows.iter().map(one).collect::<Vec<String>>().join("; ")
    };
    let contestants: Vec<&MechanismRow> = mechanisms
        .iter()
        .filter(|row| row.name != EXCLUSIVE)
        .collect();
    if !contestants.is_empty() && contestants.iter().all(waived) {
        return Err(ExpectedError::NothingRan {
            reason: told(&contestants),
        });
    }
    let missing: Vec<&MechanismRow> = mechanisms
        .iter()
        .filter(|row| waived(row) && named.contains(&row.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ExpectedError::NamedAndWaived {
        mechanisms: told(&missing),
    })
}

#[cfg(test)]
mod tests {
    use super::{in_force, there};
    use gpubench_record::{MechanismRow, Outcome};

    fn row(name: &str, outcome: Outcome) -> MechanismRow {
        MechanismRow {
            name: name.to_owned(),
            variant: format!("{name}[x]"),
            outcome,
            remedy: None,
            proof: Vec::new(),
        }
    }

    /// The status that rows come to, with these mechanisms named on the command line.
    fn status(rows: &[MechanismRow], named: &[&str]) -> (u8, String) {
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        match in_force(rows).and_then(|()| there(rows, &named)) {
            Ok(()) => (0, String::new()),
            Err(error) => (error.exit_code().code(), error.to_string()),
        }
    }

    #[test]
    fn what_failed_what_nobody_has_and_what_was_named_and_is_not_there_end_a_run() {
        let (exclusive, mps) = (
            row("exclusive", Outcome::measured()),
            row("mps", Outcome::measured()),
        );
        let no_mig = row("mig", Outcome::waived("the device has no MIG"));
        let no_mps = row("mps", Outcome::waived("it takes no more clients"));
        let off = row("mps", Outcome::failed("not in force: no client"));
        for (rows, named, code, said) in [
            (vec![&exclusive], vec!["exclusive"], 0, ""),
            (vec![&exclusive, &mps], vec![], 0, ""),
            (vec![&exclusive, &mps, &no_mig], vec![], 0, ""),
            (vec![&exclusive, &mps, &no_mig], vec!["mps"], 0, ""),
            (
                vec![&exclusive, &mps, &no_mig],
                vec!["mps", "mig"],
                3,
                "mig[x]: the device has no",
            ),
            (
                vec![&exclusive, &no_mps, &no_mig],
                vec![],
                3,
                "mps[x]: it takes",
            ),
            (vec![&no_mps], vec!["mps"], 3, "nothing could run"),
            (
                vec![&exclusive, &off, &no_mig],
                vec![],
                4,
                "mps[x] failed: not in force",
            ),
            (vec![&off, &no_mig], vec!["mig"], 4, "mps[x]"),
        ] {
            let rows: Vec<MechanismRow> = rows.into_iter().cloned().collect();
            let (found, text) = status(&rows, &named);
            assert_eq!(found, code, "{rows:?} {named:?}: {text}");
            assert!(text.contains(said), "{text}");
        }
    }
}
