//! How retention falls with the dose of the aggressor and with the number of tenants, and the share
//! of requests within a promised latency.

use std::collections::BTreeMap;

use gpubench_record::{Condition, Estimate, RunRecord, ServiceRow};
use maud::{Markup, html};

use super::axis::Axis;
use super::chart::{Chart, line, px};
use super::style::{Variants, classes, color};
use super::time::polyline;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 190.0;

/// Lines of one chart, by variant.
type Lines<'a> = BTreeMap<&'a str, Vec<(f64, &'a Estimate)>>;

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
fn charts<'a>(
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
    charts(record.service.iter().filter_map(|row| {
        let aggressor = row.aggressor.as_ref().filter(|_| row.condition == Condition::C)?;
        let title = format!("{}: {} beside {aggressor}", row.sub_axis.as_str(), row.victim);
        let point = (f64::from(row.tenants), pick(row)?);
        Some((title, row.variant.as_str(), vec![point]))
    }))
}

fn panels(charts: &BTreeMap<String, Lines<'_>>, what: &str, variants: &Variants<'_>) -> Markup {
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
    let values = points().flat_map(|(_, of)| [of.lo.max(-0.2), of.hi.min(1.5)]);
    let chart = Chart {
        width: WIDTH,
        plot: HEIGHT.max(13.0 * lines.len() as f64),
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
