//! The head: what was measured where, the verdict in words, and what a reader must know first.

use super::details::anchor;
use crate::format::document::Document;
use crate::format::figures::{confidence, value};
use crate::format::{matrix, screen};
use crate::matrix::{
    CellCounts, Column, Figure, Glance, MatrixCell, NotRun, ReasonGroup, Row, Standing,
};
use gpubench_record::{Ends, Estimate, RunRecord};
use maud::{Markup, html};

/// The begin of notices without which a figure would be misread. Others are for a second look.
const FIRST: [&str; 6] = [
    "INCOMPLETE",
    "THRESHOLDS CHANGED",
    "FAULT TRIALS STOPPED",
    "NOT RUN",
    "DECIDES NOTHING",
    "NOTHING MEASURED",
];
/// Sentences beside the verdict.
const SENTENCES_MAX: usize = 4;

pub(super) fn head(record: &RunRecord, glance: &Glance, document: &Document) -> Markup {
    let device = &record.device;
    let kind = device.kind.as_str();
    let (first, others): (Vec<&String>, Vec<&String>) = document
        .notices
        .iter()
        .partition(|notice| FIRST.iter().any(|begin| notice.starts_with(begin)));
    let (verdict, more) = glance.sentences.split_at(glance.sentences.len().min(1));
    let (shown, rest) = more.split_at(more.len().min(SENTENCES_MAX));
    html! {
        h1 { (document.title) " " span class={ "badge " (kind) } { (kind) " GPU" } }
        p class="facts" {
            "driver " (device.driver) ", CUDA " (device.cuda) " \u{b7} " (date(record))
            " \u{b7} profile " (record.profile.name) ", seed " (record.seed) " \u{b7} "
            (record.plan.tenants)
            " tenants \u{b7} " (cells(glance.cells)) " \u{b7} " a href="#glossary" { "how to read" }
        }
        @for notice in first { p class="notice" { (notice) } }
        @for sentence in verdict { p class="verdict" { (sentence) } }
        @if !shown.is_empty() { p { (shown.join(" ")) } }
        @if !rest.is_empty() || !others.is_empty() {
            details class="notes" {
                summary { "Notes on this record (" (rest.len() + others.len()) ")" }
                ul { @for note in rest.iter().chain(others) { li { (note) } } }
            }
        }
        "\n"
    }
}

/// The day of the run.
pub(super) fn date(record: &RunRecord) -> &str {
    record.provenance.started_at.split('T').next().unwrap_or_default()
}

