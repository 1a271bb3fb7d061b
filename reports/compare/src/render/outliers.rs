//! Devices that differ from their peers, as text, Markdown or JSON.

use std::collections::BTreeSet;

use gpubench_record::counted;
use gpubench_show::{Block, Cell, Look, Page, Paint, Table};

use super::{Format, RenderError, VIRTUAL_TITLE, written};
use crate::outliers::{Group, Outlier, PEERS_MIN, Report};

/// The report in one of the formats.
/// Fails when JSON cannot represent it.
pub fn outliers(report: &Report, format: Format, look: Look) -> Result<String, RenderError> {
    let found = report.groups.iter().flat_map(|group| &group.outliers);
    written(|_| page(report), found.map(|one| &*one.key.variant), report, format, look)
}

fn page(report: &Report) -> Page {
    let mut page = Page::new(title(report));
    notices(report).into_iter().for_each(|notice| page.notice(notice));
    for group in &report.groups {
        page.push(Block::Gap);
        page.say(head(group));
        if !group.outliers.is_empty() {
            let rows = group.outliers.iter().map(cells);
            page.push(Table::new("", "", COLUMNS, rows).numbers(&["deviation", "z", "limit"]));
        }
        page.say(power(group));
    }
    page.push(Block::Gap);
    page.say(last(report));
    page
}

/// Most devices that the title names.
const NAMED_MAX: usize = 5;

fn title(report: &Report) -> String {
    let devices: u32 = report.groups.iter().map(|group| group.devices).sum();
    let named: BTreeSet<&str> = report
        .groups
        .iter()
        .flat_map(|group| group.outliers.iter().map(|one| one.device.as_str()))
        .collect();
    let (count, devices) = (named.len(), counted(devices as usize, "device"));
    let named: Vec<&str> = named.into_iter().take(NAMED_MAX).collect();
    let differ = match count {
        0 if report.groups.iter().all(|group| group.rows.is_empty()) => {
            "nothing is compared".to_owned()
        }
        0 => "none differs".to_owned(),
        1 => format!("1 differs: {}", named[0]),
        n => format!("{n} differ: {}", named.join(", ")),
    };
    format!("{devices} by {}, {}; {differ}", report.by, counted(report.groups.len(), "group"))
}

fn notices(report: &Report) -> Vec<String> {
    let mut notices = Vec::new();
    if report.has_virtual {
        notices.push(VIRTUAL_TITLE.to_owned());
    }
    if let Some(differ) = differing(report) {
        notices.push(format!("devices are not compared across groups, which differ in: {differ}"));
    }
    notices.extend(report.lost.iter().map(|line| format!("lost: {line}")));
    notices
}

/// The facts in which groups differ.
fn differing(report: &Report) -> Option<String> {
    let first = &report.groups.first()?.facts;
    let names: Vec<&str> = crate::outliers::PEERS
        .into_iter()
        .filter(|name| report.groups.iter().any(|one| one.facts.get(*name) != first.get(*name)))
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The facts without hashes in full.
fn head(group: &Group) -> String {
    let of = |name: &str| group.facts.get(name).map_or("-", String::as_str);
    let short = |name: &str| of(name).chars().take(12).collect::<String>();
    format!(
        "{}, driver {}, profile {}, calibration {}: {}, {}",
        of("product"),
        of("driver"),
        short("profile"),
        short("calibration"),
        counted(group.devices as usize, "device"),
        counted(group.sessions as usize, "session")
    )
}

const COLUMNS: [&str; 6] = ["device", "row", "deviation", "figure", "z", "limit"];

fn cells(one: &Outlier) -> Vec<Cell> {
    let key = &one.key;
    let beside = key.aggressor.as_ref();
    let beside = beside.map_or_else(String::new, |name| format!(" beside {name}"));
    let row =
        format!("{} {} {}, {}{beside}", key.variant, key.axis, key.metric.as_str(), key.victim);
    let (word, paint) = if one.worse { ("worse", Paint::Bad) } else { ("better", Paint::Good) };
    let figure = |value: f64| match one.unit.as_str() {
        "ratio" => format!("{value:.3}"),
        unit => format!("{value:.4e} {unit}"),
    };
    let deviation = [format!("{:+.1} %", 100.0 * one.deviation), word.to_owned()];
    vec![
        Cell::text(&one.device),
        Cell::text(row),
        Cell::lines(deviation).painted(paint, ""),
        Cell::text(format!("{} against a median of {}", figure(one.value), figure(one.median))),
        Cell::text(format!("{:+.1}", one.z)),
        Cell::text(format!("{:.1}", one.limit)),
    ]
}

fn power(group: &Group) -> String {
    let range = |of: fn(&crate::outliers::RowReport) -> f64| {
        let values = || group.rows.iter().map(of);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        format!("{:.2} % to {:.2} %", 100.0 * low, 100.0 * high)
    };
    if group.rows.is_empty() {
        return format!("no row that {PEERS_MIN} devices have: nothing is compared");
    }
    format!(
        "{}; spread between devices {}; deviations found with 80 % power: {} by row",
        counted(group.rows.len(), "row"),
        range(|row| row.spread),
        range(|row| row.detectable)
    )
}

fn last(report: &Report) -> String {
    format!(
        "robust z by median and median absolute deviation; {:.0} % for a false alarm in all {} \
         comparisons together; at least {:.1} % from the median.  exit {}",
        100.0 * report.alpha,
        report.comparisons,
        100.0 * report.margin,
        report.exit
    )
}
