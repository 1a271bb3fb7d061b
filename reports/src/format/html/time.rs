//! The run over time: the device's readings, and each mechanism's rate by block.

use gpubench_record::{Gate, ProbeFound, RunRecord, SmNumbers, SmPlacementPair, TracePair};
use gpubench_store::timeline::{RetentionChart, Series, Timeline};

use super::charts::Axis;
use super::charts::{Chart, line, px, text_at};
use super::charts::{Variants, classes, color, legend};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 120.0;

type Points = Vec<(f64, f64)>;

/// The section; `None` where there is nothing to draw.
pub(super) fn time(
    record: &RunRecord,
    rates: &[RetentionChart],
    timeline: Option<&Timeline>,
    variants: &Variants<'_>,
) -> Option<Markup> {
    let steal = steal(record);
    if rates.is_empty() && timeline.is_none() && steal.is_empty() {
        return None;
    }
    Some(html! {
        @if !rates.is_empty() {
            p {
                "Rate of the victim beside the aggressor over its solo rate, by block: a level "
                "line is a steady result."
            }
            div class="panels" {
                @for chart in rates { (by_block(&chart.title, &chart.lines, variants)) }
            }
        }
        @if let Some(timeline) = timeline { (readings(timeline)) }
        @if !steal.is_empty() {
            figure {
                figcaption { "CPU time that the host took away, % (mean of the cells of a block)" }
                (plain(&steal, "block", "CPU steal by block"))
            }
        }
    })
}

fn readings(timeline: &Timeline) -> Markup {
    let (lowered, all) = timeline.throttled;
    html! {
        div class="panels" {
            @for series in &timeline.series { (reading(series)) }
        }
        p {
            @if !timeline.constant.is_empty() {
                "The same in every reading: " (timeline.constant.join("; ")) ". "
            }
            @if all > 0 {
                (lowered) " of " (all) " readings name a reason for a lower clock."
            }
        }
    }
}

fn reading(series: &Series) -> Markup {
    let end = series.points.last().map_or(1.0, |(at, _)| *at);
    let x = Axis::between(0.0, end, 6.0, "s since the first reading");
    let y = Axis::linear(series.points.iter().map(|(_, value)| *value), 4.0, "");
    let chart = Chart {
        width: WIDTH,
        plot: HEIGHT,
        left: 44.0,
        right: 10.0,
        x,
        y: Some(y),
        label: format!("{} over the run", series.name),
    };
    html! {
        figure {
            figcaption { (series.name) }
            (chart.draw(&polyline(&chart, &series.points, "line c1")))
        }
    }
}

fn by_block(title: &str, lines: &BTreeMap<String, Points>, variants: &Variants<'_>) -> Markup {
    let longest = lines.keys().map(|variant| variants.label(variant).chars().count()).max();
    let points = || lines.values().flatten();
    let chart = Chart {
        width: WIDTH,
        plot: HEIGHT.max(13.0 * lines.len() as f64),
        left: 36.0,
        right: 22.0 + 6.6 * longest.unwrap_or(0) as f64,
        x: blocks_axis(points().map(|(block, _)| *block)),
        y: Some(Axis::linear(points().map(|(_, ratio)| *ratio).chain([0.0, 1.0]), 4.0, "")),
        label: format!("{title}: rate over solo rate by block"),
    };
    let ends = lines.iter().map(|(variant, points)| {
        let y = chart.y(points.last().map_or(0.0, |(_, ratio)| *ratio));
        (y, color(variants.index(variant)), variants.label(variant).to_owned())
    });
    let body = html! {
        @for (variant, points) in lines {
            (polyline(&chart, points, &format!("line {}", classes(variants.index(variant)))))
        }
        (chart.direct_labels(ends.collect()))
    };
    html! { figure { figcaption { (title) } (chart.draw(&body)) } }
}

fn plain(points: &Points, title: &str, label: &str) -> Markup {
    let chart = Chart {
        width: WIDTH,
        plot: HEIGHT,
        left: 44.0,
        right: 10.0,
        x: Axis { title: title.to_owned(), ..blocks_axis(points.iter().map(|(block, _)| *block)) },
        y: Some(Axis::linear(points.iter().map(|(_, value)| *value).chain([0.0]), 4.0, "")),
        label: label.to_owned(),
    };
    chart.draw(&polyline(&chart, points, "line c1"))
}

fn blocks_axis(blocks: impl Iterator<Item = f64>) -> Axis {
    let last = blocks.fold(1.0, f64::max);
    let step = ((last + 1.0) / 10.0).ceil().max(1.0);
    let ticks = (0..=last as u32).filter(|block| f64::from(*block) % step == 0.0);
    Axis {
        ticks: ticks.map(|block| (f64::from(block), block.to_string())).collect(),
        hi: last,
        ..Axis::linear([0.0, last].into_iter(), 4.0, "block")
    }
}

/// A line through points.
pub(super) fn polyline(chart: &Chart, points: &[(f64, f64)], class: &str) -> Markup {
    let mut d = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        d += &format!("{letter}{} {}", px(chart.x(*x)), px(chart.y(*y)));
    }
    html! { path class=(class) d=(d) {} "\n" }
}

/// The mean CPU time that was stolen in the cells of each block, where it is recorded.
fn steal(record: &RunRecord) -> Points {
    let mut by_block: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
    for cell in &record.cells {
        if let Some(value) = cell.gate(&Gate::CpuSteal).and_then(|gate| gate.value) {
            let sum = by_block.entry(cell.cell.block).or_default();
            *sum = (sum.0 + value, sum.1 + 1);
        }
    }
    let mean = by_block.into_iter().map(|(block, (sum, n))| (f64::from(block), sum / f64::from(n)));
    mean.collect()
}

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
