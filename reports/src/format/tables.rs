//! The tables about mechanisms, cells, proofs and probes.

use std::collections::BTreeMap;

use gpubench_record::{OutcomeKind, Proof, RunRecord};

use super::figures::{MISSING_TEXT, readable};
use super::parts::{Cell, Notes, Table};

/// Figures of probes, which are no scores.
pub(super) fn probe_figures(record: &RunRecord) -> Table {
    let columns = ["mechanism", "explains", "what", "figure", "n"].map(str::to_owned);
    let rows = record.probe_figures.iter().map(|one| {
        let explains = one.explains.as_deref().unwrap_or_default();
        let estimate = readable(&one.estimate);
        let figure = Cell::Figure { unit: Some(estimate.unit.clone()), estimate: Some(estimate) };
        let n = Cell::text(one.estimate.n.to_string());
        let variant = Cell::text(&one.variant);
        let (explains, what) = (Cell::text(explains), Cell::text(one.title()));
        vec![variant, explains, what, figure, n]
    });
    Table::new("probe-figures", "Probes", columns.into(), rows)
}

/// The variant, with the name of the mechanism if the variant does not begin with it.
pub(super) fn mechanism(name: &str, variant: &str) -> Cell {
    if variant.starts_with(name) { Cell::text(variant) } else { Cell::lines([name, variant]) }
}

