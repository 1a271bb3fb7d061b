//! One series as a chart: its nights, the level of each stretch, and vertical lines with labels at
//! events, which cut it, and at changes. SVG.

use std::cmp::Ordering;

use gpubench_show::html::escape;

use super::super::figures::figure;
use super::change_words;
use crate::history::{ChangePoint, Night, SeriesReport};
use crate::session::Metric;

const WIDTH: f64 = 400.0;
/// Space for the figures of the y axis.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 8.0;
const PLOT: f64 = 110.0;
/// Space below the plot, for the dates.
const BELOW: f64 = 20.0;
/// Height of a line of labels above the plot.
const LANE: f64 = 14.0;
/// More labels above each other than this are left out; their lines stay, and the table has them.
const LANES_MAX: usize = 6;
/// Width of a character of a label.
const CHAR: f64 = 5.8;
/// Space between a line and its label.
const GAP: f64 = 4.0;

/// A vertical line with its label.
struct Marker {
    x: f64,
    class: &'static str,
    text: String,
}

/// A label in its lane, the lowest of which is 0.
#[derive(Debug, PartialEq)]
struct Label {
    lane: usize,
    from: f64,
    to: f64,
    text: String,
}

/// The chart; `None` where fewer than two nights have figures.
pub(super) fn chart(series: &SeriesReport, name: &str) -> Option<String> {
    let nights = series.nights.iter().filter(|night| night.value.is_finite());
    let nights: Vec<&Night> = nights.collect();
    if nights.len() < 2 {
        return None;
    }
    let markers = markers(series, &nights);
    let labels = labels(&markers);
    let placed = labels.iter().flatten();
    let lanes = placed.map(|label| label.lane + 1).max().unwrap_or(0);
    let top = 6.0 + LANE * lanes as f64;
    let (lo, hi) = range(series.key.metric, &nights);
    let points: Vec<(f64, f64)> = nights
        .iter()
        .enumerate()
        .map(|(at, night)| {
            let share = (night.value - lo) / (hi - lo);
            (x_of(at as f64 + 0.5, nights.len()), top + (1.0 - share) * PLOT)
        })
        .collect();
    let (bottom, height) = (top + PLOT, top + PLOT + BELOW);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">\n",
        escape(name)
    );
    for share in [0.0, 0.5, 1.0] {
        let y = bottom - share * PLOT;
        let text = figure(series.key.metric, lo + share * (hi - lo));
        let text = text.trim_end_matches(" medians");
        svg += &path("grid", (LEFT, y), (WIDTH - RIGHT, y));
        svg += &text_at("end", (LEFT - 5.0, y + 4.0), "", text);
    }
    let ends = [(LEFT, "start", nights[0]), (WIDTH - RIGHT, "end", nights[nights.len() - 1])];
    for (x, anchor, night) in ends {
        svg += &text_at(anchor, (x, bottom + 15.0), "", day(&night.started_at));
    }
    svg += &stretches(series, &nights, &points);
    for (marker, label) in markers.iter().zip(&labels) {
        let lanes = label.as_ref().map_or(0, |label| label.lane + 1);
        let up = LANE * lanes as f64;
        svg += &path(marker.class, (marker.x, top - up), (marker.x, bottom));
    }
    for (marker, label) in markers.iter().zip(&labels) {
        if let Some(label) = label {
            let y = top - LANE * label.lane as f64 - GAP;
            let (anchor, x) =
                if label.from > marker.x { ("start", label.from) } else { ("end", label.to) };
            svg += &text_at(anchor, (x, y), marker.class, &label.text);
        }
    }
    for deviation in &series.deviations {
        let at = nights.iter().position(|night| night.session == deviation.session);
        if let Some((x, y)) = at.map(|at| points[at]) {
            svg += &format!("<circle class=\"deviation\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>\n");
        }
    }
    Some(svg + "</svg>\n")
}

/// The x of a place between `0` and `count` nights.
fn x_of(place: f64, count: usize) -> f64 {
    LEFT + place / count as f64 * (WIDTH - LEFT - RIGHT)
}

/// The day of an RFC 3339 time.
fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

