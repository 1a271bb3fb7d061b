//! The forest plot: every ratio and every jitter with its interval, by axis, with the thresholds of
//! the levels.

use gpubench_record::{Estimate, MatrixRow, RunRecord};
use maud::{Markup, html};

use super::charts::Variants;
use super::charts::{Axis, Scale};
use super::charts::{Chart, line, px, text_at};
use crate::format::figures::{confidence, one_line, value};

const ROW_HEIGHT: f64 = 22.0;
const WIDTH: f64 = 400.0;
/// Width of a letter of a name.
const LETTER: f64 = 6.4;
const NAME_MAX: usize = 22;

/// Rows that share an axis and a pair of victim and aggressor.
struct Group<'a> {
    title: String,
    rows: Vec<&'a MatrixRow>,
}

/// The figures of one kind of chart.
struct Kind {
    /// The first is drawn as a filled dot, the second as an open diamond below it.
    figures: [fn(&MatrixRow) -> Option<&Estimate>; 2],
    axis: fn(&[&MatrixRow]) -> Axis,
    thresholds: fn(&RunRecord) -> Vec<(f64, &'static str)>,
}

const RATES: Kind = Kind {
    figures: [|row| row.retention.as_ref(), |row| row.guarantee.as_ref()],
    axis: |rows| ratio_axis(rows),
    thresholds: |record| {
        let thresholds = &record.plan.thresholds;
        vec![
            (thresholds.retention_l1, "L1"),
            (thresholds.retention_l2, "L2"),
            (thresholds.retention_l3, "L3"),
        ]
    },
};
const JITTER: Kind = Kind {
    figures: [|row| row.jitter.as_ref(), |_| None],
    axis: |rows| jitter_axis(rows),
    thresholds: |record| {
        let thresholds = &record.plan.thresholds;
        vec![(thresholds.jitter_negligible, "L3"), (thresholds.service_jitter_low_medium, "L2")]
    },
};
const PROPORTIONS: Kind = Kind {
    figures: [|row| row.survival.as_ref(), |_| None],
    axis: |rows| ratio_axis(rows),
    thresholds: |_| Vec::new(),
};

/// The section; `None` where no row has such a figure.
pub(super) fn forest(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let mut panels = Vec::new();
    for kind in [RATES, JITTER, PROPORTIONS] {
        for group in groups(record, &kind) {
            panels.push(panel(record, variants, &kind, &group));
        }
    }
    (!panels.is_empty()).then(|| {
        html! {
            p {
                "Dot and line: what the victim keeps of its solo rate (retention), with its "
                (confidence(&record.plan)) " interval. Diamond: what it keeps of the whole device "
                "(guarantee). Dashed lines: bounds of the levels. Jitter is in native medians; 0 "
                "is no spread beyond a uniform slowdown. Memory: the share of trials that kept the "
                "promise."
            }
            div class="panels" { @for panel in panels { (panel) } }
        }
    })
}

fn groups<'a>(record: &'a RunRecord, kind: &Kind) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in &record.matrix {
        let has_figure = kind.figures.iter().any(|pick| pick(row).is_some());
        let is_reference = row.word.as_deref() == Some("reference");
        if !has_figure || is_reference || row.axis == "fault" {
            continue;
        }
        let title = title(row);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { title, rows: vec![row] }),
        }
    }
    groups
}

fn title(row: &MatrixRow) -> String {
    let axis =
        row.sub_axis.as_ref().map_or_else(|| row.axis.clone(), |sub| format!("{}/{sub}", row.axis));
    match (&row.victim, &row.aggressor) {
        (Some(victim), Some(aggressor)) => format!("{axis}: {victim} beside {aggressor}"),
        (None, Some(aggressor)) => format!("{axis}: beside {aggressor}"),
        (Some(victim), None) => format!("{axis}: {victim}"),
        (None, None) => axis,
    }
}

