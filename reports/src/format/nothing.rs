//! The table that replaces the matrix if no row has a figure: the reasons why, in place of a table
//! of dashes.

use gpubench_record::{DoseCurve, MatrixRow, Outcome, OutcomeKind, RunRecord, ServiceRow};

use super::parts::{Cell, Table};
use super::tables::mechanism;

/// Whether any row has an outcome `measured` or a figure.
pub(super) fn has_figures(record: &RunRecord) -> bool {
    let of_service = |row: &ServiceRow| row.retention.is_some() || row.within_slo.is_some();
    let of_matrix = |row: &MatrixRow| {
        row.outcome.is_measured() || row.figures().into_iter().any(|figure| figure.is_some())
    };
    let of_doses = |curve: &DoseCurve| curve.points.iter().any(|point| point.retention.is_some());
    record.matrix.iter().any(of_matrix)
        || record.service.iter().any(of_service)
        || record.dose_curves.iter().any(of_doses)
}

/// The reason of each mechanism that failed or is inconclusive, and each other reason of its rows
/// once, with the rows that have it. A waived mechanism is in the table "Did not run" instead, with
/// its remedy.
pub(super) fn reasons(record: &RunRecord) -> Table {
    let mut rows = Vec::new();
    for one in &record.mechanisms {
        let overall = &one.outcome;
        let name = mechanism(&one.name, &one.variant);
        if matches!(overall.outcome, OutcomeKind::Failed | OutcomeKind::Inconclusive) {
            rows.push(row(name.clone(), &[], overall));
        }
        let own = record.matrix.iter().filter(|row| {
            (&row.mechanism, &row.variant) == (&one.name, &one.variant) && row.outcome != *overall
        });
        let mut groups: Vec<(&Outcome, Vec<String>)> = Vec::new();
        for (outcome, what) in own.map(|row| (&row.outcome, victim_and_axis(row))) {
            match groups.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, whats)) if whats.contains(&what) => {}
                Some((_, whats)) => whats.push(what),
                None => groups.push((outcome, vec![what])),
            }
        }
        rows.extend(groups.iter().map(|(outcome, whats)| row(name.clone(), whats, outcome)));
    }
    let columns = ["mechanism", "what", "outcome", "reason"].map(str::to_owned);
    Table::new("reasons", "Why nothing was measured", columns.into(), rows)
}

fn row(name: Cell, whats: &[String], outcome: &Outcome) -> Vec<Cell> {
    vec![
        name,
        Cell::lines(whats),
        Cell::Outcome { kind: outcome.outcome, notes: Vec::new() },
        Cell::text(outcome.reason.as_deref().unwrap_or_default()),
    ]
}

/// Sub-axis and victim of a row.
fn victim_and_axis(row: &MatrixRow) -> String {
    let axis = match &row.sub_axis {
        Some(sub_axis) => format!("{}/{sub_axis}", row.axis),
        None => row.axis.clone(),
    };
    match &row.victim {
        Some(victim) => format!("{axis} {victim}"),
        None => axis,
    }
}
