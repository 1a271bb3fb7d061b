//! What to use when: for each mechanism what it isolates, what it does not, and its cost.

use gpubench_record::claim::Verdict;
use gpubench_record::{Estimate, MatrixRow, OutcomeKind, RunRecord};
use maud::{Markup, html};

use super::charts::Variants;
use crate::matrix::faults::{is_of_fault, summary};

/// The names of axes and sub-axes by what the record says of them.
#[derive(Default)]
struct Said {
    isolated: Vec<String>,
    partly: Vec<String>,
    not: Vec<String>,
    undecided: Vec<String>,
}

/// The section; `None` where no mechanism has a level.
pub(super) fn choice(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let mut rows = Vec::new();
    for mechanism in &record.mechanisms {
        let variant = &mechanism.variant;
        let is_reference =
            *variant == record.plan.reference || mechanism.name == record.plan.reference;
        if is_reference || mechanism.outcome.outcome == OutcomeKind::Waived {
            continue;
        }
        let said = said(record, variant);
        if said.isolated.len() + said.partly.len() + said.not.len() + said.undecided.len() > 0 {
            rows.push((variant, said));
        }
    }
    (!rows.is_empty()).then(|| {
        html! {
            div class="scroll" tabindex="0" role="region" aria-label="Table of mechanisms" {
                table {
                    caption { "What each mechanism isolates, and what it costs" }
                    thead {
                        tr {
                            @for name in HEADS { th scope="col" { (name) } }
                        }
                    }
                    tbody {
                        @for (variant, said) in &rows {
                            tr {
                                th scope="row" { (variants.label(variant)) }
                                td { (list(&said.isolated)) }
                                td { (list(&said.partly)) }
                                td { (list(&said.not)) }
                                td { (list(&said.undecided)) }
                                td { (cost(record, variant)) }
                                td { (claims(record, variant)) }
                            }
                        }
                    }
                }
            }
        }
    })
}

const HEADS: [&str; 7] = [
    "mechanism",
    "isolates (L3, L2)",
    "partly (L1)",
    "does not isolate (L0)",
    "undecided",
    "cost: solo rate over native",
    "published claims",
];

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "-".to_owned();
    }
    names.join(", ")
}

/// Each axis once, with its weakest row.
fn said(record: &RunRecord, variant: &str) -> Said {
    let mut by_axis: Vec<(String, Vec<&MatrixRow>)> = Vec::new();
    let rows = record.matrix.iter().filter(|row| row.variant == variant && !is_of_fault(row));
    for row in rows {
        let name = name(row);
        match by_axis.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => by_axis.push((name, vec![row])),
        }
    }
    let mut said = Said::default();
    for (name, rows) in by_axis {
        let waived = |row: &&MatrixRow| row.outcome.outcome == OutcomeKind::Waived;
        if rows.iter().all(waived) {
            continue;
        }
        let levels: Option<Vec<&str>> = rows.iter().map(|row| decided(row)).collect();
        match levels.and_then(|levels| levels.into_iter().min()) {
            Some(level) => said.add(level, name),
            None => said.undecided.push(name),
        }
    }
    if record.matrix.iter().any(|row| row.variant == variant && is_of_fault(row)) {
        let faults = summary(record, variant);
        match faults.level {
            Some(level) => said.add(&level, "faults".to_owned()),
            None => said.undecided.push("faults".to_owned()),
        }
    }
    said
}

/// What the row is about, as the heat map has it; parts of memory and of compute by name.
fn name(row: &MatrixRow) -> String {
    match (row.axis.as_str(), row.sub_axis.as_deref()) {
        ("bandwidth", Some(sub_axis)) => sub_axis.to_owned(),
        (axis, None) | (axis @ "compute", Some("sm")) => axis.to_owned(),
        (axis, Some(sub_axis)) => format!("{axis}/{sub_axis}"),
    }
}

/// One level; a row that straddles two has none.
fn decided(row: &MatrixRow) -> Option<&str> {
    let level = row.level.as_deref().filter(|level| level.len() == 2)?;
    row.outcome.is_measured().then_some(level)
}

impl Said {
    fn add(&mut self, level: &str, name: String) {
        match level {
            "L3" | "L2" => self.isolated.push(name),
            "L1" => self.partly.push(name),
            _ => self.not.push(name),
        }
    }
}

/// The smallest and largest efficiency.
fn cost(record: &RunRecord, variant: &str) -> String {
    let rows = record.matrix.iter().filter(|row| row.variant == variant);
    let figures: Vec<&Estimate> = rows.filter_map(|row| row.efficiency.as_ref()).collect();
    let values = || figures.iter().map(|of| of.value).filter(|value| value.is_finite());
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if figures.is_empty() {
        return "-".to_owned();
    }
    if (most - least) < 0.005 {
        return format!("{most:.2}");
    }
    format!("{least:.2} to {most:.2}")
}

/// How many claims about the mechanism the record supports and refutes.
fn claims(record: &RunRecord, variant: &str) -> Markup {
    let mechanism = variant.split('[').next().unwrap_or(variant);
    let own = |verdict| {
        let about =
            |row: &&gpubench_record::ClaimRow| row.mechanisms.iter().any(|name| name == mechanism);
        record.claims.iter().filter(about).filter(|row| row.verdict == verdict).count()
    };
    let (supported, refuted) = (own(Verdict::Supported), own(Verdict::Refuted));
    html! {
        @if supported + refuted == 0 { "-" } @else {
            (supported) " supported, "
            @if refuted > 0 {
                a href="#t-claims" { b { (refuted) " refuted" } }
            } @else {
                "0 refuted"
            }
        }
    }
}
