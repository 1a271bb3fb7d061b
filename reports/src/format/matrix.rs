//! The matrix and the table of further figures.

use super::figures::{figure, level_cell, outcome};
use super::tables::mechanism;
use crate::matrix::Selection;
use crate::matrix::faults::summary;
use gpubench_record::{
    DoseCurve, Estimate, MatrixRow, Outcome, OutcomeKind, RunRecord, ServiceRow,
};
use gpubench_show::{Cell, Column, Notes, Table};

/// Selects the figure of a row that a column shows.
type Pick = fn(&MatrixRow) -> &Option<Estimate>;

/// The matrix: levels, words and claims with the deciding figures.
pub(super) fn matrix(record: &RunRecord, notes: &mut Notes) -> Table {
    let mut figures: Vec<(&str, Pick)> = vec![
        ("retention", |row| &row.retention),
        ("guarantee", |row| &row.guarantee),
        ("jitter", |row| &row.jitter),
    ];
    // All faults of a mechanism share one row: that of the first.
    let mut with_faults: Vec<&str> = Vec::new();
    let mut shown: Vec<&MatrixRow> = Vec::new();
    for row in &record.matrix {
        if !row.is_of_fault() {
            shown.push(row);
        } else if !with_faults.contains(&row.variant.as_str()) {
            with_faults.push(&row.variant);
            shown.push(row);
        }
    }
    let figured = || shown.iter().filter(|row| !row.is_of_fault());
    if figured().any(|row| row.survival.is_some()) {
        figures.push(("survival", |row| &row.survival));
    }
    if figured().any(|row| row.overshoot.is_some()) {
        figures.push(("overshoot", |row| &row.overshoot));
    }
    let mut columns: Vec<Column> =
        ["mechanism", "axis", "level", "claimed"].map(Column::text).into();
    let units = figure_columns(&record.matrix, &figures, &mut columns);
    columns.extend(["n", "outcome"].map(Column::text));
    let rows = shown.iter().map(|row| {
        if row.is_of_fault() {
            return faults_of(record, row, figures.len(), notes);
        }
        let mut cells = row_key(row);
        cells.push(level_cell(row.level.as_deref(), row.word.as_deref()));
        cells.push(Cell::lines(&row.claimed));
        cells.extend(figure_cells(row, &figures, &units));
        cells.push(counts(row));
        let notes = row.notes().map(|text| notes.number(text)).collect();
        cells.push(outcome(row.outcome.outcome, notes));
        cells
    });
    Table::new("matrix", "Isolation", columns, rows).grouped()
}

fn faults_of(record: &RunRecord, row: &MatrixRow, figures: usize, notes: &mut Notes) -> Vec<Cell> {
    let all = summary(record, &row.variant, &Selection::default());
    let missing = figure(None, None);
    let mut cells = vec![
        mechanism(&row.mechanism, &row.variant),
        Cell::lines([row.axis.as_str(), &all.held]),
        level_cell(all.level.as_deref(), all.word.as_deref()),
        Cell::lines(&row.claimed),
    ];
    cells.extend(std::iter::repeat_n(missing, figures));
    cells.push(Cell::text(""));
    cells.push(outcome(all.outcome, all.note.iter().map(|text| notes.number(text)).collect()));
    cells
}

/// Figures that decide no level.
pub(super) fn more_figures(record: &RunRecord) -> Table {
    let figures: [(&str, Pick); 3] = [
        ("efficiency", |row| &row.efficiency),
        ("effectiveness", |row| &row.effectiveness),
        ("isolation index", |row| &row.isolation_index),
    ];
    let mut columns: Vec<Column> = ["mechanism", "axis"].map(Column::text).into();
    let units = figure_columns(&record.matrix, &figures, &mut columns);
    columns.extend(["n", "unprotected form", "outcome"].map(Column::text));
    let has_any = |row: &&MatrixRow| figures.iter().any(|(_, pick)| pick(row).is_some());
    let rows = record.matrix.iter().filter(has_any).map(|row| {
        let mut cells = row_key(row);
        cells.extend(figure_cells(row, &figures, &units));
        cells.push(Cell::text(n_of(figures.iter().map(|(name, pick)| (*name, pick(row))))));
        cells.push(Cell::text(row.u_kind.as_deref().unwrap_or_default()));
        cells.push(outcome(row.outcome.outcome, Vec::new()));
        cells
    });
    Table::new("more-figures", "More figures", columns, rows).in_detail()
}

