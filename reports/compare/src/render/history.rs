//! A history as text, HTML or JSON.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use gpubench_record::counted;
use gpubench_show::html::escape;
use gpubench_show::{Block, Cell, Chart, Line, Look, Page, Table};

use super::figures::{figure, figure_or_bound, of_change};
use super::{Format, RenderError, VIRTUAL_TITLE, written};
use crate::diff::Verdict;
use crate::history::{Alert, ChangePoint, Crossing, History, LABEL, Night, SeriesReport};
use crate::session::Metric;

/// What begins a new series and what cuts one: the last lines of every table.
const RULES: [&str; 4] = [
    "a new series begins with another GPU, calibration, scoring or gpubench version, and with each \
     profile where they alternate",
    "a new segment begins with another driver, VBIOS, kernel or profile (whose hash covers the \
     kernels' PTX), and with a declared change",
    "deviation: self-starting CUSUM, at most 1 % of quiet series of 60 nights; change: E-divisive, \
     p <= 0.001 and at most 5 % over all looks, one a night, and at least the margin; both are \
     reasons to look",
    "the segments before and after an event are compared by the rules of gpubench diff, on each \
     GPU and over all GPUs with the event; a drift is a trend over the last segment of a third of \
     the margin; 5 % for a false regression in all of them together",
];

/// The history in one of the formats.
/// Fails when JSON cannot represent it.
pub fn history(history: &History, format: Format, look: Look) -> Result<String, RenderError> {
    let page = |format| match format {
        Format::Html => with_charts(history),
        _ => lines(history),
    };
    let variants = history.series.iter().map(|one| &*one.key.variant);
    written(page, variants, history, format, look)
}

fn title(history: &History) -> String {
    let open: Vec<String> = history.unacknowledged().map(|one| alert_words(history, one)).collect();
    let missing = history.missing.iter().map(|one| {
        format!("{} stopped reporting: {} missed", one.gpu, counted(one.missed as usize, "night"))
    });
    let findings: Vec<String> = open.iter().cloned().chain(missing).collect();
    let about = format!(
        "{}, {} series of primary rows, {}",
        counted(history.sessions as usize, "session"),
        history.series.len(),
        counted(history.alerts.len(), "alert")
    );
    let found = findings.join("; ");
    match (open.is_empty(), found.is_empty()) {
        (false, _) => format!("REGRESSED: {found}.  {about}"),
        (true, false) => format!("NOT MEASURED: {found}.  {about}"),
        (true, true) => format!("no regression stands: {about}"),
    }
}

/// Most rows and GPUs that a line names.
const NAMED_MAX: usize = 3;

/// An alert in one line.
pub fn alert_words(history: &History, alert: &Alert) -> String {
    let gpus: BTreeSet<_> =
        history.series.iter().filter_map(|one| one.identity.get("uuid")).collect();
    let some = |all: Vec<String>| {
        let more = all.len().saturating_sub(NAMED_MAX);
        let named = all.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{named} and {more} more") } else { named }
    };
    let rows = alert.rows.iter().map(|row| {
        let metric = row.row.rsplit(' ').next().unwrap_or_default();
        let change = match metric == Metric::Jitter.as_str() {
            true => format!("{:+.2} medians", row.change),
            false => format!("{:+.1} %", 100.0 * row.change),
        };
        let on = match row.gpus.len() {
            1 if gpus.len() == 1 => String::new(),
            n if n > 1 && n == gpus.len() => format!(" on all {n} GPUs"),
            _ => format!(" on {}", some(row.gpus.iter().cloned().collect())),
        };
        format!("{} {change}{on}", row.row)
    });
    let word = if alert.worse { "worse" } else { "better" };
    let known = alert.acknowledged.as_ref();
    let known = known.map_or_else(String::new, |what| format!(" (acknowledged: {what})"));
    format!("{}, {word}: {}{known}", alert.what, some(rows.collect()))
}

