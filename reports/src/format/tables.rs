//! The tables of a report, made from the record.

use std::collections::BTreeMap;

use gpubench_record::{Estimate, MatrixRow, OutcomeKind, Proof, RunRecord};

use super::figures::{MISSING_TEXT, readable};
use super::parts::{Cell, Notes, Table};

/// Which figure of a row a column shows.
type Pick = fn(&MatrixRow) -> &Option<Estimate>;

/// The matrix: levels, words and claims with the figures that decide them.
pub(super) fn matrix(record: &RunRecord, notes: &mut Notes) -> Table {
    let mut figures: Vec<(&str, Pick)> = vec![
        ("retention", |row| &row.retention),
        ("guarantee", |row| &row.guarantee),
        ("jitter", |row| &row.jitter),
    ];
    if record.matrix.iter().any(|row| row.survival.is_some()) {
        figures.push(("survival", |row| &row.survival));
    }
    if record.matrix.iter().any(|row| row.overshoot.is_some()) {
        figures.push(("overshoot", |row| &row.overshoot));
    }
    let mut columns: Vec<String> = ["mechanism", "axis", "level", "claimed"]
        .map(str::to_owned)
        .into();
    let units = figure_columns(&record.matrix, &figures, &mut columns);
    columns.extend(["n".to_owned(), "outcome".to_owned()]);
    let rows = record.matrix.iter().map(|row| {
        let mut cells = row_key(row);
        cells.push(Cell::level(row.level.as_deref(), row.word.as_deref()));
        cells.push(Cell::lines(&row.claimed));
        cells.extend(figure_cells(row, &figures, &units));
        cells.push(counts(row));
        let reasons = row.outcome.reason.iter().chain(&row.warnings);
        let notes = reasons.map(|text| notes.number(text)).collect();
        cells.push(Cell::Outcome {
            kind: row.outcome.outcome,
            notes,
        });
        cells
    });
    Table::new("matrix", "Isolation", columns, rows)
}

/// The figures beside those that decide.
pub(super) fn more_figures(record: &RunRecord) -> Table {
    let figures: [(&str, Pick); 3] = [
        ("efficiency", |row| &row.efficiency),
        ("effectiveness", |row| &row.effectiveness),
        ("isolation index", |row| &row.isolation_index),
    ];
    let mut columns = vec!["mechanism".to_owned(), "axis".to_owned()];
    let units = figure_columns(&record.matrix, &figures, &mut columns);
    columns.extend([
        "n".to_owned(),
        "unprotected form".to_owned(),
        "outcome".to_owned(),
    ]);
    let has_any = |row: &&MatrixRow| figures.iter().any(|(_, pick)| pick(row).is_some());
    let rows = record.matrix.iter().filter(has_any).map(|row| {
        let mut cells = row_key(row);
        cells.extend(figure_cells(row, &figures, &units));
        cells.push(Cell::text(n_of(
            figures.iter().map(|(name, pick)| (*name, pick(row))),
        )));
        cells.push(Cell::text(row.u_kind.as_deref().unwrap_or_default()));
        cells.push(Cell::Outcome {
            kind: row.outcome.outcome,
            notes: Vec::new(),
        });
        cells
    });
    Table::new("more-figures", "More figures", columns, rows).in_detail()
}

/// What probes measured that is no score.
pub(super) fn probe_figures(record: &RunRecord) -> Table {
    let columns = ["mechanism", "explains", "what", "figure", "n"].map(str::to_owned);
    let rows = record.probe_figures.iter().map(|one| {
        let explains = one.explains.as_deref().unwrap_or_default();
        let estimate = readable(&one.estimate);
        let figure = Cell::Figure {
            unit: Some(estimate.unit.clone()),
            estimate: Some(estimate),
        };
        let n = Cell::text(one.estimate.n.to_string());
        let variant = Cell::text(&one.variant);
        let (explains, what) = (Cell::text(explains), Cell::text(one.title()));
        vec![variant, explains, what, figure, n]
    });
    Table::new("probe-figures", "Probes", columns.into(), rows)
}

/// Mechanism with variant, and axis with sub-axis, victim and aggressor.
fn row_key(row: &MatrixRow) -> Vec<Cell> {
    let axis = match &row.sub_axis {
        Some(sub_axis) => format!("{}/{sub_axis}", row.axis),
        None => row.axis.clone(),
    };
    let beside = row
        .aggressor
        .as_ref()
        .map(|aggressor| format!("beside {aggressor}"));
    let who: Vec<String> = row.victim.clone().into_iter().chain(beside).collect();
    let who = (!who.is_empty()).then(|| who.join(" "));
    vec![
        mechanism(&row.mechanism, &row.variant),
        Cell::lines([Some(axis), who].iter().flatten()),
    ]
}

