//! A history as text, HTML or JSON.

mod chart;
mod fleet;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use gpubench_record::counted;
use gpubench_show::{Block, Cell, Chart, Line, Look, Page, Table};

use super::figures::{figure_or_bound, of_change};
use super::{Detail, Format, RenderError, VIRTUAL_TITLE, written};
use crate::diff::Verdict;
use crate::history::{Alert, AlertRow, ChangePoint, Crossing, History, LABEL, Night, SeriesReport};
use crate::session::{Metric, RowKey};
use chart::chart;
pub(super) use chart::fitting;

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

/// The history in one of the formats. The text of many series has a line for each row; all of them
/// in full detail.
/// Fails when JSON cannot represent it.
pub fn history(
    history: &History,
    format: Format,
    detail: Detail,
    look: Look,
) -> Result<String, RenderError> {
    let page = |format| match format {
        Format::Html => with_charts(history),
        _ => lines(history, detail),
    };
    let variants = history.series.iter().map(|one| &*one.key.variant);
    written(page, variants, history, format, look)
}

fn title(history: &History) -> String {
    let open: Vec<String> = history.unacknowledged().map(|one| alert_words(history, one)).collect();
    let missing = history.missing.iter().map(|one| {
        format!("{} stopped reporting: {} missed", one.gpu, counted(one.missed as usize, "night"))
    });
    let unmeasured = history.unmeasured.iter().map(|one| {
        let nights = counted(one.nights as usize, "night");
        format!("{}: {nights} since the last record, {}", one.folder, one.verdict)
    });
    let findings: Vec<String> = open.iter().cloned().chain(missing).chain(unmeasured).collect();
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
        (true, true) => match undecided(history) {
            Some(rows) => format!("UNDECIDED: {rows}: too few nights.  {about}"),
            None => format!("no regression stands: {about}"),
        },
    }
}

/// Rows that look worse in the last nights of a series, and that too few nights leave open.
pub fn undecided(history: &History) -> Option<String> {
    let rows = history.undecided.iter().map(|row| format!("{} {}", row.row, change_of(row)));
    let rows: Vec<String> = rows.collect();
    (!rows.is_empty()).then(|| some(rows))
}

fn change_of(row: &AlertRow) -> String {
    match row.row.rsplit(' ').next() == Some(Metric::Jitter.as_str()) {
        true => format!("{:+.2} medians", row.change),
        false => format!("{:+.1} %", 100.0 * row.change),
    }
}

fn some(all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let named = all.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Most rows and GPUs that a line names.
const NAMED_MAX: usize = 3;

/// An alert in one line.
pub fn alert_words(history: &History, alert: &Alert) -> String {
    let gpus: BTreeSet<_> =
        history.series.iter().filter_map(|one| one.identity.get("uuid")).collect();
    let rows = alert.rows.iter().map(|row| {
        let on = match row.gpus.len() {
            1 if gpus.len() == 1 => String::new(),
            n if n > 1 && n == gpus.len() => format!(" on all {n} GPUs"),
            _ => format!(" on {}", some(row.gpus.iter().cloned().collect())),
        };
        format!("{} {}{on}", row.row, change_of(row))
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

/// Most series of which each has its lines.
const SERIES_MAX: usize = 40;

fn lines(history: &History, detail: Detail) -> Page {
    let mut page = Page::new(title(history));
    notices(history).into_iter().for_each(|notice| page.notice(notice));
    if detail == Detail::Changes && history.series.len() > SERIES_MAX {
        page.push(Block::Gap);
        fleet::push(&history.series, &mut page);
        return page;
    }
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
    let shown = |night: &Night| shown(key.metric, night);
    let figures = match (last, low, high) {
        (Some(last), Some(low), Some(high)) => {
            let [last, low, high] = [last, low, high].map(shown);
            format!("last {last}, range {low} to {high}")
        }
        _ => "no night has figures".to_owned(),
    };
    format!("{}: {}, {figures}", row_words(key), counted(series.nights.len(), "night"))
}

fn row_words(key: &RowKey) -> String {
    let metric = key.metric.as_str();
    let what =
        if key.axis == metric { metric.to_owned() } else { format!("{} {metric}", key.axis) };
    let beside = key.aggressor.as_deref().unwrap_or("no neighbour");
    format!("{} {what}, {} beside {beside}", key.variant, key.victim)
}

/// The rate of a victim that starved is a bound.
fn shown(metric: Metric, night: &Night) -> String {
    figure_or_bound(metric, night.value, night.bound)
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