fn notices(history: &History) -> Vec<String> {
    let mut notices = Vec::new();
    if history.has_virtual {
        notices.push(VIRTUAL_TITLE.to_owned());
    }
    notices.extend(history.alerts.iter().map(|alert| {
        let [from, to] = &alert.between;
        format!("between {from} and {to}: {}", alert_words(history, alert))
    }));
    notices.extend(
        history
            .missing
            .iter()
            .map(|one| format!("{} stopped reporting after {}", one.gpu, one.last)),
    );
    notices.extend(history.lost.iter().map(|line| format!("lost: {line}")));
    notices
}

fn lines(history: &History) -> Page {
    let mut page = Page::new(title(history));
    notices(history).into_iter().for_each(|notice| page.notice(notice));
    for group in history.series.chunk_by(|one, next| one.identity == next.identity) {
        page.push(Block::Gap);
        page.say(identity_words(&group[0]));
        for series in group {
            page.push(Line::new(head(series)).indented(2, 4));
            let findings = findings(series).into_iter();
            findings.for_each(|text| page.push(Line::new(text).indented(4, 6)));
        }
    }
    page.push(Block::Gap);
    short_segments(history).into_iter().for_each(|text| page.say(text));
    RULES.into_iter().for_each(|rule| page.say(rule));
    page
}

/// How to read the charts.
const LEGEND: &str = "A dot is a night, a pale bar the mean of a stretch. Dashed lines are events, \
at which a series is cut; solid lines are changes inside a segment; a ring is a \
deviation.";

/// A chart for each series, those that changed first, and the table.
fn with_charts(history: &History) -> Page {
    let mut page = Page::new(format!("gpubench history: {}{}", history.scope(), title(history)));
    notices(history).into_iter().for_each(|notice| page.notice(notice));
    let mut is_first = true;
    for group in history.series.chunk_by(|one, next| one.identity == next.identity) {
        let mut ordered: Vec<&SeriesReport> = group.iter().collect();
        ordered.sort_by_key(|series| rank(series));
        let charts = ordered.into_iter().filter_map(|series| {
            let caption = head(series);
            Some(Chart { svg: chart(series, &caption)?, caption })
        });
        let charts: Vec<Chart> = charts.collect();
        if charts.is_empty() {
            continue;
        }
        if std::mem::take(&mut is_first) {
            page.say(LEGEND);
        }
        page.push(Block::Heading(identity_words(&group[0])));
        charts.into_iter().for_each(|chart| page.push(chart));
    }
    let rows = history.series.iter().map(|series| {
        let [identity, row] = [identity_words(series), head(series)].map(Cell::text);
        vec![identity, row, Cell::lines(findings(series))]
    });
    page.push(Table::new("", "Series", ["identity", "row", "events, changes, deviations"], rows));
    short_segments(history).into_iter().for_each(|text| page.say(text));
    RULES.into_iter().for_each(|rule| page.say(rule));
    page
}

/// Series that got worse come first, then other changes, then deviations alone.
fn rank(series: &SeriesReport) -> u8 {
    let across = |verdict| series.crossings.iter().any(|one| one.verdict == verdict);
    if series.changes.iter().any(|change| change.worse) || across(Verdict::Regressed) {
        0
    } else if !series.changes.is_empty() || across(Verdict::Improved) {
        1
    } else {
        2 + u8::from(series.deviations.is_empty())
    }
}

/// The identity without hashes in full.
fn identity_words(series: &SeriesReport) -> String {
    let of = |name: &str| series.identity.get(name).map_or("-", String::as_str);
    let short = |name: &str| of(name).chars().take(12).collect::<String>();
    let labels: String = series
        .identity
        .iter()
        .filter_map(|(name, value)| Some(format!("{} {value}, ", name.strip_prefix(LABEL)?)))
        .collect();
    format!(
        "{labels}{}, profile {}, calibration {}, gpubench {}",
        of("uuid"),
        short("profile"),
        short("calibration"),
        of("gpubench")
    )
}

