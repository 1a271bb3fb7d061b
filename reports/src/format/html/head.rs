//! The head: what was measured where, the verdict in words, and what a reader must know first.

use gpubench_record::RunRecord;
use maud::{Markup, html};

use crate::format::document::Document;
use crate::matrix::{CellCounts, Glance};

/// The begin of notices without which a figure would be misread. Others are for a second look.
const FIRST: [&str; 5] =
    ["INCOMPLETE", "FAULT TRIALS STOPPED", "NOT RUN", "DECIDES NOTHING", "NOTHING MEASURED"];
/// Sentences beside the verdict.
const SENTENCES_MAX: usize = 4;

/// The head of the page.
pub(super) fn head(record: &RunRecord, glance: &Glance, document: &Document) -> Markup {
    let device = &record.device;
    let kind = device.kind.as_str();
    let date = record.provenance.started_at.split('T').next().unwrap_or_default();
    let (first, others): (Vec<&String>, Vec<&String>) = document
        .notices
        .iter()
        .partition(|notice| FIRST.iter().any(|begin| notice.starts_with(begin)));
    let (verdict, more) = glance.sentences.split_at(glance.sentences.len().min(1));
    let (shown, rest) = more.split_at(more.len().min(SENTENCES_MAX));
    html! {
        h1 { (document.title) " " span class={ "badge " (kind) } { (kind) " GPU" } }
        p class="facts" {
            "driver " (device.driver) ", CUDA " (device.cuda) " \u{b7} " (date) " \u{b7} profile "
            (record.profile.name) ", seed " (record.seed) " \u{b7} " (record.plan.tenants)
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
