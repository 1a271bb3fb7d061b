//! The run over time: the device's readings, and each mechanism's rate by block.

use std::collections::BTreeMap;

use gpubench_record::{Gate, RunRecord};
use maud::{Markup, html};

use super::axis::Axis;
use super::chart::{Chart, px};
use super::style::{Variants, classes, color};
use crate::timeline::{RetentionChart, Series, Timeline};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 120.0;

/// Points of one line.
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