/// The cells of the run, those of no consequence left out.
fn cells(counts: CellCounts) -> String {
    let mut text = format!("{} of {} cells measured", counts.measured, counts.planned);
    for (count, what) in [
        (counts.inconclusive, "inconclusive"),
        (counts.failed, "failed"),
        (counts.waived, "waived"),
        (counts.not_run, "not run"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

/// The heat map with its key, and what is not in it.
pub(super) fn heat_map(record: &RunRecord, glance: &Glance) -> Markup {
    if glance.rows.is_empty() {
        return html! { (not_run(&glance.not_run)) };
    }
    html! {
        table class="heat" {
            caption {
                (screen::figures(record, glance)) " "
                span class="soft" { "(" (confidence(&record.plan)) " intervals)" }
            }
            thead {
                tr {
                    th scope="col" { "mechanism" }
                    @for column in &glance.columns { th scope="col" { (column.heading) } }
                    th scope="col" { "overall" }
                }
            }
            tbody { @for row in &glance.rows { (drawn(record, glance, row)) } }
        }
        p class="key" {
            @for standing in Standing::LEGEND {
                span class=(class(standing)) { (standing.sign()) " " (standing.word()) }
            }
            @if !glance.claims.is_empty() { span { "* differs from what is published" } }
        }
        (doubts(&glance.open))
        @if !glance.claims.is_empty() {
            p { @for line in &glance.claims { "* " (line) ". " } }
        }
        (not_run(&glance.not_run))
    }
}

fn drawn(record: &RunRecord, glance: &Glance, row: &Row) -> Markup {
    let overall = row.overall_text();
    html! {
        tr {
            th scope="row" {
                (row.label)
                @if row.more > 0 { span class="soft" { " weakest of " (row.more + 1) " variants" } }
            }
            @for (column, cell) in glance.columns.iter().zip(&row.cells) {
                @match cell {
                    Some(cell) if cell.standing != Standing::Waived => {
                        (filled(record, row, column, cell))
                    }
                    _ => td class="none" data-axis=(column.heading) { },
                }
            }
            td class=(class(Standing::of_level(row.overall.as_deref()))) data-axis="overall" {
                b { (overall) }
            }
        }
        "\n"
    }
}

fn filled(record: &RunRecord, row: &Row, column: &Column, cell: &MatrixCell) -> Markup {
    let (figure, ends) = match &cell.figure {
        Some(Figure::Estimate(of)) if of.ends == Ends::AtMost => (ends(of), String::new()),
        Some(Figure::Estimate(of)) => (brief(of.value), ends(of)),
        Some(Figure::HeldOf([held, all])) => (format!("{held} of {all}"), "held".to_owned()),
        None => (String::new(), cell.level.clone().unwrap_or_default()),
    };
    let target = cell.deciding.or_else(|| cell.rows.first().copied());
    let axis = target.and_then(|at| record.matrix.get(at)).map_or_else(
        || column.axis.clone(),
        |of| match &of.sub_axis {
            Some(sub_axis) if of.axis != "fault" => format!("{}/{sub_axis}", of.axis),
            _ => of.axis.clone(),
        },
    );
    let star = if cell.differs_from_claims() { "*" } else { "" };
    // Without any figure the page has no row to link to.
    let target = matrix::has_figures(record).then(|| format!("#{}", anchor(&row.variant, &axis)));
    html! {
        td class=(class(cell.standing)) data-axis=(column.heading) title=(cell.standing.word()) {
            a href=[target] {
                b { (figure) " " (cell.standing.sign()) (star) }
                span class="interval" { (ends) }
            }
        }
    }
}

/// Three decimals; the row has all digits.
fn brief(figure: f64) -> String {
    let text = format!("{figure:.3}");
    if text == "-0.000" { "0.000".to_owned() } else { text }
}

/// The ends, rounded outwards, so that one just below a boundary does not read as the boundary.
fn ends(of: &Estimate) -> String {
    let (lo, hi) = ((of.lo * 1e3).floor() / 1e3, (of.hi * 1e3).ceil() / 1e3);
    match of.ends {
        Ends::AtLeast => format!(">= {lo:.3}"),
        Ends::AtMost => format!("< {hi:.3}"),
        Ends::Interval | Ends::Range => format!("[{lo:.3}, {hi:.3}]"),
    }
}

pub(super) const fn class(standing: Standing) -> &'static str {
    match standing {
        Standing::Strong => "L3",
        Standing::Bounded => "L2",
        Standing::Partial => "L1",
        Standing::None | Standing::Failed => "L0",
        Standing::Open | Standing::Waived => "open",
    }
}

/// Why cells have no level, one line for each reason.
fn doubts(open: &[ReasonGroup]) -> Markup {
    html! { @for group in open { p { "? " (reason(group)) } } }
}

/// A group of doubts in one line.
pub(super) fn reason(group: &ReasonGroup) -> Markup {
    let places =
        group.places.iter().map(|(place, labels)| format!("{place} of {}", labels.join(", ")));
    let places: Vec<String> = places.collect();
    html! {
        (places.join("; ")) ": " (group.reason)
        @if group.differs { " (the others with other numbers)" }
        @if let Some(worst) = &group.worst {
            "; worst " (value(worst.value)) " " (worst.unit) ", limit " (value(worst.limit))
        }
        @if let Some(cure) = group.cure {
            span class="soft" { " \u{2013} " (cure.replace('`', "")) }
        }
    }
}

fn not_run(groups: &[NotRun]) -> Markup {
    let text = |group: &NotRun| {
        let mut what = group.mechanisms.join(", ");
        if let Some(axis) = &group.axis {
            what = if what.is_empty() { axis.clone() } else { format!("{axis} of {what}") };
        }
        match &group.remedy {
            Some(remedy) => format!("{what} ({}: {remedy})", group.reason),
            None => format!("{what} ({})", group.reason),
        }
    };
    html! {
        @if !groups.is_empty() {
            p class="soft" {
                "Not run: " (groups.iter().map(text).collect::<Vec<_>>().join("; ")) "."
            }
        }
    }
}
