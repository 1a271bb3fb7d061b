//! Who ran when and where: the time slices of two tenants by the device's clock, and their SMs.

use std::collections::BTreeSet;

use gpubench_record::{ProbeFound, RunRecord, SmNumbers, SmPlacementPair, TracePair};
use maud::{Markup, html};

use super::axis::Axis;
use super::chart::{Chart, line, text_at};
use super::style::{Variants, legend};

const WIDTH: f64 = 420.0;
const ROW: f64 = 18.0;
/// Spans of a tenant that a chart shows.
const SPANS_MAX: usize = 8;

/// The section; `None` where the probe did not run.
pub(super) fn slices(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let mut panels = Vec::new();
    for variant in in_order(record, variants) {
        let of = record.probes.iter().filter(|probe| probe.variant == variant);
        let (mut trace, mut placement) = (None, None);
        for probe in of {
            match &probe.found {
                ProbeFound::TimeSliceTrace { traces, .. } => trace = traces.first(),
                ProbeFound::SmPlacement { device_sms, rounds } => {
                    placement = rounds.first().map(|round| (*device_sms, round));
                }
                _ => {}
            }
        }
        if trace.is_some() || placement.is_some() {
            panels.push(html! {
                figure {
                    figcaption { (variants.label(variant)) }
                    @if let Some(trace) = trace { (when(trace)) }
                    @if let Some((sms, round)) = placement { (place(sms, round)) }
                    @if counts_by_part(record, variant) {
                        p class="soft" {
                            "Each partition counts its SMs from 0: equal numbers are different SMs."
                        }
                    }
                }
            });
        }
    }
    (!panels.is_empty()).then(|| {
        let tenants = [("line victim", "victim"), ("line neighbour", "neighbour")];
        html! {
            p {
                "Above: when a block of each tenant ran, by the device's clock. Below: the SMs on "
                "which blocks of each tenant ran when both launched at the same time. Bars that "
                "stand one above the other mean the same time, or the same SM unless the chart "
                "says otherwise."
            }
            (legend(&tenants.map(|(class, name)| (class.to_owned(), name.to_owned()))))
            div class="panels" { @for panel in panels { (panel) } }
        }
    })
}

/// Whether equal SM numbers of two tenants are different SMs.
fn counts_by_part(record: &RunRecord, variant: &str) -> bool {
    let mut planned = record.plan.mechanisms.iter();
    let own = planned.find(|one| one.variant == variant);
    own.is_some_and(|one| one.properties.sm_numbers == SmNumbers::OfPart)
}

fn in_order<'a>(record: &'a RunRecord, variants: &Variants<'_>) -> Vec<&'a str> {
    let names: BTreeSet<&str> = record.probes.iter().map(|probe| probe.variant.as_str()).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|variant| variants.index(variant));
    names
}

/// The first spans of both tenants, from the first on.
fn when(trace: &TracePair) -> Markup {
    let tenants = [&trace.victim_ns, &trace.neighbour_ns];
    let starts = tenants.into_iter().filter_map(|spans| spans.first()).map(|span| span.0);
    // Where one tenant began later, the chart begins with it.
    let Some(start) = starts.max() else {
        return html! {};
    };
    let shown = tenants.map(|spans| {
        let after = spans.iter().filter(|span| span.1 >= start).take(SPANS_MAX);
        after.copied().collect::<Vec<_>>()
    });
    let ends = shown.iter().filter_map(|spans| spans.last()).map(|span| span.1);
    // A tenant with one long span ends where the other's spans end.
    let end_ms = ends.min().unwrap_or(start).saturating_sub(start) as f64 / 1e6;
    let ms = |ns: u64| ns.saturating_sub(start) as f64 / 1e6;
    let chart = rows_chart(Axis::between(0.0, end_ms, 5.0, "ms"), "time slices of two tenants");
    chart.draw(&html! {
        @for (index, (spans, name)) in shown.iter().zip(["victim", "neighbour"]).enumerate() {
            @let y = Chart::row(index, ROW);
            (text_at("end", (chart.left - 6.0, y + 4.0), name))
            @for (from, to) in spans.iter().filter(|span| ms(span.0) <= end_ms) {
                (line(&format!("block {name}"), (chart.x(ms(*from)), y), (chart.x(ms(*to)), y)))
            }
        }
    })
}

/// The SMs of both tenants.
fn place(sms: u32, round: &SmPlacementPair) -> Markup {
    let count = f64::from(sms);
    let chart = rows_chart(Axis::between(0.0, count, 6.0, "SM number"), "SMs of two tenants");
    let tenants = [(&round.victim_sms, "victim"), (&round.neighbour_sms, "neighbour")];
    chart.draw(&html! {
        @for (index, (of, name)) in tenants.into_iter().enumerate() {
            @let y = Chart::row(index, ROW);
            (text_at("end", (chart.left - 6.0, y + 4.0), &format!("{} SMs", of.len())))
            @for (from, to) in runs(of) {
                (line(&format!("block {name}"), (chart.x(f64::from(from)), y),
                    (chart.x(f64::from(to) + 1.0), y)))
            }
        }
    })
}

fn rows_chart(x: Axis, label: &str) -> Chart {
    Chart {
        width: WIDTH,
        plot: 2.0 * ROW,
        left: 64.0,
        right: 8.0,
        x,
        y: None,
        label: label.to_owned(),
    }
}

/// Consecutive numbers as first and last.
fn runs(numbers: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn consecutive_sms_are_one_bar() {
        assert_eq!(runs(&[0, 1, 2, 5, 7, 8]), [(0, 2), (5, 5), (7, 8)]);
        assert_eq!(runs(&[]), []);
    }
}