/// Mechanism with variant, and axis with sub-axis, victim and aggressor.
fn row_key(row: &MatrixRow) -> Vec<Cell> {
    let axis = row.axis_path();
    let beside = row.aggressor.as_ref().map(|aggressor| format!("beside {aggressor}"));
    let who: Vec<String> = row.victim.clone().into_iter().chain(beside).collect();
    let who = (!who.is_empty()).then(|| who.join(" "));
    vec![mechanism(&row.mechanism, &row.variant), Cell::lines([Some(axis), who].iter().flatten())]
}

/// Adds a column for each figure and returns the unit that all its rows share, if there is one. The
/// heading names a shared unit; otherwise each cell has its own.
fn figure_columns<'a>(
    matrix: &'a [MatrixRow],
    figures: &[(&str, Pick)],
    columns: &mut Vec<Column>,
) -> Vec<Option<&'a str>> {
    let mut shared_units = Vec::new();
    for (name, pick) in figures {
        let mut units: Vec<&str> =
            matrix.iter().filter_map(|row| pick(row).as_ref()).map(|e| e.unit.as_str()).collect();
        units.sort_unstable();
        units.dedup();
        let shared = if let [unit] = units[..] { Some(unit) } else { None };
        let heading = match shared {
            Some(unit) if !name.ends_with(unit) => format!("{name} ({unit})"),
            _ => (*name).to_owned(),
        };
        columns.push(Column::number(heading));
        shared_units.push(shared);
    }
    shared_units
}

fn figure_cells(
    row: &MatrixRow,
    figures: &[(&str, Pick)],
    shared_units: &[Option<&str>],
) -> Vec<Cell> {
    let cell = |((_, pick), shared): (&(&str, Pick), &Option<&str>)| {
        let estimate = pick(row).as_ref();
        let unit = estimate.map(|e| e.unit.as_str()).filter(|_| shared.is_none());
        figure(estimate, unit)
    };
    figures.iter().zip(shared_units).map(cell).collect()
}

/// The number of blocks or trials of a row, and of requests.
fn counts(row: &MatrixRow) -> Cell {
    let blocks = n_of([
        ("retention", &row.retention),
        ("guarantee", &row.guarantee),
        ("jitter", &row.jitter),
        ("survival", &row.survival),
        ("overshoot", &row.overshoot),
    ]);
    let requests = (row.requests > 0).then(|| format!("{} requests", row.requests));
    Cell::lines([Some(blocks), requests].iter().flatten())
}

/// The count that all figures share, or the count of each.
fn n_of<'a>(figures: impl IntoIterator<Item = (&'a str, &'a Option<Estimate>)>) -> String {
    let counts: Vec<(&str, u32)> = figures
        .into_iter()
        .filter_map(|(name, figure)| figure.as_ref().map(|figure| (name, figure.n)))
        .collect();
    match counts.first() {
        None => String::new(),
        Some((_, n)) if counts.iter().all(|(_, other)| other == n) => n.to_string(),
        Some(_) => {
            let each: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
            each.join(", ")
        }
    }
}

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
    let columns = ["mechanism", "what", "outcome", "reason"];
    Table::new("reasons", "Why nothing was measured", columns, rows)
}

fn row(name: Cell, whats: &[String], of: &Outcome) -> Vec<Cell> {
    vec![
        name,
        Cell::lines(whats),
        outcome(of.outcome, Vec::new()),
        Cell::text(of.reason.as_deref().unwrap_or_default()),
    ]
}

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
