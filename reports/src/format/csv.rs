//! The matrix as comma-separated values (RFC 4180), one line for each row, for a spreadsheet.

use std::io::Write;

use gpubench_record::{DeviceKind, Estimate, MatrixRow, ProbeFigure, RunRecord};

use super::{Format, RenderError, RenderOptions};

/// The CSV format.
pub(super) struct Csv;

/// The columns before the figures. They never depend on the record.
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

/// A figure of a probe has a line of its own: its name, and the figure.
const PROBE_COLUMNS: [&str; 2] = ["figure", "figure_value"];

/// What stands beside each value.
const PARTS: [&str; 4] = ["lo", "hi", "n", "unit"];

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn summary(&self) -> &'static str {
        "the matrix and probes, one line a row, every figure with lo, hi, n and unit"
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
        // Each with its value, lo, hi, n and unit.
        for figure in MatrixRow::FIGURES {
            header.push(figure.to_owned());
            header.extend(PARTS.map(|part| format!("{figure}_{part}")));
        }
        header.extend(PROBE_COLUMNS.map(str::to_owned));
        header.extend(PARTS.map(|part| format!("figure_{part}")));
        write_line(out, &header)?;
        for row in &record.matrix {
            write_line(out, &fields(record, row))?;
        }
        for figure in &record.probe_figures {
            write_line(out, &probe_fields(record, figure, header.len()))?;
        }
        Ok(())
    }
}

/// What every line of a record begins with.
fn of_record(record: &RunRecord) -> Vec<String> {
    let kind = match record.device.kind {
        DeviceKind::Real => "real",
        DeviceKind::Virtual => "virtual",
    };
    vec![
        kind.to_owned(),
        record.device.name.clone(),
        record.device.driver.clone(),
        record.profile.name.clone(),
        record.plan.decides.to_string(),
        record.complete.to_string(),
    ]
}

fn fields(record: &RunRecord, row: &MatrixRow) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut fields = of_record(record);
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
        fields.extend(flattened(figure));
    }
    // This line is of no probe's figure.
    fields.extend(vec![String::new(); PROBE_COLUMNS.len() + PARTS.len()]);
    fields
}

/// A line of so many columns for the figure of a probe.
fn probe_fields(record: &RunRecord, one: &ProbeFigure, columns: usize) -> Vec<String> {
    // A variant is its mechanism's name with what is set.
    let mechanism = one.variant.split('[').next().unwrap_or_default();
    let explains = one.explains.as_deref().unwrap_or_default();
    let (axis, sub_axis) = explains.split_once('/').unwrap_or((explains, ""));
    let mut fields = of_record(record);
    for text in [mechanism, &one.variant, axis, sub_axis, "probe"] {
        fields.push(text.to_owned());
    }
    let figure = flattened(Some(&one.estimate));
    fields.resize(columns - 1 - figure.len(), String::new());
    fields.push(one.title());
    fields.extend(figure);
    fields
}

/// All digits, since a program reads them; empty where the figure is missing.
fn flattened(estimate: Option<&Estimate>) -> [String; 5] {
    estimate.map_or_else(Default::default, |e| {
        [
            e.value.to_string(),
            e.lo.to_string(),
            e.hi.to_string(),
            e.n.to_string(),
            e.unit.clone(),
        ]
    })
}

fn write_line(out: &mut dyn Write, fields: &[String]) -> std::io::Result<()> {
    let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
    write!(out, "{}\r\n", quoted.join(","))
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn only_what_would_split_a_line_is_quoted() {
        assert_eq!(quote("mps-quota[pct=50]"), "mps-quota[pct=50]");
        assert_eq!(quote("a, \"b\"\nc"), "\"a, \"\"b\"\"\nc\"");
    }
}