/// A variant as a rule begins with the mechanism's name; where it does not, both are shown.
pub(super) fn mechanism(name: &str, variant: &str) -> Cell {
    if variant.starts_with(name) {
        Cell::text(variant)
    } else {
        Cell::lines([name, variant])
    }
}

/// Adds a column for each figure. A unit that all rows share stands in the heading; the others are
/// left to the cells, for which the shared units are returned.
fn figure_columns<'a>(
    matrix: &'a [MatrixRow],
    figures: &[(&str, Pick)],
    columns: &mut Vec<String>,
) -> Vec<Option<&'a str>> {
    let mut shared_units = Vec::new();
    for (name, pick) in figures {
        let mut units: Vec<&str> = matrix
            .iter()
            .filter_map(|row| pick(row).as_ref())
            .map(|e| e.unit.as_str())
            .collect();
        units.sort_unstable();
        units.dedup();
        let shared = if let [unit] = units[..] {
            Some(unit)
        } else {
            None
        };
        let heading = match shared {
            Some(unit) if !name.ends_with(unit) => format!("{name} ({unit})"),
            _ => (*name).to_owned(),
        };
        columns.push(heading);
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
        let estimate = pick(row).clone();
        let unit = estimate
            .as_ref()
            .map(|e| e.unit.clone())
            .filter(|_| shared.is_none());
        Cell::Figure { estimate, unit }
    };
    figures.iter().zip(shared_units).map(cell).collect()
}

/// Blocks or trials behind the figures of a row, and the requests behind these.
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

/// The count that all figures share, or each figure's own.
fn n_of<'a>(figures: impl IntoIterator<Item = (&'a str, &'a Option<Estimate>)>) -> String {
    let counts: Vec<(&str, u32)> = figures
        .into_iter()
        .filter_map(|(name, figure)| figure.as_ref().map(|figure| (name, figure.n)))
        .collect();
    match counts.first() {
        None => String::new(),
        Some((_, n)) if counts.iter().all(|(_, other)| other == n) => n.to_string(),
        Some(_) => {
            let each: Vec<String> = counts
                .iter()
                .map(|(name, n)| format!("{name} {n}"))
                .collect();
            each.join(", ")
        }
    }
}

/// The mechanisms: outcome, overall level, proof.
pub(super) fn mechanisms(record: &RunRecord, notes: &mut Notes) -> Table {
    let columns = [
        "mechanism",
        "overall",
        "weakest axis",
        "unmeasured axes",
        "proof",
        "outcome",
    ];
    let rows = record.mechanisms.iter().map(|row| {
        let overall = record
            .overall
            .iter()
            .find(|overall| (&overall.mechanism, &overall.variant) == (&row.name, &row.variant));
        let level = overall.and_then(|overall| overall.level.as_deref());
        let weakest = overall.and_then(|overall| overall.weakest_axis.as_deref());
        let unmeasured = overall.map(|overall| overall.unmeasured_axes.join(", "));
        let notes = row
            .outcome
            .reason
            .iter()
            .map(|reason| notes.number(reason))
            .collect();
        vec![
            mechanism(&row.name, &row.variant),
            Cell::level(level, None),
            Cell::text(weakest.unwrap_or_default()),
            Cell::text(unmeasured.unwrap_or_default()),
            Cell::text(proof_summary(&row.proof)),
            Cell::Outcome {
                kind: row.outcome.outcome,
                notes,
            },
        ]
    });
    let columns = columns.map(str::to_owned).into();
    Table::new(
        "mechanisms",
        "Mechanisms: the overall level is that of the weakest axis",
        columns,
        rows,
    )
}

fn proof_summary(proof: &[Proof]) -> String {
    if proof.is_empty() {
        return String::new();
    }
    let holding = proof.iter().filter(|proof| proof.holds).count();
    let seen =
        |what: fn(&&Proof) -> bool| proof.iter().filter(|proof| proof.holds).any(|p| what(&p));
    let partition = if seen(|proof| proof.hardware) {
        ", hardware partition seen"
    } else {
        ""
    };
    let limiter = if seen(|proof| proof.limiter) {
        ", limiter seen"
    } else {
        ""
    };
    format!(
        "{holding} of {} checks hold{partition}{limiter}",
        proof.len()
    )
}

