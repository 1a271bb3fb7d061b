//! Latency of each victim: who has which tail, as curves and percentiles.

use gpubench_record::{Condition, Estimate, RunRecord, ServiceRow};
use gpubench_store::latency::{LatencyChart, LatencyCurve, PERCENTILES, Percentile};

use super::charts::Axis;
use super::charts::{Chart, line, px};
use super::charts::{Variants, classes, color, legend};
use super::time::polyline;
use crate::format::curves::time;
use maud::{Markup, html};
use std::collections::BTreeMap;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const PANEL_WIDTH: f64 = 260.0;
const PANEL_HEIGHT: f64 = 120.0;
/// Width of a letter of a label.
const LETTER: f64 = 6.6;

/// The section; `None` where no cell has an open loop.
pub(super) fn latency(
    record: &RunRecord,
    charts: &[LatencyChart],
    variants: &Variants<'_>,
) -> Option<Markup> {
    let drawn = || charts.iter().filter(|chart| !chart.curves.is_empty());
    drawn().next()?;
    let are_figures =
        drawn().flat_map(|chart| &chart.curves).any(|curve| curve.unanswered.is_none());
    Some(html! {
        p {
            "From the scheduled instant of an open-loop request to its completion; lower is "
            "better. Each further nine of the requests has the same width, so the tail is visible. "
            @if let Some(without) = without_open_loop(record, charts) { (without) }
        }
        @if are_figures {
            p {
                "This record keeps no latencies (no latencies.hlog): dots are means over blocks of "
                "the percentiles that each block was given; lines between them guide the eye."
            }
        }
        @for chart in drawn() { (of_victim(chart, variants)) }
    })
}

/// The victims of closed loops alone, in one sentence.
fn without_open_loop(record: &RunRecord, charts: &[LatencyChart]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for cell in &record.cells {
        let name = cell.cell.victim.as_str();
        let has_chart = charts.iter().any(|chart| chart.victim == name);
        if !has_chart && cell.cell.closed_only && !names.contains(&name) {
            names.push(name);
        }
    }
    let names = names.join(", ");
    (!names.is_empty()).then(|| {
        format!("Measured in a closed loop only, which has rates and no latencies: {names}.")
    })
}

fn of_victim(chart: &LatencyChart, variants: &Variants<'_>) -> Markup {
    let mut curves: Vec<&LatencyCurve> = chart.curves.iter().collect();
    curves.sort_by_key(|curve| (variants.index(&curve.of.variant), curve.of.clone()));
    let shown: Vec<&LatencyCurve> =
        curves.iter().copied().filter(|curve| curve.of.condition != Condition::S).collect();
    html! {
        h3 { "Victim " (chart.victim) }
        figure class="wide" {
            figcaption { "Beside the neighbour, and alone on the GPU" }
            div class="scroll" tabindex="0" role="region"
                aria-label={ "Latency curves of " (chart.victim) } {
                (overview(&shown, variants))
            }
        }
        (by_mechanism(&curves, variants))
        (table(&curves, &chart.victim, variants))
    }
}

/// All contended curves and the native one, each with its name at its end.
fn overview(curves: &[&LatencyCurve], variants: &Variants<'_>) -> Markup {
    let names: Vec<String> = curves.iter().map(|curve| name(curve, curves, variants)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let chart = Chart {
        width: WIDTH,
        plot: HEIGHT,
        left: 52.0,
        right: 24.0 + LETTER * longest as f64,
        x: Axis::tail("share of requests answered within the latency"),
        y: Some(Axis::times(times(curves), "latency")),
        label: "latency by share of requests, for each mechanism".to_owned(),
    };
    let styles = variants.styles(curves.iter().map(|curve| curve.of.variant.as_str()));
    let ends = curves.iter().zip(&names).zip(&styles).map(|((curve, name), style)| {
        let last_ns = curve.points.last().map_or(0, |(ns, _)| *ns);
        (chart.y(last_ns as f64), color(*style), name.clone())
    });
    let body = html! {
        @for (curve, style) in curves.iter().zip(&styles) {
            (path(&chart, curve, &classes(*style)))
        }
    };
    chart.draw(&html! { (body) (chart.direct_labels(ends.collect())) })
}

/// The mechanism, and the aggressor where a mechanism has several.
fn name(curve: &LatencyCurve, all: &[&LatencyCurve], variants: &Variants<'_>) -> String {
    if curve.of.condition == Condition::N {
        return "alone (native)".to_owned();
    }
    let short = variants.label(&curve.of.variant);
    let same = all.iter().filter(|other| other.of.variant == curve.of.variant);
    match &curve.of.aggressor {
        Some(aggressor) if same.count() > 1 => format!("{short}, {aggressor}"),
        _ => short.to_owned(),
    }
}

/// One small chart for each mechanism: native, solo, contended.
fn by_mechanism(curves: &[&LatencyCurve], variants: &Variants<'_>) -> Markup {
    let y = Axis::times(times(curves), "");
    let native = curves.iter().find(|curve| curve.of.condition == Condition::N);
    let mut names: Vec<&str> = Vec::new();
    for curve in curves.iter().filter(|curve| curve.of.condition == Condition::C) {
        if !names.contains(&curve.of.variant.as_str()) {
            names.push(&curve.of.variant);
        }
    }
    let styles = ["native", "solo", "contended"];
    html! {
        (legend(&styles.map(|style| (format!("line {style}"), style.to_owned()))))
        div class="panels small" {
            @for variant in names {
                @let chart = Chart {
                    width: PANEL_WIDTH, plot: PANEL_HEIGHT, left: 46.0, right: 8.0,
                    x: Axis::tail(""), y: Some(y.clone()),
                    label: format!("latency under {variant}: native, solo and contended"),
                };
                @let own = curves.iter().filter(|curve| curve.of.variant == variant);
                figure {
                    figcaption { (variants.label(variant)) }
                    (chart.draw(&html! {
                        @for curve in native.into_iter().chain(own) {
                            (path(&chart, curve, condition_class(curve.of.condition)))
                        }
                    }))
                }
            }
        }
    }
}

const fn condition_class(condition: Condition) -> &'static str {
    match condition {
        Condition::N => "native",
        Condition::C => "contended",
        _ => "solo",
    }
}

