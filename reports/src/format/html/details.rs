//! What a reader opens to check a figure: every row, gates, proofs, provenance.

use super::head::reason;
use crate::format::document::Document;
use crate::format::figures::value;
use crate::matrix::{Glance, Subject};
use gpubench_record::{GateKind, GateState, RunRecord};
use gpubench_show::clean;
use gpubench_show::{Block, Cell, Page, Table};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Groups of tables by id, with the heading of each group.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Every row in full",
        &[
            "matrix",
            "reasons",
            "more-figures",
            "mechanisms",
            "operator",
            "service",
            "tenant-limits",
            "doses",
        ],
    ),
    ("Not run, and cells without a measurement", &["skips", "cells", "gates"]),
    ("Faults in full", &["faults"]),
    ("Probes and aggressors", &["probe-figures", "aggressors"]),
    ("Claims of the literature", &["claims", "claims-untested"]),
    ("Proof that the mechanisms were in force", &["proof"]),
];

pub(super) fn details(document: &Document, record: &RunRecord, glance: &Glance) -> Markup {
    let gates = gates(record);
    let mut tables: Vec<&Table> = document.tables.iter().collect();
    if !gates.rows.is_empty() {
        tables.push(&gates);
    }
    html! {
        @for (heading, ids) in GROUPS {
            @let of: Vec<&&Table> = ids
                .iter()
                .filter_map(|id| tables.iter().find(|table| table.id == *id))
                .collect();
            @if !of.is_empty() {
                details {
                    summary { (heading) }
                    @for one in of { (table(one, &document.notes)) }
                }
                "\n"
            }
        }
        @if !glance.reasons.is_empty() {
            details {
                summary { "Doubts, grouped (" (glance.reasons.len()) ")" }
                table {
                    caption { "Every doubt about rows, blocks and cells" }
                    thead {
                        tr {
                            th scope="col" { "how often" }
                            th scope="col" { "about" }
                            th scope="col" { "what" }
                        }
                    }
                    tbody {
                        @for group in &glance.reasons {
                            tr {
                                td { (group.count) }
                                td { (subject(group.subject)) }
                                td { (reason(group)) }
                            }
                        }
                    }
                }
            }
        }
        details {
            summary { "Provenance, and how to reproduce" }
            dl { @for (name, text) in &document.footer { dt { (name) } dd { (text) } } }
            p { "Command of the run: " code { (clean(&record.provenance.command.join(" "))) } }
            p {
                "A run with this record's calibration does the same work: "
                code { "gpubench matrix --profile " (clean(&record.profile.name))
                    " --calibration RECORD" }
            }
        }
    }
}

const fn subject(of: Subject) -> &'static str {
    match of {
        Subject::Row => "row",
        Subject::Absent => "row left out",
        Subject::Block => "block left out",
        Subject::Cell => "cell",
        Subject::Warning => "warning",
    }
}

/// Failed gates, counted, with the range of the figures that were judged.
fn gates(record: &RunRecord) -> Table {
    let mut groups: BTreeMap<(&str, &str), Group<'_>> = BTreeMap::new();
    for cell in &record.cells {
        for gate in cell.gates.iter().filter(|gate| gate.state == GateState::Failed) {
            let kind = match gate.kind {
                GateKind::Validity => "validity",
                GateKind::Disturbance => "disturbance",
            };
            let group = groups.entry((gate.gate.as_str(), kind)).or_insert_with(|| Group {
                cells: 0,
                least: f64::INFINITY,
                most: f64::NEG_INFINITY,
                limit: gate.limit,
                unit: gate.unit.as_deref().unwrap_or_default(),
                example: &gate.detail,
            });
            group.cells += 1;
            if let Some(found) = gate.value {
                group.least = group.least.min(found);
                group.most = group.most.max(found);
            }
        }
    }
    let columns = ["gate", "kind", "cells", "from", "to", "limit", "first of them"];
    let rows = groups.into_iter().map(|((gate, kind), group)| {
        let figure = |of: f64| {
            if of.is_finite() { format!("{} {}", value(of), group.unit) } else { String::new() }
        };
        vec![
            Cell::text(gate),
            Cell::text(kind),
            Cell::text(format!("{} of {}", group.cells, record.cells.len())),
            Cell::text(figure(group.least)),
            Cell::text(figure(group.most)),
            Cell::text(group.limit.map_or_else(String::new, figure)),
            Cell::text(group.example),
        ]
    });
    let heading = "Gates that failed; a disturbance within its limit widens an interval instead";
    Table::new("gates", heading, columns, rows)
}

/// Cells that failed the same gate.
struct Group<'a> {
    cells: usize,
    least: f64,
    most: f64,
    limit: Option<f64>,
    unit: &'a str,
    example: &'a str,
}

/// A table with its caption; rows of the matrix have ids.
fn table(of: &Table, notes: &[String]) -> Markup {
    gpubench_show::html::table(of, notes, &row_ids(of))
}

/// The ids that the heat map links to: of the rows of the matrix, the first of each axis.
fn row_ids(of: &Table) -> Vec<Option<String>> {
    let mut seen = BTreeSet::new();
    let ids = of.rows.iter().map(|row| {
        let id = row_id(row);
        (of.id == "matrix" && seen.insert(id.clone())).then_some(id)
    });
    ids.collect()
}

fn row_id(row: &[Cell]) -> String {
    let first =
        |cell: Option<&Cell>| cell.and_then(|cell| cell.lines.first()).cloned().unwrap_or_default();
    anchor(&first(row.first()), &first(row.get(1)))
}

pub(super) fn anchor(variant: &str, axis: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("r-{variant}-{axis}").chars().map(plain).collect()
}

/// The comparison with an earlier record.
pub(super) fn baseline(page: &Page) -> Markup {
    let notices = page.blocks.iter().filter_map(|block| match block {
        Block::Notice(text) => Some(text),
        _ => None,
    });
    html! {
        p { b { (page.title) } }
        @for notice in notices { p { (notice) } }
        @for one in page.tables() { (table(one, &[])) }
    }
}