/// The ends of the y axis: noise of less than 5 %, or 0.1 medians of jitter, must not fill it.
fn range(metric: Metric, nights: &[&Night]) -> (f64, f64) {
    let values = nights.iter().map(|night| night.value);
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let middle = f64::midpoint(low, high);
    let least = if metric == Metric::Jitter { 0.1 } else { 0.05 * middle.abs() };
    let half = (0.6 * (high - low)).max(least).max(1e-9);
    (middle - half, middle + half)
}

/// Events and changes, from left to right.
fn markers(series: &SeriesReport, nights: &[&Night]) -> Vec<Marker> {
    let before = |at: usize| x_of(at as f64, nights.len());
    let events = series.events.iter().map(|event| Marker {
        x: before(nights.partition_point(|night| night.started_at < event.started_at)),
        class: "event",
        text: event.what.clone(),
    });
    let changes = series.changes.iter().filter_map(|change| {
        let at = nights.iter().position(|night| night.session == change.between[1])?;
        Some(Marker {
            x: before(at),
            class: if change.worse { "worse" } else { "better" },
            text: change_words(series.key.metric, change),
        })
    });
    let mut markers: Vec<Marker> = events.chain(changes).collect();
    markers.sort_by(|a, b| a.x.total_cmp(&b.x));
    markers
}

/// A place for each label, at the side of its line that has room; `None` where all lanes are full.
/// From right to left, so that a line goes up beside the labels at its right.
fn labels(markers: &[Marker]) -> Vec<Option<Label>> {
    let mut placed: Vec<(f64, Option<Label>)> = Vec::new();
    for marker in markers.iter().rev() {
        let (right, left) = (WIDTH - marker.x - GAP, marker.x - GAP);
        let wanted = CHAR * marker.text.chars().count() as f64;
        let is_right = wanted <= right || right >= left;
        let width = wanted.min(if is_right { right } else { left });
        let from = if is_right { marker.x + GAP } else { marker.x - GAP - width };
        let to = from + width;
        let is_free = |lane: &usize| {
            let mut others = placed.iter().filter_map(|(x, label)| Some((x, label.as_ref()?)));
            others.all(|(x, other)| match other.lane.cmp(lane) {
                Ordering::Less => true,
                Ordering::Equal => to + GAP <= other.from || other.to + GAP <= from,
                Ordering::Greater => !(from..to).contains(x),
            })
        };
        let label = (0..LANES_MAX).find(is_free).map(|lane| Label {
            lane,
            from,
            to,
            text: fitting(&marker.text, (width / CHAR) as usize),
        });
        placed.push((marker.x, label));
    }
    placed.into_iter().rev().map(|(_, label)| label).collect()
}

/// The text, cut to so many characters.
pub fn fitting(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars.saturating_sub(3)).collect();
    kept + "..."
}

/// The nights, and the mean of each stretch between events and changes.
fn stretches(series: &SeriesReport, nights: &[&Night], points: &[(f64, f64)]) -> String {
    let mut svg = String::new();
    let mut from = 0;
    for to in 1..=nights.len() {
        let is_cut = nights.get(to).is_none_or(|night| {
            let is_changed = |change: &ChangePoint| change.between[1] == night.session;
            night.segment != nights[to - 1].segment || series.changes.iter().any(is_changed)
        });
        if !is_cut {
            continue;
        }
        let stretch = &points[from..to];
        let mean = stretch.iter().map(|(_, y)| y).sum::<f64>() / stretch.len() as f64;
        let [left, right] = [from, to].map(|at| x_of(at as f64, nights.len()));
        svg += &path("level", (left, mean), (right, mean));
        let line: Vec<String> = stretch.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        svg += &format!("<path class=\"line\" d=\"M{}\"/>\n", line.join("L"));
        let dots: Vec<String> = line.iter().map(|at| format!("M{at}h0")).collect();
        svg += &format!("<path class=\"dots\" d=\"{}\"/>\n", dots.concat());
        from = to;
    }
    svg
}

fn path(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    let ((x, y), (right, bottom)) = (from, to);
    format!("<path class=\"{class}\" d=\"M{x:.1} {y:.1}L{right:.1} {bottom:.1}\"/>\n")
}

fn text_at(anchor: &str, (x, y): (f64, f64), class: &str, text: &str) -> String {
    format!(
        "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n",
        escape(text)
    )
}
