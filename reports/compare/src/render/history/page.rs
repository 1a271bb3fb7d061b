//! A history as one HTML page: a chart for each series, those that changed first, and the table.

use super::super::html::{escape, page};
use super::chart::chart;
use super::{RULES, findings, head, identity_words, notices, title};
use crate::history::{History, SeriesReport};

/// How to read the charts.
const LEGEND: &str = "A dot is a night, a pale bar the mean of a stretch. Dashed lines are events, \
at which a series is cut; solid lines are changes inside a segment; a ring is an alarm.";

pub(super) fn html(history: &History) -> String {
    let rules: Vec<String> = RULES.iter().map(|rule| (*rule).to_owned()).collect();
    page(
        "gpubench history",
        &title(history),
        &notices(history),
        &(charts(history) + &table(history)),
        &rules,
    )
}

/// The charts of each identity under its heading.
fn charts(history: &History) -> String {
    let groups = history.series.chunk_by(|one, next| one.identity == next.identity);
    let mut text = String::new();
    for group in groups {
        let mut ordered: Vec<&SeriesReport> = group.iter().collect();
        ordered.sort_by_key(|series| rank(series));
        let figures: String = ordered.into_iter().filter_map(figure).collect();
        if figures.is_empty() {
            continue;
        }
        let heading = escape(&identity_words(&group[0]));
        text += &format!("<h2>{heading}</h2>\n<div class=\"charts\">\n{figures}</div>\n");
    }
    if text.is_empty() { text } else { format!("<p>{LEGEND}</p>\n{text}") }
}

/// Series that got worse come first, then other changes, then alarms alone.
fn rank(series: &SeriesReport) -> u8 {
    if series.changes.iter().any(|change| change.worse) {
        0
    } else if !series.changes.is_empty() {
        1
    } else {
        2 + u8::from(series.alarms.is_empty())
    }
}

fn figure(series: &SeriesReport) -> Option<String> {
    let caption = head(series);
    let svg = chart(series, &caption)?;
    let caption = escape(&caption);
    Some(format!("<figure><figcaption>{caption}</figcaption>\n{svg}</figure>\n"))
}

fn table(history: &History) -> String {
    let row = |series: &SeriesReport| {
        let points: Vec<String> = findings(series).iter().map(|line| escape(line)).collect();
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(&identity_words(series)),
            escape(&head(series)),
            points.join("<br/>")
        )
    };
    let rows: String = history.series.iter().map(row).collect();
    format!(
        "<div><table><caption>Series</caption><thead><tr><th scope=\"col\">identity</th>\
         <th scope=\"col\">row</th><th scope=\"col\">events, changes, alarms</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}
