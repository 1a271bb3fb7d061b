//! Axes: from values to shares of a chart, with ticks at round values.

use crate::matrix::Glance;
use gpubench_record::RunRecord;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// How values become positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    Linear,
    /// Powers of ten are even; for positive values.
    Log,
    /// Shares below 1: 0.9, 0.99 and 0.999 are even, so that the tail is as wide as the rest.
    Tail,
    /// Linear around 0 up to this value, and logarithmic beyond.
    Around(f64),
}

impl Scale {
    fn of(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(f64::MIN_POSITIVE).log10(),
            Self::Tail => -(1.0 - value).max(1e-12).log10(),
            Self::Around(unit) => (value / unit).asinh(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) lo: f64,
    pub(super) hi: f64,
    /// Values with their labels.
    pub(super) ticks: Vec<(f64, String)>,
    /// What it shows, with the unit; empty where the caption says it.
    pub(super) title: String,
}

impl Axis {
    /// An even axis over these values, with about `count` ticks at round values.
    pub(super) fn linear(values: impl Iterator<Item = f64>, count: f64, title: &str) -> Self {
        let (lo, hi) = ends(values).unwrap_or((0.0, 1.0));
        let step = round_step((hi - lo) / count);
        let first = (lo / step).floor();
        let last = (hi / step).ceil().max(first + 1.0);
        let decimals = usize::from(step < 1.0) + usize::from(step < 0.1) + usize::from(step < 0.01);
        let steps = (last - first) as usize;
        let ticks = (0..=steps).map(|index| {
            let value = (first + index as f64) * step;
            (value, format!("{:.decimals$}", value + 0.0))
        });
        Self {
            scale: Scale::Linear,
            lo: first * step,
            hi: last * step,
            ticks: ticks.collect(),
            title: title.to_owned(),
        }
    }

    /// An even axis from `lo` to `hi` exactly, with about `count` ticks at round values inside.
    pub(super) fn between(lo: f64, hi: f64, count: f64, title: &str) -> Self {
        let mut axis = Self::linear([lo, hi].into_iter(), count, title);
        axis.ticks.retain(|(value, _)| (lo..=hi).contains(value));
        Self { lo, hi, ..axis }
    }

    /// A logarithmic axis of times in ns, with ticks at 1, 2 and 5.
    pub(super) fn times(times_ns: impl Iterator<Item = f64>, title: &str) -> Self {
        let (lo, hi) = ends(times_ns.map(|ns| ns.max(1.0))).unwrap_or((1.0, 10.0));
        let (lo, hi) = (lo / 1.03, (hi * 1.03).max(lo * 1.6));
        let mut ticks = Vec::new();
        let steps: &[f64] = if hi / lo > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        for decade in lo.log10().floor() as i32..=hi.log10().ceil() as i32 {
            for step in steps {
                let ns = step * 10f64.powi(decade);
                if (lo..=hi).contains(&ns) {
                    ticks.push((ns, time(ns)));
                }
            }
        }
        Self { scale: Scale::Log, lo, hi, ticks, title: title.to_owned() }
    }

    /// Shares of requests up to 0.999 and a little beyond.
    pub(super) fn tail(title: &str) -> Self {
        let ticks = [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %")];
        Self {
            scale: Scale::Tail,
            lo: 0.0,
            hi: 0.9995,
            ticks: ticks.map(|(share, text)| (share, text.to_owned())).into(),
            title: title.to_owned(),
        }
    }

    /// The position of a value as a share of the axis; values beyond its ends are at the ends.
    pub(super) fn share(&self, value: f64) -> f64 {
        let [lo, hi, value] = [self.lo, self.hi, value].map(|value| self.scale.of(value));
        let share = (value - lo) / (hi - lo);
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }
}

/// The smallest and largest finite value.
fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((lo, hi)) => Some((value.min(lo), value.max(hi))),
    })
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let step = if step.is_finite() && step > 0.0 { step } else { 1.0 };
    let decade = 10f64.powf(step.log10().floor());
    let nice = [1.0, 2.0, 5.0].into_iter().find(|nice| nice * decade >= step);
    nice.unwrap_or(10.0) * decade
}

fn time(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let unit = units.into_iter().find(|(size, _)| ns >= 0.999 * size);
    let (size, unit) = unit.unwrap_or((1.0, "ns"));
    format!("{} {unit}", (ns / size * 10.0).round() / 10.0)
}

/// Space between two labels, in pixels.
const LABEL_STEP: f64 = 13.0;
/// Space above the plot.
const TOP: f64 = 8.0;