fn head(series: &SeriesReport) -> String {
    let key = &series.key;
    let by_value = |a: &&Night, b: &&Night| a.value.total_cmp(&b.value);
    let nights = || series.nights.iter();
    let [last, low, high] = [nights().last(), nights().min_by(by_value), nights().max_by(by_value)];
    // The rate of a victim that starved is a bound.
    let shown = |night: &Night| figure_or_bound(key.metric, night.value, night.bound);
    let beside = key.aggressor.as_deref().unwrap_or("no neighbour");
    let figures = match (last, low, high) {
        (Some(last), Some(low), Some(high)) => {
            let [last, low, high] = [last, low, high].map(shown);
            format!("last {last}, range {low} to {high}")
        }
        _ => "no night has figures".to_owned(),
    };
    let metric = key.metric.as_str();
    let what =
        if key.axis == metric { metric.to_owned() } else { format!("{} {metric}", key.axis) };
    format!(
        "{} {what}, {} beside {beside}: {}, {figures}",
        key.variant,
        key.victim,
        counted(series.nights.len(), "night")
    )
}

fn findings(series: &SeriesReport) -> Vec<String> {
    let events =
        series.events.iter().map(|event| format!("event before {}: {}", event.session, event.what));
    let changes = series.changes.iter().map(|change| {
        let [from, to] = &change.between;
        let by = change_words(series.key.metric, change);
        format!("change between {from} and {to}: {by}, {}", counted(change.looks as usize, "look"))
    });
    let deviations = series
        .deviations
        .iter()
        .map(|one| format!("deviation at {}: {}", one.session, word(one.worse)));
    let metric = series.key.metric;
    let crossings = series.crossings.iter().map(|one| across(metric, one));
    let shown = series.detectable.map(|least| {
        let least = of_change(metric, least).replace('+', "");
        format!("smallest change that the last segment could have shown: {least}")
    });
    events.chain(crossings).chain(changes).chain(deviations).chain(shown).collect()
}

/// How many series have too few nights to show a change.
fn short_segments(history: &History) -> Option<String> {
    let all = history.series.len();
    let short = history.series.iter().filter(|one| one.detectable.is_none()).count();
    (short > 0).then(|| {
        format!("the last segment of {short} of {all} series is too short to show a change")
    })
}

/// The nights before an event against those after it.
fn across(metric: Metric, one: &Crossing) -> String {
    let [from, to] = &one.between;
    let mut text = format!("across {from} and {to}: {}", one.verdict.as_str());
    if let Some(figures) = &one.figures {
        let [change, lo, hi] =
            [figures.change, figures.lo, figures.hi].map(|x| of_change(metric, x));
        let [before, after] = one.sessions;
        text += &format!(", {change} [{lo}, {hi}] from {before} and {after} nights");
        if let Some(least) = figures.detectable {
            text += &format!(", detectable {}", of_change(metric, least).replace('+', ""));
        }
    }
    text.extend(one.reason.iter().map(|why| format!("; {why}")));
    if !one.also_differs.is_empty() {
        text += &format!("; also differs: {}", one.also_differs.join(", "));
    }
    text
}

/// By how much a row changed, and to what end.
fn change_words(metric: Metric, change: &ChangePoint) -> String {
    let word = word(change.worse);
    if metric.is_log() {
        format!("{:+.1} %, {word}", 100.0 * change.change)
    } else {
        format!("{:+.2} medians, {word}", change.change)
    }
}

const fn word(worse: bool) -> &'static str {
    if worse { "worse" } else { "better" }
}

// One series as a chart: its nights, the level of each stretch, and vertical lines with labels at
// events, which cut it, and at changes. SVG.

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
fn chart(series: &SeriesReport, name: &str) -> Option<String> {
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
pub(super) fn fitting(text: &str, chars: usize) -> String {
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
