//! `gpubench list`: the entries of the catalogues.

use clap::ValueEnum;
use gpubench_catalogue::mechanism;
use gpubench_record::ExitCode;
use gpubench_show::{Block, Line, Look, Page, Table};
use serde_json::Value;

use super::common::{TextFormat, exit_codes_help, versioned_json};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::listing::{self as catalogues, Row};

/// The indentation of a paragraph, and the separator within its lines.
const INDENT: usize = 4;
const BETWEEN: &str = " · ";

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Lists the names that profiles and flags accept
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Catalogue to list
    what: What,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: TextFormat,
}

/// The catalogues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Sharing mechanisms
    Mechanisms,
    /// Workloads of tenants: victims (measured) and aggressors
    Workloads,
    /// Faults that a tenant can inject
    Faults,
    /// Scored dimensions of isolation, with the workloads that measure them
    Axes,
    /// Checks that do not produce a throughput
    Probes,
    /// Checks on a cell that decide whether its figures can be trusted
    Gates,
    /// Built-in profiles
    Profiles,
    /// Report formats
    Formats,
    /// Machines of the virtual GPU: --device virtual:NAME
    Machines,
    /// Claims of the literature, by id
    Claims,
}

/// Prints one catalogue.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let (mut rows, left_out) = (rows(args.what), left_out(args.what));
    match args.format {
        TextFormat::Json => {
            rows.extend(left_out);
            ui.print(&render_json(&rows)?)?;
        }
        TextFormat::Text => {
            let mut page = entries(&rows, ui.look().width);
            page.push(Block::Gap);
            below(args.what, &left_out).into_iter().for_each(|line| page.say(line));
            ui.page(&page)?;
        }
    }
    Ok(ExitCode::Done)
}

fn rows(what: What) -> Vec<Row> {
    match what {
        What::Mechanisms => catalogues::mechanisms(),
        What::Workloads => catalogues::workloads(),
        What::Faults => catalogues::faults(),
        What::Axes => catalogues::axes(),
        What::Probes => catalogues::probes(),
        What::Gates => catalogues::gates(),
        What::Profiles => catalogues::profiles(),
        What::Formats => catalogues::formats(),
        What::Machines => catalogues::machines(),
        What::Claims => catalogues::claims(),
    }
}

/// Entries that a catalogue omits on purpose. In JSON they have the key `left_out`.
fn left_out(what: What) -> Vec<Row> {
    match what {
        What::Faults => catalogues::faults_left_out(),
        What::Probes => catalogues::probes_left_out(),
        _ => Vec::new(),
    }
}

/// The lines below the entries.
fn below(what: What, left_out: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    if what == What::Faults {
        for (mechanism, reason) in catalogues::without_faults() {
            lines.push(format!("no fault under {mechanism}: {reason}"));
        }
        #[cfg(feature = "virtual-gpu")]
        lines.extend(crate::verbs::fault_answers::campaigns());
    }
    for row in left_out {
        let reason = row.details.iter().find(|(key, _)| *key == catalogues::LEFT_OUT);
        let reason = reason.and_then(|(_, reason)| reason.as_str()).unwrap_or_default();
        lines.push(format!("left out: {} ({}): {reason}", row.name, row.summary));
    }
    lines
}

fn render_json(rows: &[Row]) -> Result<String, ExpectedError> {
    versioned_json("list", &rows.iter().map(Row::as_entry).collect::<Vec<_>>())
}