/// The mechanisms: outcome, overall level, proof.
pub(super) fn mechanisms(record: &RunRecord, notes: &mut Notes) -> Table {
    let columns =
        ["mechanism", "overall", "weakest axis", "rests on", "unmeasured axes", "proof", "outcome"];
    let rows = record.mechanisms.iter().map(|row| {
        let overall = record
            .overall
            .iter()
            .find(|overall| (&overall.mechanism, &overall.variant) == (&row.name, &row.variant));
        let level = overall.and_then(|overall| overall.level.as_deref());
        let weakest = overall.and_then(|overall| overall.weakest_axis.as_deref());
        let axes = overall.map(|overall| overall.axes.join(", "));
        let unmeasured = overall.map(|overall| overall.unmeasured_axes.join(", "));
        let notes = row.outcome.reason.iter().map(|reason| notes.number(reason)).collect();
        vec![
            mechanism(&row.name, &row.variant),
            Cell::level(level, None),
            Cell::text(weakest.unwrap_or_default()),
            Cell::text(axes.unwrap_or_default()),
            Cell::text(unmeasured.unwrap_or_default()),
            Cell::text(proof_summary(&row.proof)),
            Cell::Outcome { kind: row.outcome.outcome, notes },
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
    let shows =
        |what: fn(&&Proof) -> bool| proof.iter().filter(|proof| proof.holds).any(|p| what(&p));
    let partition =
        if shows(|proof| proof.hardware) { ", hardware partition observed" } else { "" };
    let limiter = if shows(|proof| proof.limiter) { ", limiter observed" } else { "" };
    format!("{holding} of {} checks hold{partition}{limiter}", proof.len())
}

/// The rate of each aggressor without a neighbour, and the ceiling that it is held against.
pub(super) fn aggressors(record: &RunRecord) -> Table {
    let rows = record.calibration.peaks.iter().map(|(name, peak)| {
        let rate = |per_s: f64| format!("{per_s:.3e} {}/s", peak.unit);
        let share = peak.alone_per_s / peak.peak_per_s;
        let ceiling = rate(peak.peak_per_s);
        let texts = [name, peak.ceiling.as_str(), &ceiling, &peak.source];
        let [name, kind, ceiling, source] = texts.map(Cell::text);
        let (alone, share) = (rate(peak.alone_per_s), format!("{:.1} %", 100.0 * share));
        vec![name, Cell::text(alone), Cell::text(share), ceiling, kind, source]
    });
    let columns = ["aggressor", "rate", "of ceiling", "ceiling", "kind", "source"];
    let heading = "Aggressors without a neighbour, and the peaks of their resources";
    Table::new("aggressors", heading, columns.map(str::to_owned).into(), rows).in_detail()
}

/// Requested mechanisms and axes that did not run, with reason and remedy.
pub(super) fn skips(record: &RunRecord) -> Table {
    let none = String::new();
    // Mechanisms that share axis, reason and remedy share a row.
    let mut rows: Vec<(Vec<&str>, [&str; 3])> = Vec::new();
    let mechanisms = record.mechanisms.iter();
    for row in mechanisms.filter(|row| row.outcome.outcome == OutcomeKind::Waived) {
        let reason = row.outcome.reason.as_ref().unwrap_or(&none);
        let remedy = row.remedy.as_ref().unwrap_or(&none);
        add(&mut rows, &row.variant, ["", reason, remedy]);
    }
    for skip in &record.plan.skips {
        let axis = skip.axis.as_ref().unwrap_or(&none);
        let remedy = skip.remedy.as_ref().unwrap_or(&none);
        add(&mut rows, &skip.variant, [axis, &skip.reason, remedy]);
    }
    let columns = ["mechanism", "axis", "reason", "remedy"].map(str::to_owned).into();
    Table::new(
        "skips",
        "Did not run",
        columns,
        rows.into_iter().map(|(variants, of)| {
            let mut cells = vec![Cell::lines(variants)];
            cells.extend(of.map(Cell::text));
            cells
        }),
    )
}

/// Adds a mechanism to the row of the same axis, reason and remedy.
fn add<'a>(rows: &mut Vec<(Vec<&'a str>, [&'a str; 3])>, variant: &'a str, of: [&'a str; 3]) {
    match rows.iter_mut().find(|(_, known)| *known == of) {
        Some((variants, _)) if variants.contains(&variant) => {}
        Some((variants, _)) => variants.push(variant),
        None => rows.push((vec![variant], of)),
    }
}

/// Cells without a measurement, counted by outcome, mechanism and condition.
pub(super) fn cells(record: &RunRecord) -> Table {
    let mut groups: BTreeMap<(u8, &str, &str), (usize, usize)> = BTreeMap::new();
    for (index, cell) in record.cells.iter().enumerate() {
        let rank = match cell.outcome.outcome {
            OutcomeKind::Measured => continue,
            OutcomeKind::Failed => 0,
            OutcomeKind::Inconclusive => 1,
            OutcomeKind::Waived => 2,
        };
        let key = (rank, cell.cell.variant.as_str(), cell.cell.condition.as_str());
        groups.entry(key).or_insert((0, index)).0 += 1;
    }
    let rows = groups.into_iter().map(|((_, variant, condition), (count, first))| {
        let first = &record.cells[first];
        let reason = first.outcome.reason.as_deref().unwrap_or_default();
        vec![
            Cell::Outcome { kind: first.outcome.outcome, notes: Vec::new() },
            Cell::text(count.to_string()),
            Cell::text(variant),
            Cell::text(condition),
            Cell::text(&first.cell.id),
            Cell::text(reason),
        ]
    });
    let columns = ["outcome", "cells", "mechanism", "condition", "first cell", "its reason"];
    let columns = columns.map(str::to_owned).into();
    Table::new("cells", "Cells without a measurement", columns, rows)
}

/// The number of cells by outcome, as a sentence.
pub(super) fn cells_in_words(record: &RunRecord) -> String {
    let count = |kind| record.cells.iter().filter(|cell| cell.outcome.outcome == kind).count();
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

/// The proofs that the mechanisms were in force.
pub(super) fn proof(record: &RunRecord) -> Table {
    let rows = record.mechanisms.iter().flat_map(|row| {
        row.proof.iter().map(|proof| {
            let holds = if proof.holds { "holds" } else { "DOES NOT HOLD" };
            let shows = match (proof.hardware, proof.limiter) {
                (true, true) => "partition, limiter",
                (true, false) => "partition",
                (false, true) => "limiter",
                (false, false) => MISSING_TEXT,
            };
            [row.variant.as_str(), proof.when.name(), &proof.check, holds, shows, &proof.evidence]
                .map(Cell::text)
                .into()
        })
    });
    let columns = ["mechanism", "when", "check", "verdict", "shows", "evidence"];
    let columns = columns.map(str::to_owned).into();
    Table::new("proof", "Proof that the mechanisms were in force", columns, rows).in_detail()
}
