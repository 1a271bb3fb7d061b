//! Compares the claims of a ledger with a scored record: a pure function of both.
//!
//! A claim names a quantity of a closed list, which resolves to figures of the record. Each figure
//! has a verdict from the ends of its interval, never from its value. A claim is about each of its
//! figures: one that contradicts it refutes it, and it is supported where all agree. With `any` it
//! is the other way round. A figure that the record does not trust decides nothing.

mod cells;
mod figures;
mod found;
pub mod page;
mod rows;
#[cfg(test)]
mod tests;
mod verdict;
mod words;

use gpubench_record::{Claim, ClaimFigure, ClaimRow, RunRecord, Verdict};

use found::Found;

/// Figures that the evidence names.
const NAMED_MAX: usize = 3;

/// The verdict on each claim, in the order of the ledger.
#[must_use]
pub fn evaluate(ledger: &[Claim], run: &RunRecord) -> Vec<ClaimRow> {
    ledger.iter().map(|claim| row(claim, run)).collect()
}

fn row(claim: &Claim, run: &RunRecord) -> ClaimRow {
    let (verdict, evidence, figures) = match figures::of(claim, run) {
        Err(reason) => (Verdict::Untested, reason, Vec::new()),
        Ok(found) => {
            let figures: Vec<ClaimFigure> =
                found.into_iter().map(|one| figure(claim, one)).collect();
            let verdict = verdict::together(figures.iter().map(|one| one.verdict), claim.any);
            (verdict, evidence(verdict, &figures), figures)
        }
    };
    ClaimRow {
        id: claim.id.clone(),
        verdict,
        evidence,
        mechanisms: claim.mechanisms.clone(),
        axis: Some(claim.axis),
        statement: claim.statement.clone(),
        source: claim.source.clone(),
        test: words::test(claim),
        figures,
    }
}

fn figure(claim: &Claim, found: Found) -> ClaimFigure {
    let of = format!("{} {}", found.variant, found.key);
    match found.estimate {
        Ok(estimate) => ClaimFigure {
            of,
            verdict: verdict::of(claim, &estimate),
            estimate: Some(estimate),
            reason: None,
        },
        Err(reason) => {
            ClaimFigure { of, verdict: Verdict::Inconclusive, estimate: None, reason: Some(reason) }
        }
    }
}

/// The figures that have the verdict of the claim; all of them where none has.
fn evidence(verdict: Verdict, figures: &[ClaimFigure]) -> String {
    let mut deciding: Vec<&ClaimFigure> =
        figures.iter().filter(|one| one.verdict == verdict).collect();
    if deciding.is_empty() {
        deciding = figures.iter().collect();
    }
    let named = deciding.iter().take(NAMED_MAX).map(|one| words::figure(one));
    let mut text = named.collect::<Vec<_>>().join("; ");
    if deciding.len() > NAMED_MAX {
        text.push_str(&format!("; and {} more", deciding.len() - NAMED_MAX));
    }
    text
}