/// What was asked for and did not run, each with reason and remedy.
pub(super) fn skips(record: &RunRecord) -> Table {
    let none = String::new();
    let mut rows: Vec<[&str; 4]> = Vec::new();
    let waived = record
        .mechanisms
        .iter()
        .filter(|m| m.outcome.outcome == OutcomeKind::Waived);
    for row in waived {
        let reason = row.outcome.reason.as_ref().unwrap_or(&none);
        rows.push([
            &row.variant,
            "",
            reason,
            row.remedy.as_ref().unwrap_or(&none),
        ]);
    }
    for skip in &record.plan.skips {
        let axis = skip.axis.as_ref().unwrap_or(&none);
        let row = [
            &skip.variant,
            axis,
            &skip.reason,
            skip.remedy.as_ref().unwrap_or(&none),
        ];
        let row = row.map(String::as_str);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let columns = ["mechanism", "axis", "reason", "remedy"]
        .map(str::to_owned)
        .into();
    Table::new(
        "skips",
        "Did not run",
        columns,
        rows.into_iter().map(|row| row.map(Cell::text).into()),
    )
}

/// Cells that gave no measurement, counted by outcome, mechanism and condition.
pub(super) fn cells(record: &RunRecord) -> Table {
    let mut groups: BTreeMap<(u8, &str, &str), (usize, usize)> = BTreeMap::new();
    for (index, cell) in record.cells.iter().enumerate() {
        let rank = match cell.outcome.outcome {
            OutcomeKind::Measured => continue,
            OutcomeKind::Failed => 0,
            OutcomeKind::Inconclusive => 1,
            OutcomeKind::Waived => 2,
        };
        let key = (
            rank,
            cell.cell.variant.as_str(),
            cell.cell.condition.as_str(),
        );
        groups.entry(key).or_insert((0, index)).0 += 1;
    }
    let rows = groups
        .into_iter()
        .map(|((_, variant, condition), (count, first))| {
            let first = &record.cells[first];
            let reason = first.outcome.reason.as_deref().unwrap_or_default();
            vec![
                Cell::Outcome {
                    kind: first.outcome.outcome,
                    notes: Vec::new(),
                },
                Cell::text(count.to_string()),
                Cell::text(variant),
                Cell::text(condition),
                Cell::text(&first.cell.id),
                Cell::text(reason),
            ]
        });
    let columns = [
        "outcome",
        "cells",
        "mechanism",
        "condition",
        "first cell",
        "its reason",
    ];
    let columns = columns.map(str::to_owned).into();
    Table::new("cells", "Cells without a measurement", columns, rows)
}

/// How many cells ended how.
pub(super) fn cells_in_words(record: &RunRecord) -> String {
    let count = |kind| {
        record
            .cells
            .iter()
            .filter(|cell| cell.outcome.outcome == kind)
            .count()
    };
    let planned = record.plan.cells.len();
    format!(
        "Cells: {planned} planned, {} measured, {} inconclusive, {} failed, {} waived, {} not run",
        count(OutcomeKind::Measured),
        count(OutcomeKind::Inconclusive),
        count(OutcomeKind::Failed),
        count(OutcomeKind::Waived),
        planned.saturating_sub(record.cells.len())
    )
}

/// All evidence about the mechanisms.
pub(super) fn proof(record: &RunRecord) -> Table {
    let rows = record.mechanisms.iter().flat_map(|row| {
        row.proof.iter().map(|proof| {
            let holds = if proof.holds {
                "holds"
            } else {
                "DOES NOT HOLD"
            };
            let shows = match (proof.hardware, proof.limiter) {
                (true, true) => "partition, limiter",
                (true, false) => "partition",
                (false, true) => "limiter",
                (false, false) => MISSING_TEXT,
            };
            [
                &row.variant,
                &proof.when,
                &proof.check,
                holds,
                shows,
                &proof.evidence,
            ]
            .map(Cell::text)
            .into()
        })
    });
    let columns = ["mechanism", "when", "check", "verdict", "shows", "evidence"];
    let columns = columns.map(str::to_owned).into();
    Table::new(
        "proof",
        "Proof that the mechanisms were in force",
        columns,
        rows,
    )
    .in_detail()
}

/// The claims of the literature against the record.
pub(super) fn claims(record: &RunRecord) -> Table {
    let rows = record.claims.iter();
    let rows = rows.map(|row| {
        [&row.id, &row.verdict, &row.evidence]
            .map(Cell::text)
            .into()
    });
    let columns = ["claim", "verdict", "evidence"].map(str::to_owned).into();
    Table::new("claims", "Claims of the literature", columns, rows)
}
