//! The tables of a plan.

use gpubench_plan::Detectable;
use gpubench_record::{Cell, MechanismProperties, Plan};
use gpubench_show::{Labels, Table};

/// `guarded` are the variants with a star.
pub(super) fn mechanisms(plan: &Plan, labels: &Labels, guarded: &[String], is_full: bool) -> Table {
    let count = |variant: &str| plan.cells.iter().filter(|cell| cell.variant == variant).count();
    let mut rows: Vec<[String; 3]> = plan
        .mechanisms
        .iter()
        .map(|mechanism| {
            let cells = count(&mechanism.variant).to_string();
            let changes = match mechanism.host_changes.as_slice() {
                [] => "none".to_owned(),
                changes if is_full => changes.join("; "),
                changes => in_short(changes),
            };
            let star = if guarded.contains(&mechanism.variant) { " *" } else { "" };
            [labels.get(&mechanism.variant), cells, changes + star]
        })
        .collect();
    // The others are measured against these cells: native ones, and those without protection.
    for variant in references(plan) {
        let is_daemon = MechanismProperties::of_format_1_0(&variant).mps_daemon;
        let changes = if is_daemon { "an MPS daemon of its own" } else { "none" };
        let name = format!("({}, as reference)", labels.get(&variant));
        rows.insert(0, [name, count(&variant).to_string(), changes.to_owned()]);
    }
    Table::plain(["mechanism", "cells", "changes on the host"], rows).numbers(&["cells"])
}

/// Changes without what limits them and where they lie; equal ones are counted.
fn in_short(changes: &[String]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for change in changes {
        let short = change.split(',').next().unwrap_or(change);
        let short = [" at ", " for "]
            .iter()
            .fold(short, |short, mark| short.split_once(mark).map_or(short, |(short, _)| short));
        match counted.iter_mut().find(|(known, _)| *known == short) {
            Some((_, count)) => *count += 1,
            None => counted.push((short, 1)),
        }
    }
    let texts = counted.iter().map(|(short, count)| match count {
        1 => (*short).to_owned(),
        count => format!("{count} x {short}"),
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// The variants with cells that are no mechanism of the plan, the native one last.
fn references(plan: &Plan) -> Vec<String> {
    let is_planned = |cell: &&Cell| plan.mechanisms.iter().any(|one| one.variant == cell.variant);
    let mut found: Vec<String> = Vec::new();
    for cell in plan.cells.iter().filter(|cell| !is_planned(cell)) {
        if !found.contains(&cell.variant) {
            found.push(cell.variant.clone());
        }
    }
    found.sort_by_key(|variant| *variant == plan.reference);
    found
}

pub(super) fn first_block(plan: &Plan, labels: &Labels) -> Table {
    let first = plan.cells.iter().filter(|cell| cell.block == 0);
    Table::plain(
        ["first block", "mechanism", "condition", "victim", "aggressor"],
        first.map(|cell| row(cell, labels)),
    )
}

fn row(cell: &Cell, labels: &Labels) -> [String; 5] {
    let aggressor = cell.aggressor.as_ref().map_or_else(
        || "-".to_owned(),
        |name| {
            let event = cell.shape.event.map(|event| format!("{name}, {}", event.as_str()));
            let dose = (cell.dose < 1.0).then(|| format!("{name} at {}", cell.dose));
            event.or(dose).unwrap_or_else(|| name.clone())
        },
    );
    let number = cell.id.split('-').next().unwrap_or(&cell.id);
    [
        number.to_owned(),
        labels.get(&cell.variant),
        cell.condition.as_str().to_owned(),
        cell.victim.clone(),
        aggressor,
    ]
}

/// The parts that do not run: whole mechanisms without an axis.
pub(super) fn skips(plan: &Plan, labels: &Labels) -> Table {
    let rows = plan.skips.iter().map(|skip| {
        let part = skip.axis.clone().unwrap_or_else(|| "all".to_owned());
        let remedy = skip.remedy.clone().unwrap_or_else(|| "-".to_owned());
        [labels.get(&skip.variant), part, skip.reason.clone(), remedy]
    });
    Table::plain(["mechanism", "not run", "reason", "remedy"], rows)
}

/// The smallest change that each row of a plan detects.
pub(super) fn detectable_table(rows: &[Detectable]) -> Table {
    let line = |row: &Detectable| {
        let size = |value: f64| match row.figure {
            "retention" => format!("{:.1} %", 100.0 * value),
            _ => format!("{value:.2} medians"),
        };
        let smallest = row.smallest.map_or_else(|| "-".to_owned(), size);
        [
            row.axis.clone(),
            format!("{} beside {}", row.victim, row.aggressor),
            row.blocks.to_string(),
            row.half_width.map_or_else(|| "-".to_owned(), size),
            format!("{smallest} of {}", row.figure),
            format!("{} {}", size(row.spread), row.source),
        ]
    };
    let header =
        ["row", "cells", "blocks", "half-width", "detects (80 % power)", "spread of blocks"];
    Table::plain(header, rows.iter().map(line)).numbers(&header[2..4])
}
