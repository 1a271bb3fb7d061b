//! Faults by mechanism, the course of one trial, and the routes past limits.

use std::collections::BTreeMap;

use gpubench_record::fault::in_words;
use gpubench_record::{FaultResult, FaultTally, Harm, RunRecord};
use maud::{Markup, html};

use super::charts::Axis;
use super::charts::Variants;
use super::charts::{Chart, line, px, text_at};

const WIDTH: f64 = 760.0;
const ROW: f64 = 24.0;

/// The section; `None` without trials and without routes.
pub(super) fn faults(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let grid = grid(record, variants);
    let escapes = escapes(record, variants);
    if grid.is_none() && escapes.is_none() {
        return None;
    }
    Some(html! {
        @if let Some(grid) = grid { (grid) }
        @if let Some(trial) = worst_trial(record) { (course(trial, variants)) }
        @if let Some(escapes) = escapes { (escapes) }
    })
}

fn grid(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: BTreeMap<(bool, &str), BTreeMap<&str, &FaultTally>> = BTreeMap::new();
    for tally in record.fault_tallies.iter().filter(|tally| tally.trials > 0) {
        if !columns.contains(&tally.variant.as_str()) {
            columns.push(&tally.variant);
        }
        let key = (tally.class == "control", tally.fault.as_str());
        rows.entry(key).or_default().insert(&tally.variant, tally);
    }
    columns.sort_by_key(|variant| variants.index(variant));
    (!rows.is_empty()).then(|| {
        html! {
            p {
                "What the worst-hit victim of any trial was: unharmed, slowed, stalled or dead. "
                "Below it: the median time until a harmed victim's next good request, or until a "
                "new client was accepted where none recovered. n is 1 trial where not given."
            }
            div class="scroll" tabindex="0" role="region" aria-label="Faults by mechanism" {
                table class="grid-table" {
                    caption { "Fault by mechanism" }
                    thead {
                        tr {
                            th scope="col" { "fault" }
                            @for variant in &columns {
                                th scope="col" { (variants.label(variant)) }
                            }
                        }
                    }
                    tbody {
                        @for ((is_control, fault), of) in &rows {
                            tr {
                                th scope="row" {
                                    (fault) @if *is_control { span class="soft" { " (control)" } }
                                }
                                @for variant in &columns { (cell(of.get(variant).copied())) }
                            }
                        }
                    }
                }
            }
        }
    })
}

fn cell(tally: Option<&FaultTally>) -> Markup {
    let Some(tally) = tally else {
        return html! { td class="soft" { "not run" } };
    };
    let worst = tally.victims.keys().max().copied().unwrap_or(Harm::Unharmed);
    let class = match worst {
        Harm::Unharmed => "L3",
        Harm::Slowed => "L2",
        Harm::Stalled => "L1",
        Harm::Dead | Harm::Corrupted => "L0",
    };
    let recovered = tally.next_good.filter(|_| worst > Harm::Unharmed);
    let accepted = tally.new_client.filter(|_| worst > Harm::Unharmed);
    html! {
        td class=(class) {
            (worst.as_str())
            @if tally.trials > 1 { " (n = " (tally.trials) ")" }
            @if let Some(times) = recovered {
                span class="interval soft" { (in_words(times.median_ns)) }
            } @else if let Some(times) = accepted {
                span class="interval soft" { "new client " (in_words(times.median_ns)) }
            }
        }
    }
}

/// A trial that counts, in which a victim was harmed and recovered, else one that killed a victim.
fn worst_trial(record: &RunRecord) -> Option<&FaultResult> {
    let counted = || {
        let trials = record.fault_trials.iter();
        trials.filter(|trial| trial.outcome.is_measured() && trial.planned.facts.control.is_none())
    };
    let recovered = |trial: &&FaultResult| {
        let harmed = |one: &gpubench_record::VictimOutcome| {
            one.harm > Harm::Unharmed && one.next_good_ns.is_some()
        };
        trial.victims.iter().any(harmed) && trial.detected_after_ns.is_some()
    };
    counted().find(recovered).or_else(|| counted().find(|trial| !trial.is_contained()))
}

