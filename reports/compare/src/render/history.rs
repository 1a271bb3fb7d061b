//! A history as text, HTML or JSON.

mod chart;
mod page;
#[cfg(test)]
mod tests;

use super::table::wrap;
use super::words::figure;
use super::{RenderError, VIRTUAL_TITLE, json};
use crate::history::{ChangePoint, History, LABEL, SeriesReport};
use crate::session::Metric;

/// Form of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryFormat {
    /// For a terminal of 80 columns.
    Text,
    /// One page with a chart of each series, and a table.
    Html,
    /// Everything, for programs.
    Json,
}

impl HistoryFormat {
    /// Every format by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("text", Self::Text), ("html", Self::Html), ("json", Self::Json)];
}

/// What begins a new series and what cuts one: the last lines of every table.
const RULES: [&str; 3] = [
    "a new series begins with another GPU, profile, calibration, scoring or gpubench version; the \
     profile's hash covers the kernels' PTX",
    "a new segment begins with another driver, VBIOS or kernel, and with a declared change",
    "alarm: self-starting CUSUM, at most 1 % of quiet series of 60 nights; change: E-divisive, \
     p <= 0.001, and at least the margin",
];

/// The history in one of the formats.
///
/// # Errors
/// When JSON cannot represent it.
pub fn history(history: &History, format: HistoryFormat) -> Result<String, RenderError> {
    match format {
        HistoryFormat::Text => Ok(text(history)),
        HistoryFormat::Html => Ok(page::html(history)),
        HistoryFormat::Json => json(history),
    }
}

/// The schema of the JSON of a history.
#[must_use]
pub fn history_schema() -> schemars::Schema {
    schemars::schema_for!(History)
}

fn title(history: &History) -> String {
    let counted = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    format!(
        "{}, {} series of primary rows, {}",
        counted(history.sessions as usize, "session"),
        history.series.len(),
        counted(history.alerts.len(), "alert")
    )
}

fn notices(history: &History) -> Vec<String> {
    let mut notices = Vec::new();
    if history.has_virtual {
        notices.push(VIRTUAL_TITLE.to_owned());
    }
    notices.extend(history.alerts.iter().map(|alert| {
        format!("between {} and {}: {}", alert.between[0], alert.between[1], alert.rows.join(", "))
    }));
    notices.extend(history.lost.iter().map(|line| format!("lost: {line}")));
    notices
}

fn text(history: &History) -> String {
    let mut text = wrap(&title(history), 2) + "\n";
    for notice in notices(history) {
        text += &(wrap(&notice, 2) + "\n");
    }
    let mut identity = None;
    for series in &history.series {
        if identity != Some(&series.identity) {
            text += &format!("\n{}\n", wrap(&identity_words(series), 2));
            identity = Some(&series.identity);
        }
        text += &(wrap(&format!("  {}", head(series)), 4) + "\n");
        for line in findings(series) {
            text += &(wrap(&format!("    {line}"), 6) + "\n");
        }
    }
    text += "\n";
    for rule in RULES {
        text += &(wrap(rule, 2) + "\n");
    }
    text
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
    let values = series.nights.iter().map(|night| night.value);
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let last = series.nights.last();
    let beside = key.aggressor.as_deref().unwrap_or("no neighbour");
    let figures = last.map_or_else(
        || "no night has figures".to_owned(),
        |last| {
            let [last, low, high] = [last.value, low, high].map(|value| figure(key.metric, value));
            format!("last {last}, range {low} to {high}")
        },
    );
    format!(
        "{} {} {}, {} beside {beside}: {}, {figures}",
        key.variant,
        key.axis,
        key.metric.as_str(),
        key.victim,
        match series.nights.len() {
            1 => "1 night".to_owned(),
            count => format!("{count} nights"),
        }
    )
}

fn findings(series: &SeriesReport) -> Vec<String> {
    let events =
        series.events.iter().map(|event| format!("event before {}: {}", event.session, event.what));
    let changes = series.changes.iter().map(|change| {
        let [from, to] = &change.between;
        let by = change_words(series.key.metric, change);
        format!("change between {from} and {to}: {by}")
    });
    let alarms = series
        .alarms
        .iter()
        .map(|alarm| format!("alarm at {}: {}", alarm.session, word(alarm.worse)));
    events.chain(changes).chain(alarms).collect()
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