fn panel(record: &RunRecord, variants: &Variants<'_>, kind: &Kind, group: &Group<'_>) -> Markup {
    let names: Vec<String> =
        group.rows.iter().map(|row| shortened(variants.label(&row.variant))).collect();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let chart = Chart {
        width: WIDTH,
        plot: ROW_HEIGHT * group.rows.len() as f64,
        left: 12.0 + LETTER * longest.unwrap_or(0) as f64,
        right: 46.0,
        x: (kind.axis)(&group.rows),
        y: None,
        label: format!("{}, one interval for each mechanism", group.title),
    };
    let body = html! {
        @for (at, level) in (kind.thresholds)(record) {
            (chart.threshold(at))
            title { (level) " from " (value(at)) }
        }
        @for (index, (row, name)) in group.rows.iter().zip(&names).enumerate() {
            (drawn(&chart, kind, row, name, index))
        }
    };
    html! {
        figure {
            figcaption { (group.title) }
            (chart.draw(&body))
        }
    }
}

fn drawn(chart: &Chart, kind: &Kind, row: &MatrixRow, name: &str, index: usize) -> Markup {
    let y = Chart::row(index, ROW_HEIGHT);
    let [first, second] = kind.figures.map(|pick| pick(row));
    let level = row.level.as_deref().filter(|level| level.len() == 2).unwrap_or("open");
    html! {
        g class=(level) {
            text class="name" text-anchor="end" x=(px(chart.left - 6.0)) y=(px(y + 4.0)) { (name) }
            @if let Some(of) = first.filter(|of| of.value.is_finite()) {
                (line("interval", (chart.x(of.lo), y), (chart.x(of.hi), y)))
                circle class="value" cx=(px(chart.x(of.value))) cy=(px(y)) r="3.5" {
                    title { (one_line(of, Some(&of.unit))) }
                }
                (text_at("start", (chart.width - chart.right + 6.0, y + 4.0), &brief(of.value)))
            }
            @if let Some(of) = second.filter(|of| of.value.is_finite()) {
                @let (x, below) = (chart.x(of.value), y + 6.0);
                (line("thin", (chart.x(of.lo), below), (chart.x(of.hi), below)))
                path class="diamond"
                    d={ "M" (px(x - 3.0)) " " (px(below)) "l3 -3l3 3l-3 3z" } {
                    title { "guarantee " (one_line(of, Some(&of.unit))) }
                }
            }
        }
        "\n"
    }
}

/// From 0 to 1, or to the largest end.
fn ratio_axis(rows: &[&MatrixRow]) -> Axis {
    let ends = rows.iter().flat_map(|row| {
        let figures = [&row.retention, &row.guarantee, &row.survival];
        figures.into_iter().flatten().map(|of| of.hi.min(2.0 * of.value.max(1.0)))
    });
    let most = ends.filter(|end| end.is_finite()).fold(1.05, f64::max);
    let last = if most > 1.1 { most } else { 1.05 };
    let ticks = [0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 5.0];
    let ticks = ticks.into_iter().filter(|tick| *tick <= last);
    Axis {
        scale: Scale::Linear,
        lo: 0.0,
        hi: last,
        ticks: ticks.map(|tick| (tick, tick.to_string())).collect(),
        title: String::new(),
    }
}

/// Around 0, where the levels differ, and logarithmic above.
fn jitter_axis(rows: &[&MatrixRow]) -> Axis {
    let figures = || rows.iter().filter_map(|row| row.jitter.as_ref());
    let ends = figures().map(|of| of.hi).filter(|end| end.is_finite());
    let hi = ends.fold(1.2, f64::max);
    let lo = figures().map(|of| of.lo).filter(|end| end.is_finite());
    let ticks = [-0.1, 0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];
    let lo = lo.fold(-0.05, f64::min);
    let ticks = ticks.into_iter().filter(|tick| (lo..=hi).contains(tick));
    Axis {
        scale: Scale::Around(0.1),
        lo,
        hi,
        ticks: ticks.map(|tick| (tick, tick.to_string())).collect(),
        title: String::new(),
    }
}

/// Two decimals, or fewer for large values.
fn brief(value: f64) -> String {
    let decimals = if value.abs() >= 10.0 { 1 } else { 2 };
    let text = format!("{value:.decimals$}");
    text.strip_prefix("-0.00").map_or(text.clone(), |_| "0.00".to_owned())
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    let head: String = name.chars().take(NAME_MAX - 1).collect();
    format!("{head}\u{2026}")
}