fn times<'a>(curves: &'a [&'a LatencyCurve]) -> impl Iterator<Item = f64> + 'a {
    curves.iter().flat_map(|curve| curve.points.iter().map(|(ns, _)| *ns as f64))
}

/// A step at each latency; a line between dots where there are percentiles alone.
fn path(chart: &Chart, curve: &LatencyCurve, class: &str) -> Markup {
    let points: Vec<(String, String)> = curve
        .points
        .iter()
        .map(|(ns, share)| (px(chart.x(*share)), px(chart.y(*ns as f64))))
        .collect();
    let Some((first, rest)) = points.split_first() else {
        return html! {};
    };
    let is_figures = curve.unanswered.is_none();
    let mut d = if is_figures {
        format!("M{} {}", first.0, first.1)
    } else {
        format!("M{} {}H{}", px(chart.x(0.0)), first.1, first.0)
    };
    let mut last = first;
    for point in rest {
        if is_figures {
            d += &format!("L{} {}", point.0, point.1);
        } else {
            // A step that does not show at this size adds nothing.
            if point.1 != last.1 {
                d += &format!("V{}", point.1);
            }
            if point.0 != last.0 {
                d += &format!("H{}", point.0);
            }
        }
        last = point;
    }
    html! {
        path class={ "line " (class) } d=(d) {}
        @if is_figures {
            @for (x, y) in &points { circle class={ "dot " (class) } cx=(x) cy=(y) r="3" {} }
        }
        "\n"
    }
}

fn table(curves: &[&LatencyCurve], victim: &str, variants: &Variants<'_>) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label={ "Percentiles of " (victim) } {
            table class="figures" {
                caption { "Latency percentiles of " (victim) ", with 95 % intervals" }
                thead {
                    tr {
                        th scope="col" { "mechanism" }
                        th scope="col" { "condition" }
                        th scope="col" { "requests" }
                        @for (_, name) in PERCENTILES { th scope="col" { (name) } }
                    }
                }
                tbody {
                    @for curve in curves {
                        tr {
                            th scope="row" { (variants.label(&curve.of.variant)) }
                            td { (condition(curve)) }
                            td {
                                (curve.requests)
                                @if let Some(unanswered) = curve.unanswered.filter(|n| *n > 0) {
                                    span class="soft" { ", " (unanswered) " not answered" }
                                }
                            }
                            @for found in &curve.percentiles_ns { td { (percentile(*found)) } }
                        }
                    }
                }
            }
        }
    }
}

fn condition(curve: &LatencyCurve) -> String {
    match (&curve.of.aggressor, curve.of.condition) {
        (Some(aggressor), _) => format!("beside {aggressor}"),
        (None, Condition::N) => "native".to_owned(),
        (None, _) => "solo".to_owned(),
    }
}

fn percentile(found: Option<Percentile>) -> Markup {
    let Some(found) = found else {
        return html! { "-" };
    };
    html! {
        (time(found.ns))
        @if let Some((lo, hi)) = found.interval_ns {
            span class="soft interval" {
                "[" (time(lo)) ", " (hi.map_or_else(|| "?".to_owned(), time)) "]"
            }
        }
    }
}

const DOSE_WIDTH: f64 = 420.0;
const DOSE_HEIGHT: f64 = 190.0;