/// A chart: a plot between its margins.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) width: f64,
    pub(super) plot: f64,
    pub(super) left: f64,
    /// Space right of the plot, for direct labels.
    pub(super) right: f64,
    pub(super) x: Axis,
    /// Absent where rows have names instead of values.
    pub(super) y: Option<Axis>,
    /// What the chart shows, for readers who cannot see it.
    pub(super) label: String,
}

impl Chart {
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.x.share(value) * (self.width - self.left - self.right)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        let share = self.y.as_ref().map_or(0.0, |axis| axis.share(value));
        TOP + (1.0 - share) * self.plot
    }

    /// The y of a row of `height`, at its middle.
    pub(super) fn row(index: usize, height: f64) -> f64 {
        TOP + (index as f64 + 0.5) * height
    }

    /// The chart around `body`.
    pub(super) fn draw(&self, body: &Markup) -> Markup {
        let title_height = if self.x.title.is_empty() { 0.0 } else { 15.0 };
        let height = TOP + self.plot + 18.0 + title_height;
        let (left, right) = (self.left, self.width - self.right);
        let bottom = TOP + self.plot;
        html! {
            svg viewBox={ "0 0 " (px(self.width)) " " (px(height)) } role="img"
                aria-label=(self.label) style={ "max-width:" (px(self.width * 1.25)) "px" } {
                @if let Some(axis) = &self.y {
                    @for (value, text) in &axis.ticks {
                        (line("grid", (left, self.y(*value)), (right, self.y(*value))))
                        (text_at("end", (left - 5.0, self.y(*value) + 4.0), text))
                    }
                }
                @for (value, text) in &self.x.ticks {
                    (line("grid", (self.x(*value), TOP), (self.x(*value), bottom)))
                    (text_at("middle", (self.x(*value), bottom + 14.0), text))
                }
                (line("axis", (left, bottom), (right, bottom)))
                @if !self.x.title.is_empty() {
                    (text_at("middle", (f64::midpoint(left, right), bottom + 29.0), &self.x.title))
                }
                (body)
            }
            "\n"
        }
    }

    /// A vertical line at a threshold, with its name above the axis.
    pub(super) fn threshold(&self, value: f64) -> Markup {
        let x = self.x(value);
        line("threshold", (x, TOP), (x, TOP + self.plot))
    }

    /// Names at the right of the plot, each beside the end of its curve and none over another.
    pub(super) fn direct_labels(&self, mut ends: Vec<(f64, String, String)>) -> Markup {
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let spread = spread(&ends.iter().map(|end| end.0).collect::<Vec<_>>(), TOP + self.plot);
        let x = self.width - self.right;
        html! {
            @for ((end, class, text), y) in ends.iter().zip(spread) {
                (line(&format!("leader {class}"), (x, *end), (x + 10.0, y)))
                text class={ "name " (class) } x=(px(x + 13.0)) y=(px(y + 4.0)) { (text) }
            }
        }
    }
}

/// Positions at least one label apart, near those wanted, and above `bottom` where they fit.
fn spread(wanted: &[f64], bottom: f64) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::with_capacity(wanted.len());
    for y in wanted {
        let least = placed.last().map_or(TOP, |last| last + LABEL_STEP);
        placed.push(y.max(least));
    }
    let mut most = bottom;
    for y in placed.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LABEL_STEP;
    }
    placed
}

pub(super) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
    html! {
        path class=(class) d={ "M" (px(from.0)) " " (px(from.1)) "L" (px(to.0)) " " (px(to.1)) } {}
    }
}

pub(super) fn text_at(anchor: &str, at: (f64, f64), text: &str) -> Markup {
    html! { text text-anchor=(anchor) x=(px(at.0)) y=(px(at.1)) { (text) } }
}

/// A position with one decimal at most.
pub(super) fn px(position: f64) -> String {
    let text = format!("{position:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Colours and dashes in the style sheet. No prime divides both, so that `COLORS * DASHES` styles
/// differ.
const COLORS: usize = 11;
const DASHES: usize = 7;

/// The classes of the style with this number. Numbers below 77 share none.
pub(super) fn classes(index: usize) -> String {
    format!("c{} d{}", index % COLORS, index % DASHES)
}

/// The class of the colour alone, for text.
pub(super) fn color(index: usize) -> String {
    format!("c{}", index % COLORS)
}

/// The variants of a record, each with a style number and the label of the heat map.
#[derive(Debug)]
pub(super) struct Variants<'a>(Vec<(&'a str, String)>);

