//! The outcome of each mechanism of a run.

use gpubench_record::{MechanismRow, Outcome, OutcomeKind, Skip};

/// Sets the outcome of every mechanism. A mechanism with a proof that does not hold failed, also
/// where its cells are measured. A skipped mechanism gets a row with its reason.
pub fn settle(mechanisms: &mut Vec<MechanismRow>, skips: &[Skip]) {
    for row in mechanisms.iter_mut() {
        let broken = row.proof.iter().find(|proof| !proof.holds);
        if let Some(proof) = broken
            && row.outcome.outcome == OutcomeKind::Measured
        {
            row.outcome = Outcome::failed(format!("not in force: {}", proof.evidence));
        }
    }
    for skip in skips.iter().filter(|skip| skip.axis.is_none()) {
        let known =
            mechanisms.iter().any(|row| row.variant == skip.variant || row.name == skip.variant);
        if !known {
            mechanisms.push(MechanismRow {
                name: skip.name.clone(),
                variant: skip.variant.clone(),
                outcome: Outcome::waived(skip.reason.clone()),
                remedy: skip.remedy.clone(),
                proof: Vec::new(),
            });
        }
    }
}