/// Lines of one chart, by variant.
pub(super) type Lines<'a> = BTreeMap<&'a str, Vec<(f64, &'a Estimate)>>;

/// The section; `None` where the plan has one dose and one number of tenants.
pub(super) fn dose(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let doses = charts(record.dose_curves.iter().map(|curve| {
        let title =
            format!("{}: {} beside {}", curve.sub_axis.as_str(), curve.victim, curve.aggressor);
        let points = curve.points.iter();
        let points = points.filter_map(|point| Some((point.offered, point.retention.as_ref()?)));
        (title, curve.variant.as_str(), points.collect())
    }));
    let sweep = swept(record, |row| row.retention.as_ref());
    let slo = swept(record, |row| row.within_slo.as_ref());
    if doses.is_empty() && sweep.is_empty() && slo.is_empty() {
        return None;
    }
    let within = record
        .plan
        .slo_ns
        .map(|ns| format!("share of requests within {} ms, by active tenants", ns as f64 / 1e6));
    Some(html! {
        p { "Vertical bars are 95 % intervals." }
        div class="panels" {
            (panels(&doses, "retention, by dose that the aggressor offers", variants))
            (panels(&sweep, "retention, by active tenants", variants))
            (panels(&slo, within.as_deref().unwrap_or("goodput"), variants))
        }
    })
}

/// Lines with more than one point, by title.
pub(super) fn charts<'a>(
    curves: impl Iterator<Item = (String, &'a str, Vec<(f64, &'a Estimate)>)>,
) -> BTreeMap<String, Lines<'a>> {
    let mut charts: BTreeMap<String, Lines<'_>> = BTreeMap::new();
    for (title, variant, points) in curves {
        charts.entry(title).or_default().entry(variant).or_default().extend(points);
    }
    for lines in charts.values_mut() {
        lines.retain(|_, points| points.len() > 1);
        for points in lines.values_mut() {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
    charts.retain(|_, lines| !lines.is_empty());
    charts
}

fn swept<'a>(
    record: &'a RunRecord,
    pick: fn(&ServiceRow) -> Option<&Estimate>,
) -> BTreeMap<String, Lines<'a>> {
    let usual = record.service.iter().filter(|row| row.shape.is_usual());
    charts(usual.filter_map(|row| {
        let aggressor = row.aggressor.as_ref().filter(|_| row.condition == Condition::C)?;
        let title = format!("{}: {} beside {aggressor}", row.sub_axis.as_str(), row.victim);
        let point = (f64::from(row.tenants), pick(row)?);
        Some((title, row.variant.as_str(), vec![point]))
    }))
}

pub(super) fn panels(
    charts: &BTreeMap<String, Lines<'_>>,
    what: &str,
    variants: &Variants<'_>,
) -> Markup {
    html! {
        @for (title, lines) in charts {
            figure {
                figcaption { (title) span class="soft" { " \u{2013} " (what) } }
                (drawn(lines, what, variants))
            }
        }
    }
}

fn drawn(lines: &Lines<'_>, what: &str, variants: &Variants<'_>) -> Markup {
    let points = || lines.values().flatten();
    let longest = lines.keys().map(|variant| variants.label(variant).chars().count()).max();
    let mut ticks: Vec<f64> = points().map(|(x, _)| *x).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let x = Axis {
        lo: first,
        hi: last,
        ticks: ticks.iter().map(|tick| (*tick, tick.to_string())).collect(),
        ..Axis::linear([first, last].into_iter(), 4.0, "")
    };
    // A ratio far above 1 has an end that would hide the others; a figure that is no ratio has not.
    let most = points().map(|(_, of)| of.value).fold(1.0, f64::max);
    let values = points().flat_map(|(_, of)| [of.lo.max(-0.2), of.hi.min(1.5 * most)]);
    let chart = Chart {
        width: DOSE_WIDTH,
        plot: DOSE_HEIGHT.max(13.0 * lines.len() as f64),
        left: 36.0,
        right: 22.0 + 6.6 * longest.unwrap_or(0) as f64,
        x,
        y: Some(Axis::linear(values.chain([0.0, 1.0]), 5.0, "")),
        label: what.to_owned(),
    };
    let ends = lines.iter().map(|(variant, points)| {
        let y = chart.y(points.last().map_or(0.0, |(_, of)| of.value));
        (y, color(variants.index(variant)), variants.label(variant).to_owned())
    });
    chart.draw(&html! {
        @for (variant, points) in lines {
            @let style = variants.index(variant);
            @let means: Vec<(f64, f64)> = points.iter().map(|(x, of)| (*x, of.value)).collect();
            (polyline(&chart, &means, &format!("line {}", classes(style))))
            @for (x, of) in points {
                @let at = chart.x(*x);
                (line(&format!("bar {}", color(style)), (at, chart.y(of.lo)), (at, chart.y(of.hi))))
                circle class={ "dot " (color(style)) }
                    cx=(px(at)) cy=(px(chart.y(of.value))) r="2.5" {}
            }
        }
        (chart.direct_labels(ends.collect()))
    })
}
