//! What to use when: what each mechanism isolates and what it costs, compared with what a reader
//! sets. The page has the bounds of each need; its script compares and computes nothing.

use gpubench_judge::choose::need::Need;
use gpubench_judge::choose::page::{columns, takes};
use gpubench_judge::choose::{Candidate, bounds, candidates, is_of_model};
use gpubench_record::claim::Verdict;
use gpubench_record::{Estimate, RunRecord};
use maud::{Markup, PreEscaped, html};

use super::charts::Variants;

const SCRIPT: &str = include_str!("choice.js");

/// Its SHA-256, without which the policy of the page forbids it; `ci/check_page.py` prints it.
pub(super) const SCRIPT_SHA256: &str = "5Wbv10zSD5lQF6RlYeuUjVCkhujZQvzS2WgstQGnD/4=";

/// Steps of the slider of jitter, from 1.95 native medians down to 0.
const JITTER_STEPS: u32 = 40;

/// The section; `None` where no mechanism ran.
pub(super) fn choice(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let records = [record];
    let mut all = candidates(&records, &[]);
    all.retain(|one| one.cost.is_measured && one.refusal.is_none());
    let columns = columns();
    let by = if is_of_model(&records) { " by the model" } else { "" };
    (!all.is_empty()).then(|| {
        html! {
            p { "Set what you need: each mechanism then meets it, fails it, or it is unknown" (by)
                ". A column's name sorts the table. " code { "gpubench choose" }
                " answers the same with more needs, and with the command that measures what is \
                 unknown." }
            form class="needs" {
                @for (name, _) in &columns {
                    @let max = if *name == "jitter" { JITTER_STEPS } else { 3 };
                    label { (name) " "
                        (slider(name, max)) " " output { "no need" } }
                }
            }
            div class="scroll" tabindex="0" role="region" aria-label="Table of mechanisms" {
                table data-by=(by) {
                    caption { "What each mechanism isolates, and what it costs" }
                    thead { tr {
                        @for name in ["mechanism", "outcome"] { th scope="col" { (name) } }
                        @for (name, _) in &columns {
                            th scope="col" { button type="button" { (name) } }
                        }
                        @for name in COSTS { th scope="col" { (name) } }
                    } }
                    tbody { @for one in &all { (row(record, one, &columns, variants)) "\n" } }
                }
            }
            script { (PreEscaped(SCRIPT)) }
        }
    })
}

/// Closed, which `maud` leaves to HTML: the page is XML too.
fn slider(name: &str, max: u32) -> Markup {
    PreEscaped(format!(
        "<input type=\"range\" name=\"{name}\" min=\"0\" max=\"{max}\" value=\"0\" step=\"1\"/>"
    ))
}

const COSTS: [&str; 5] = [
    "alone: rate over native",
    "all tenants, devices",
    "compute not usable",
    "setting it up takes",
    "published claims",
];

fn row(
    record: &RunRecord,
    one: &Candidate,
    columns: &[(&'static str, Need)],
    variants: &Variants<'_>,
) -> Markup {
    let compared = columns.iter().zip(&one.isolation).map(|((name, _), levels)| {
        let figure = Need::parse("jitter<=0").ok().filter(|_| *name == "jitter");
        let of = figure.map_or(*levels, |need| bounds(&[record], &one.variant, &need));
        let ends = of.map(|end| if end.is_finite() { end.to_string() } else { "null".to_owned() });
        format!("[{}]", ends.join(","))
    });
    let compared = format!("[{}]", compared.collect::<Vec<_>>().join(","));
    let cost = &one.cost;
    let [alone, all, unusable] = [
        cost.efficiency.as_ref().map(interval),
        cost.throughput.as_ref().map(|[a, b]| format!("{:.2} to {:.2}", a.value, b.value)),
        cost.unusable.as_ref().map(|of| format!("{:.0} %", 100.0 * of.share)),
    ]
    .map(|text| text.unwrap_or_else(|| "-".to_owned()));
    html! {
        tr data-variant=(one.variant) data-outcome="" data-bounds=(compared) {
            th scope="row" { (variants.label(&one.variant)) }
            td class="outcome" { "-" }
            @for shown in &one.shown { td class=[class(shown.bounds)] { (shown.text) } }
            td { (alone) } td { (all) } td { (unusable) } td { (takes(&cost.steps)) }
            td { (claims(record, &one.variant)) }
        }
    }
}

fn interval(of: &Estimate) -> String {
    format!("{:.2} [{:.2}, {:.2}]", of.value, of.lo, of.hi)
}

fn class([worst, best]: [f64; 2]) -> Option<String> {
    (worst == best).then(|| format!("level L{worst}"))
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
