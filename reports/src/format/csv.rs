//! The matrix as comma-separated values (RFC 4180), one line per row, for a spreadsheet.

use std::io::Write;

use gpubench_record::{Estimate, MatrixRow, ProbeFigure, RunRecord};

use super::rfc4180::{Terminator, WriterBuilder};
use super::{Format, RenderError, RenderOptions};

/// The CSV format.
pub(super) struct Csv;

/// The columns before the figures. They do not depend on the record.
const TEXT_COLUMNS: [&str; 15] = [
    "device_kind",
    "device",
    "driver",
    "profile",
    "decides",
    "complete",
    "mechanism",
    "variant",
    "axis",
    "sub_axis",
    "victim",
    "aggressor",
    "outcome",
    "reason",
    "warnings",
];

/// The columns between the text and the figures.
const VERDICT_COLUMNS: [&str; 5] = ["level", "word", "claimed", "u_kind", "requests"];

/// The columns of a probe figure, which has a line of its own.
const PROBE_COLUMNS: [&str; 2] = ["figure", "figure_value"];

/// Suffixes of the columns beside each value.
const SUFFIXES: [&str; 5] = ["lo", "hi", "ends", "n", "unit"];

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn summary(&self) -> &'static str {
        "the matrix and probes, one line per row, every figure with lo, hi, their kind, n and unit"
    }

    fn render(
        &self,
        record: &RunRecord,
        _options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError> {
        let mut header: Vec<String> = TEXT_COLUMNS
            .iter()
            .chain(&VERDICT_COLUMNS)
            .map(|&name| name.to_owned())
            .collect();
        for figure in MatrixRow::FIGURES {
            header.push(figure.to_owned());
            header.extend(SUFFIXES.map(|suffix| format!("{figure}_{suffix}")));
        }
        header.extend(PROBE_COLUMNS.map(str::to_owned));
        header.extend(SUFFIXES.map(|suffix| format!("figure_{suffix}")));
        let mut lines = WriterBuilder::new()
            .terminator(Terminator::CRLF)
            .from_writer(out);
        lines.write_record(&header)?;
        for row in &record.matrix {
            lines.write_record(fields(record, row))?;
        }
        for figure in &record.probe_figures {
            lines.write_record(probe_fields(record, figure, header.len()))?;
        }
        Ok(lines.flush()?)
    }
}

/// The first fields of every line.
fn record_fields(record: &RunRecord) -> Vec<String> {
    vec![
        record.device.kind.as_str().to_owned(),
        record.device.name.clone(),
        record.device.driver.clone(),
        record.profile.name.clone(),
        record.plan.decides.to_string(),
        record.complete.to_string(),
    ]
}

fn fields(record: &RunRecord, row: &MatrixRow) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut fields = record_fields(record);
    fields.extend([
        row.mechanism.clone(),
        row.variant.clone(),
        row.axis.clone(),
        text(&row.sub_axis),
        text(&row.victim),
        text(&row.aggressor),
        row.outcome.outcome.as_str().to_owned(),
        text(&row.outcome.reason),
        row.warnings.join("; "),
        text(&row.level),
        text(&row.word),
        row.claimed.join("; "),
        text(&row.u_kind),
        row.requests.to_string(),
    ]);
    for figure in row.figures() {
        fields.extend(estimate_fields(figure));
    }
    // The columns of probe figures are empty.
    fields.extend(vec![String::new(); PROBE_COLUMNS.len() + SUFFIXES.len()]);
    fields
}

/// The line of a probe figure, with `columns` fields.
fn probe_fields(record: &RunRecord, one: &ProbeFigure, columns: usize) -> Vec<String> {
    // A variant is the name of its mechanism with options in brackets.
    let mechanism = one.variant.split('[').next().unwrap_or_default();
    let explains = one.explains.as_deref().unwrap_or_default();
    let (axis, sub_axis) = explains.split_once('/').unwrap_or((explains, ""));
    let mut fields = record_fields(record);
    for text in [mechanism, &one.variant, axis, sub_axis, "probe"] {
        fields.push(text.to_owned());
    }
    let figure = estimate_fields(Some(&one.estimate));
    fields.resize(columns - 1 - figure.len(), String::new());
    fields.push(one.title());
    fields.extend(figure);
    fields
}

/// All digits, since programs read them; empty where the figure is missing.
fn estimate_fields(estimate: Option<&Estimate>) -> [String; 6] {
    estimate.map_or_else(Default::default, |e| {
        [
            e.value.to_string(),
            e.lo.to_string(),
            e.hi.to_string(),
            e.ends.as_str().to_owned(),
            e.n.to_string(),
            e.unit.clone(),
        ]
    })
}
