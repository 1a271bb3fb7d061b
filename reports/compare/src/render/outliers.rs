//! Devices that differ from their peers, as text, Markdown or JSON.

use super::markdown::escape;
use super::table::wrap;
use super::{RenderError, VIRTUAL_TITLE, json};
use crate::outliers::{Group, Outlier, PEERS_MIN, Report};

/// Form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutliersFormat {
    /// For a terminal of 80 columns.
    Text,
    /// A table for a job summary.
    Markdown,
    /// Everything, for programs.
    Json,
}

impl OutliersFormat {
    /// Every format by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("text", Self::Text), ("md", Self::Markdown), ("json", Self::Json)];
}

/// The report in one of the formats.
///
/// # Errors
/// When JSON cannot represent it.
pub fn outliers(report: &Report, format: OutliersFormat) -> Result<String, RenderError> {
    match format {
        OutliersFormat::Text => Ok(text(report)),
        OutliersFormat::Markdown => Ok(markdown(report)),
        OutliersFormat::Json => json(report),
    }
}

/// The schema of its JSON.
#[must_use]
pub fn outliers_schema() -> schemars::Schema {
    schemars::schema_for!(Report)
}

fn text(report: &Report) -> String {
    let mut text = wrap(&title(report), 2) + "\n";
    for notice in notices(report) {
        text += &(wrap(&notice, 2) + "\n");
    }
    for group in &report.groups {
        text += &format!("\n{}\n", wrap(&head(group), 2));
        for one in &group.outliers {
            let line = columns(one).map(|(_, cell)| cell).join(", ");
            text += &(wrap(&format!("  {line}"), 4) + "\n");
        }
        text += &(wrap(&format!("  {}", power(group)), 4) + "\n");
    }
    text += &format!("\n{}\n", wrap(&last(report), 2));
    text
}

fn markdown(report: &Report) -> String {
    let mut text = format!("## {}\n", escape(&title(report)));
    for notice in notices(report) {
        text += &format!("\n- {}", escape(&notice));
    }
    text += "\n";
    for group in &report.groups {
        text += &format!("\n{}\n\n", escape(&head(group)));
        for (at, one) in group.outliers.iter().enumerate() {
            let (names, cells): (Vec<_>, Vec<_>) =
                columns(one).into_iter().map(|(name, cell)| (name, escape(&cell))).unzip();
            if at == 0 {
                let rule = "---|".repeat(names.len());
                text += &format!("| {} |\n|{rule}\n", names.join(" | "));
            }
            text += &format!("| {} |\n", cells.join(" | "));
        }
        text += &format!("\n{}\n", escape(&power(group)));
    }
    text += &format!("\n{}\n", escape(&last(report)));
    text
}

fn found(report: &Report) -> usize {
    report.groups.iter().map(|group| group.outliers.len()).sum()
}

fn title(report: &Report) -> String {
    let devices: u32 = report.groups.iter().map(|group| group.devices).sum();
    format!(
        "{devices} devices by {}, {} groups: {} rows differ from their peers",
        report.by,
        report.groups.len(),
        found(report)
    )
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
        "{}, driver {}, profile {}, calibration {}: {} devices, {} sessions",
        of("product"),
        of("driver"),
        short("profile"),
        short("calibration"),
        group.devices,
        group.sessions
    )
}

fn columns(one: &Outlier) -> [(&'static str, String); 5] {
    let key = &one.key;
    let beside = key.aggressor.as_ref();
    let beside = beside.map_or_else(String::new, |name| format!(" beside {name}"));
    let word = if one.worse { "worse" } else { "better" };
    let figure = |value: f64| match one.unit.as_str() {
        "ratio" => format!("{value:.3}"),
        unit => format!("{value:.4e} {unit}"),
    };
    [
        ("device", one.device.clone()),
        (
            "row",
            format!("{} {} {}, {}{beside}", key.variant, key.axis, key.metric.as_str(), key.victim),
        ),
        ("deviation", format!("{:+.1} % ({word})", 100.0 * one.deviation)),
        ("figure", format!("{} against a median of {}", figure(one.value), figure(one.median))),
        ("z", format!("z {:+.1}, limit {:.1}", one.z, one.limit)),
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
        "{} rows; spread between devices {}; deviations found with 80 % power: {} by row",
        group.rows.len(),
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
