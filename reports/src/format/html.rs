//! The report as one self-contained HTML file, without scripts, fonts or network.

use std::io::Write;

use gpubench_record::{Estimate, RunRecord};

use super::document::Document;
use super::figures::{MISSING_TEXT, parts};
use super::html_charts::{Scale, interval_bar, latency_chart};
use super::markup::escape;
use super::parts::{Cell, Table};
use super::{Format, RenderError, RenderOptions, glossary};

const STYLE: &str = include_str!("style.css");
const GLOSSARY_LINK: &str = "<p class=\"soft\">The <a href=\"#glossary\">glossary</a> at the end \
                             defines the words of this page.</p>";

/// The HTML format.
pub(super) struct Html;

impl Format for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn extension(&self) -> &'static str {
        "html"
    }

    fn summary(&self) -> &'static str {
        "one self-contained page with interval bars, latency curves and a glossary"
    }

    fn is_for_people(&self) -> bool {
        true
    }

    fn render(
        &self,
        record: &RunRecord,
        options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError> {
        let document = Document::of(record, options);
        let title = escape(&document.title);
        writeln!(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>"
        )?;
        writeln!(
            out,
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
        )?;
        writeln!(
            out,
            "<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>"
        )?;
        writeln!(out, "<h1>{title}</h1>")?;
        for notice in &document.notices {
            writeln!(out, "<p class=\"notice\">{}</p>", escape(notice))?;
        }
        writeln!(out, "<p class=\"soft\">{}</p>", escape(&document.cells))?;
        writeln!(out, "{GLOSSARY_LINK}")?;
        for table in &document.tables {
            write_table(out, table, &document.notes, record)?;
            if table.id == "matrix" {
                for chart in &options.latency {
                    out.write_all(latency_chart(chart).as_bytes())?;
                }
            }
        }
        writeln!(out, "<h2>Record</h2>\n<dl>")?;
        for (name, text) in &document.footer {
            writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(text))?;
        }
        writeln!(out, "</dl>\n{}</body>\n</html>", glossary::section())?;
        Ok(())
    }
}

fn write_table(
    out: &mut dyn Write,
    table: &Table,
    notes: &[String],
    record: &RunRecord,
) -> Result<(), RenderError> {
    writeln!(out, "<h2>{}</h2>", escape(&table.heading))?;
    writeln!(
        out,
        "<div class=\"scroll\"><table id=\"{}\">\n<thead><tr>",
        table.id
    )?;
    for name in &table.columns {
        writeln!(out, "<th scope=\"col\">{}</th>", escape(name))?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    let scales: Vec<Scale> = (0..table.columns.len())
        .map(|column| Scale::over(figures_in(table, column), ticks(record, table, column)))
        .collect();
    for row in &table.rows {
        writeln!(out, "<tr>")?;
        for (column, cell) in row.iter().enumerate() {
            let drawn = draw(cell, &table.columns[column], &scales[column], notes);
            writeln!(out, "{drawn}")?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody>\n</table></div>")?;
    Ok(())
}

fn figures_in(table: &Table, column: usize) -> impl Iterator<Item = &Estimate> {
    table
        .rows
        .iter()
        .filter_map(move |row| match row.get(column) {
            Some(Cell::Figure { estimate, .. }) => estimate.as_ref(),
            _ => None,
        })
}

/// The thresholds of a column, drawn as ticks.
fn ticks(record: &RunRecord, table: &Table, column: usize) -> Vec<f64> {
    let thresholds = &record.plan.thresholds;
    let name = table.columns[column].split(" (").next().unwrap_or_default();
    match name {
        "retention" => vec![thresholds.retention_l2, thresholds.retention_l3],
        "guarantee" => vec![thresholds.guarantee_l3],
        "jitter" => vec![thresholds.jitter_negligible, thresholds.jitter_low_medium],
        "effectiveness" => vec![thresholds.effectiveness_max],
        "isolation index" => vec![thresholds.index_l1],
        _ => Vec::new(),
    }
}

fn draw(cell: &Cell, column: &str, scale: &Scale, notes: &[String]) -> String {
    match cell {
        Cell::Text(lines) => format!("<td>{}</td>", joined(lines)),
        Cell::Level(lines) => {
            let known = ["L0", "L1", "L2", "L3"];
            let class = known
                .iter()
                .find(|level| lines.first().is_some_and(|l| l == *level));
            let class = class.unwrap_or(&"other");
            format!("<td class=\"level {class}\">{}</td>", joined(lines))
        }
        Cell::Figure { estimate: None, .. } => format!("<td class=\"figure\">{MISSING_TEXT}</td>"),
        Cell::Figure {
            estimate: Some(estimate),
            unit,
        } => {
            let parts = parts(estimate, unit.as_deref());
            let (figure, soft) = parts.split_at(1);
            format!(
                "<td class=\"figure\">{} <span class=\"soft\">{}</span>{}</td>",
                escape(&figure.concat()),
                escape(&soft.join(" ")),
                interval_bar(column, estimate, scale)
            )
        }
        Cell::Outcome {
            kind,
            notes: numbers,
        } => {
            let reasons: String = numbers
                .iter()
                .filter_map(|number| notes.get(number - 1))
                .map(|note| format!("<span class=\"reason\">{}</span>", escape(note)))
                .collect();
            format!("<td class=\"{0}\">{0}{reasons}</td>", kind.as_str())
        }
    }
}

fn joined(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| escape(line))
        .collect::<Vec<_>>()
        .join("<br/>")
}