impl<'a> Variants<'a> {
    /// The variants in report order, the reference first.
    pub(super) fn of(record: &'a RunRecord, glance: &Glance) -> Self {
        let rows = record.mechanisms.iter().map(|row| row.variant.as_str());
        let rows = rows.chain(record.matrix.iter().map(|row| row.variant.as_str()));
        let mut variants: Vec<(&str, String)> = Vec::new();
        for variant in std::iter::once(record.plan.reference.as_str()).chain(rows) {
            if variants.iter().all(|(known, _)| *known != variant) {
                let row = glance.rows.iter().find(|row| row.variant == variant);
                let label = row.map_or(variant, |row| &row.label);
                variants.push((variant, label.to_owned()));
            }
        }
        Self(variants)
    }

    /// The style number of a variant.
    pub(super) fn index(&self, variant: &str) -> usize {
        let found = self.0.iter().position(|(known, _)| *known == variant);
        found.unwrap_or(self.0.len())
    }

    /// Style numbers of several curves: each variant's own, and further ones for a variant that
    /// has several curves.
    pub(super) fn styles<'b>(&self, variants: impl Iterator<Item = &'b str>) -> Vec<usize> {
        let mut used = BTreeSet::new();
        let mut next = self.0.len();
        let style = |variant| {
            let own = self.index(variant);
            if used.insert(own) {
                return own;
            }
            next += 1;
            next
        };
        variants.map(style).collect()
    }

    /// Its label; the variant itself where the heat map does not have it.
    pub(super) fn label<'b>(&'b self, variant: &'b str) -> &'b str {
        let found = self.0.iter().find(|(known, _)| *known == variant);
        found.map_or(variant, |(_, label)| label)
    }
}

/// A legend: lines with their names.
pub(super) fn legend(entries: &[(String, String)]) -> Markup {
    html! {
        ul class="legend" {
            @for (class, name) in entries {
                li {
                    svg width="34" height="10" aria-hidden="true" {
                        path class=(class) d="M0 5H34" {}
                    }
                    " " (name)
                }
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::{Axis, COLORS, DASHES, Scale, classes, spread, time};
    use std::collections::BTreeSet;

    #[test]
    fn a_tail_axis_gives_each_nine_the_same_space() {
        let axis = Axis::tail("");
        let at = [0.0, 0.9, 0.99, 0.999].map(|share| axis.share(share));
        let steps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-9), "{steps:?}");
        assert!(axis.share(1.0) <= 1.0 && axis.share(1.0) > at[3]);
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let axis = Axis::linear([0.0047, 1.02].into_iter(), 5.0, "");
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(labels, ["0.0", "0.5", "1.0", "1.5"]);
        let exact = Axis::between(0.0, 132.0, 6.0, "");
        assert_eq!(exact.ticks.last().map(|(value, _)| *value), Some(100.0));
        assert_eq!(exact.share(132.0), 1.0);
        let times = Axis::times([0.9e6, 12e6].into_iter(), "");
        let labels: Vec<&str> = times.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(labels, ["1 ms", "2 ms", "5 ms", "10 ms"]);
        assert_eq!([5.0, 2e3, 1e9].map(time), ["5 ns", "2 us", "1 s"]);
        let around = Axis { scale: Scale::Around(0.1), lo: -0.1, hi: 10.0, ..axis };
        assert!(around.share(f64::NAN) == 0.0 && around.share(f64::INFINITY) == 1.0);
    }

    #[test]
    fn labels_never_overlap_and_stay_in_the_plot() {
        let placed = spread(&[10.0, 10.0, 11.0, 199.0, 200.0], 200.0);
        assert!(placed.windows(2).all(|pair| pair[1] - pair[0] >= 12.99), "{placed:?}");
        assert!(placed.iter().all(|y| (8.0..=200.0).contains(y)), "{placed:?}");
    }

    #[test]
    fn no_two_styles_are_the_same() {
        let all: BTreeSet<String> = (0..COLORS * DASHES).map(classes).collect();
        assert_eq!(all.len(), COLORS * DASHES);
        for index in 0..12 {
            let of = |index: usize| classes(index);
            let (one, next) = (of(index), of(index + 1));
            let differs = one.split(' ').zip(next.split(' ')).all(|(a, b)| a != b);
            assert!(differs, "neighbours differ in colour and dash: {one} {next}");
        }
        let sheet = gpubench_show::html::STYLE;
        for class in (0..COLORS).map(|n| format!(".c{n} ")) {
            assert!(sheet.contains(&class), "{class}");
        }
        for class in (1..DASHES).map(|n| format!(".d{n} ")) {
            assert!(sheet.contains(&class), "{class}");
        }
    }
}
