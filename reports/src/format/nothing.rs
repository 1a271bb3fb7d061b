//! What stands in the place of the matrix where no row of it has a figure: tables of dashes say
//! nothing, and would hide why there are none.

use gpubench_record::{MatrixRow, Outcome, OutcomeKind, RunRecord, ServiceRow};

use super::parts::{Cell, Table};
use super::tables::mechanism;

/// Whether any row has anything that was measured or decided.
pub(super) fn has_figures(record: &RunRecord) -> bool {
    let of_service = |row: &ServiceRow| row.retention.is_some() || row.within_slo.is_some();
    let of_matrix = |row: &MatrixRow| {
        row.outcome.is_measured() || row.figures().into_iter().any(|figure| figure.is_some())
    };
    record.matrix.iter().any(of_matrix) || record.service.iter().any(of_service)
}

/// Why each mechanism that was to run has no figure, and the reasons of rows that have one of their
/// own, each once with all that it holds for. What was waived as a whole stands among what did not
/// run, with its remedy.
pub(super) fn reasons(record: &RunRecord) -> Table {
    let mut rows = Vec::new();
    for one in &record.mechanisms {
        let whole = &one.outcome;
        let whose = mechanism(&one.name, &one.variant);
        if matches!(
            whole.outcome,
            OutcomeKind::Failed | OutcomeKind::Inconclusive
        ) {
            rows.push(row(whose.clone(), &[], whole));
        }
        let own = record.matrix.iter().filter(|row| {
            (&row.mechanism, &row.variant) == (&one.name, &one.variant) && row.outcome != *whole
        });
        let mut groups: Vec<(&Outcome, Vec<String>)> = Vec::new();
        for (outcome, what) in own.map(|row| (&row.outcome, told(row))) {
            match groups.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, whats)) if whats.contains(&what) => {}
                Some((_, whats)) => whats.push(what),
                None => groups.push((outcome, vec![what])),
            }
        }
        rows.extend(
            groups
                .iter()
                .map(|(outcome, whats)| row(whose.clone(), whats, outcome)),
        );
    }
    let columns = ["mechanism", "what", "outcome", "reason"].map(str::to_owned);
    Table::new("reasons", "Why nothing was measured", columns.into(), rows)
}

fn row(whose: Cell, whats: &[String], outcome: &Outcome) -> Vec<Cell> {
    vec![
        whose,
        Cell::lines(whats),
        Cell::Outcome {
            kind: outcome.outcome,
            notes: Vec::new(),
        },
        Cell::text(outcome.reason.as_deref().unwrap_or_default()),
    ]
}

/// Victim and sub-axis, as short as they go.
fn told(row: &MatrixRow) -> String {
    let axis = match &row.sub_axis {
        Some(sub_axis) => format!("{}/{sub_axis}", row.axis),
        None => row.axis.clone(),
    };
    match &row.victim {
        Some(victim) => format!("{axis} {victim}"),
        None => axis,
    }
}