fn course(trial: &FaultResult, variants: &Variants<'_>) -> Markup {
    let ms = |ns: u64| ns as f64 / 1e6;
    let at = ms(trial.planned.at_ns);
    let end = ms(trial.planned.window_ns).max(at);
    let chart = Chart {
        width: WIDTH,
        plot: ROW * (trial.victims.len() + 1) as f64,
        left: 84.0,
        right: 10.0,
        x: Axis::between(0.0, end, 8.0, "ms since the start"),
        y: None,
        label: format!("course of the trial {}", trial.planned.id),
    };
    let planned = &trial.planned;
    html! {
        figure class="wide" {
            figcaption {
                "One trial: " (planned.fault) " under " (variants.label(&planned.variant))
            }
            div class="scroll" tabindex="0" role="region" aria-label="Course of one fault trial" {
                (chart.draw(&html! {
                    (line("threshold", (chart.x(at), 8.0), (chart.x(at), 8.0 + chart.plot)))
                    (text_at("end", (chart.left - 6.0, Chart::row(0, ROW) + 4.0), "injector"))
                    (text_at("start", (chart.x(at) + 4.0, Chart::row(0, ROW) + 4.0),
                        &detection(trial)))
                    @for (index, victim) in trial.victims.iter().enumerate() {
                        @let y = Chart::row(index + 1, ROW);
                        (text_at("end", (chart.left - 6.0, y + 4.0), &victim.tenant))
                        (line("work", (chart.x(0.0), y), (chart.x(at), y)))
                        @if victim.harm == Harm::Unharmed || victim.harm == Harm::Slowed {
                            (line("work", (chart.x(at), y), (chart.x(end), y)))
                        } @else if let Some(next) = victim.next_good_ns {
                            (line("work", (chart.x(at + ms(next)), y), (chart.x(end), y)))
                        }
                        text class="name" x=(px(chart.x(at) + 4.0)) y=(px(y - 3.0)) {
                            (victim.harm.as_str())
                        }
                    }
                }))
            }
            p class="soft" {
                "Bars: the victim completes requests. Dashed line: the fault. " (acceptance(trial))
            }
        }
    }
}

fn detection(trial: &FaultResult) -> String {
    trial.detected_after_ns.map_or_else(
        || "no answer".to_owned(),
        |ns| format!("fault; answered after {}", in_words(ns)),
    )
}

fn acceptance(trial: &FaultResult) -> String {
    match trial.observed.new_client.and_then(|client| client.accepted_after_ns) {
        Some(ns) => {
            format!("A new client was accepted {} after the last harmed process.", in_words(ns))
        }
        None => String::new(),
    }
}

/// Routes past a limit: how many of those tried got past it.
fn escapes(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let mut counts: BTreeMap<usize, (&str, Vec<&str>, usize)> = BTreeMap::new();
    for figure in record.probe_figures.iter().filter(|one| one.verdict.is_some()) {
        let count = counts.entry(variants.index(&figure.variant)).or_insert((
            &figure.variant,
            Vec::new(),
            0,
        ));
        count.2 += 1;
        if figure.verdict.as_deref() == Some("escaped") {
            count.1.push(&figure.figure);
        }
    }
    (!counts.is_empty()).then(|| {
        html! {
            h3 { "Routes past limits" }
            ul {
                @for (variant, escaped, tried) in counts.values() {
                    li {
                        (variants.label(variant)) ": "
                        @if escaped.is_empty() {
                            "no bypass among " (tried) " routes tested; others may exist"
                        } @else {
                            (escaped.len()) " of " (tried) " routes got past the limit: "
                            (escaped.join(", "))
                        }
                    }
                }
            }
        }
    })
}