/// A table if every row fits on a line, else a paragraph for each row.
fn entries(rows: &[Row], width: usize) -> Page {
    let mut page = Page::default();
    if rows.is_empty() {
        page.say("none in this version");
        return page;
    }
    let has_details = rows.iter().any(|row| !details(row).is_empty() || !answers(row).is_empty());
    let columns = if has_details { 3 } else { 2 };
    let cells = rows.iter().map(|row| {
        let details = [details(row), answers(row)].concat();
        [row.name.clone(), row.summary.clone(), details.join(", ")].into_iter().take(columns)
    });
    let heads = ["name", "what it is", "details"].into_iter().take(columns);
    let table = Table::plain(heads, cells.map(Iterator::collect::<Vec<_>>));
    let unlimited = table.text(Look { width: usize::MAX, color: false });
    if unlimited.lines().all(|line| line.chars().count() <= width) {
        page.push(table);
        return page;
    }
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            page.push(Block::Gap);
        }
        page.say(row.name.as_str());
        for line in paragraph(row, width) {
            page.push(Line::new(line).indented(INDENT, INDENT + 2));
        }
    }
    page
}

fn details(row: &Row) -> Vec<String> {
    let details = row.details.iter();
    // `NOT_UNDER` is printed once below the rows, answers have their own lines.
    let elsewhere = [catalogues::NOT_UNDER, catalogues::MEASURED, catalogues::ASSUMED];
    let details = details.filter(|(key, _)| !elsewhere.contains(key));
    details.filter_map(detail).collect()
}

/// The answers to a fault, one line each, after what they rest on.
fn answers(row: &Row) -> Vec<String> {
    let found = row.details.iter();
    let found = found.filter(|(key, _)| [catalogues::MEASURED, catalogues::ASSUMED].contains(key));
    let entries = found.filter_map(|(_, value)| value.as_array()).flatten();
    let lines = entries.filter_map(|entry| entry["evidence"].as_str().zip(entry["key"].as_str()));
    lines.map(|(on, line)| format!("{on} {line}")).collect()
}

/// The lines below the name, with as many details in each as fit.
fn paragraph(row: &Row, width: usize) -> Vec<String> {
    let columns = width.saturating_sub(INDENT);
    let mut lines = vec![row.summary.clone(), String::new()];
    for one in details(row) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = one,
            Some(line) if line.chars().count() + 3 + one.chars().count() <= columns => {
                line.push_str(BETWEEN);
                line.push_str(&one);
            }
            _ => lines.push(one),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.extend(answers(row));
    lines
}

fn detail((key, value): &(&'static str, Value)) -> Option<String> {
    let key = key.replace('_', " ");
    match value {
        Value::String(text) => Some(format!("{key} {text}")),
        Value::Bool(true) => Some(key),
        Value::Array(items) if items.len() == mechanism::names().len() && key == "mechanisms" => {
            Some("under every mechanism".to_owned())
        }
        Value::Array(items) if !items.is_empty() => {
            let keys: Vec<String> = items
                .iter()
                .filter_map(|item| match item {
                    Value::Number(number) => Some(number.to_string()),
                    item => item["key"].as_str().or(item.as_str()).map(str::to_owned),
                })
                .collect();
            Some(format!("{key} {}", keys.join(" ")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::ValueEnum;

    use gpubench_show::{Look, PIPED_WIDTH as WIDTH};

    use super::{What, entries, render_json, rows};

    #[test]
    fn every_catalogue_prints_rows_of_unique_names() -> Result<(), Box<dyn std::error::Error>> {
        for &what in What::value_variants() {
            let rows = rows(what);
            let read: serde_json::Value = serde_json::from_str(&render_json(&rows)?)?;
            let read = read["rows"].as_array().ok_or("rows")?;
            assert_eq!(read.len(), rows.len());
            let names: BTreeSet<&str> =
                read.iter().filter_map(|row| row["name"].as_str()).collect();
            assert_eq!(names.len(), rows.len(), "{what:?}: names are unique");
            assert!(read.iter().all(|row| row["summary"].as_str().is_some_and(|s| !s.is_empty())));
            let text = entries(&rows, WIDTH).text(Look { width: WIDTH, color: false });
            assert!(rows.iter().all(|row| text.contains(&row.name)), "{what:?}");
        }
        Ok(())
    }
}
