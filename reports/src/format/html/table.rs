//! The tables of a report as HTML.

use std::collections::BTreeSet;

use maud::{Markup, PreEscaped, html};

use crate::format::figures::{MISSING_TEXT, parts};
use crate::format::parts::{Cell, Table};

/// A table with its caption, inside a box that scrolls where the page is narrower.
pub(super) fn table(of: &Table, notes: &[String]) -> Markup {
    let ids = row_ids(of);
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(of.heading) {
            table id={ "t-" (of.id) } {
                caption { (of.heading) }
                thead { tr { @for name in &of.columns { th scope="col" { (name) } } } }
                tbody {
                    @for (row, id) in of.rows.iter().zip(ids) {
                        tr id=[id] {
                            @for cell in row { (drawn(cell, notes)) }
                        }
                        "\n"
                    }
                }
            }
        }
        "\n"
    }
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

/// The id of a row of the matrix, from its mechanism and axis.
fn row_id(row: &[Cell]) -> String {
    let first = |cell: Option<&Cell>| match cell {
        Some(Cell::Text(lines)) => lines.first().cloned().unwrap_or_default(),
        _ => String::new(),
    };
    anchor(&first(row.first()), &first(row.get(1)))
}

/// The id of the row of a variant and an axis.
pub(super) fn anchor(variant: &str, axis: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("r-{variant}-{axis}").chars().map(plain).collect()
}

fn drawn(cell: &Cell, notes: &[String]) -> Markup {
    match cell {
        Cell::Text(lines) => html! { td { (joined(lines)) } },
        Cell::Level(lines) => html! { td class=(level_class(lines.first())) { (joined(lines)) } },
        Cell::Figure { estimate: None, .. } => html! { td class="figure" { (MISSING_TEXT) } },
        Cell::Figure { estimate: Some(estimate), unit } => {
            let parts = parts(estimate, unit.as_deref());
            let (figure, soft) = parts.split_at(1);
            html! {
                td class="figure" { (figure.concat()) " " i { (soft.join(" ")) } }
            }
        }
        Cell::Outcome { kind, notes: numbers } => html! {
            td class=(kind.as_str()) {
                (kind.as_str())
                @for note in numbers.iter().filter_map(|number| notes.get(number - 1)) {
                    span class="reason" { (note) }
                }
            }
        },
    }
}

/// The class of the colour of a level.
pub(super) fn level_class(level: Option<&String>) -> &'static str {
    match level.map(String::as_str) {
        Some("L0") => "level L0",
        Some("L1") => "level L1",
        Some("L2") => "level L2",
        Some("L3") => "level L3",
        _ => "level open",
    }
}

fn joined(lines: &[String]) -> Markup {
    html! {
        @for (index, line) in lines.iter().enumerate() {
            @if index > 0 { (PreEscaped("<br/>")) }
            (line)
        }
    }
}
