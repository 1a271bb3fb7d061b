//! The matrix as comma-separated values (RFC 4180), one line per row, for a spreadsheet.

use std::io::Write;

use gpubench_record::{
    ClaimRow, DoseCurve, Ends, Estimate, MatrixRow, OperatorRow, RunRecord, TenantTime,
};

use gpubench_show::inert;
use gpubench_store::dataset::record_id;

use super::rfc4180::{Terminator, WriterBuilder};
use super::{Format, RenderOptions, Rendered, curves};

/// The columns before the figures. They do not depend on the record.
const TEXT_COLUMNS: [&str; 21] = [
    "record",
    "uuid",
    "host",
    "started_at",
    "seed",
    "labels",
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

const PROBE_COLUMNS: [&str; 2] = ["figure", "figure_value"];

/// Suffixes of the columns beside each value.
const SUFFIXES: [&str; 5] = ["lo", "hi", "ends", "n", "unit"];

pub(super) static FORMAT: Format = Format {
    name: "csv",
    extension: "csv",
    summary: "matrix, doses, probes, operator's view and claims: a line each, with intervals",
    is_for_people: false,
    draws_charts: false,
    render,
};

fn render(record: &RunRecord, _options: &RenderOptions, out: &mut dyn Write) -> Rendered {
    let mut header: Vec<String> =
        TEXT_COLUMNS.iter().chain(&VERDICT_COLUMNS).map(|&name| name.to_owned()).collect();
    for figure in MatrixRow::FIGURES {
        header.push(figure.to_owned());
        header.extend(SUFFIXES.map(|suffix| format!("{figure}_{suffix}")));
    }
    header.extend(PROBE_COLUMNS.map(str::to_owned));
    header.extend(SUFFIXES.map(|suffix| format!("figure_{suffix}")));
    let mut lines = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out);
    lines.write_record(&header)?;
    for row in &record.matrix {
        lines.write_record(fields(record, row).into_iter().map(inert))?;
    }
    for line in further_lines(record, header.len()) {
        lines.write_record(line.into_iter().map(inert))?;
    }
    Ok(lines.flush()?)
}

/// The first fields of every line.
fn record_fields(record: &RunRecord) -> Vec<String> {
    let host = record.provenance.host.get("hostname").cloned().unwrap_or_default();
    let labels = record.provenance.labels.iter();
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    let [uuid, started_at] = [&record.device.uuid, &record.provenance.started_at];
    vec![
        record_id([uuid, started_at, &record.profile.hash, &record.calibration.hash]),
        uuid.clone(),
        host,
        started_at.clone(),
        record.plan.seed.to_string(),
        labels.join(";"),
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
        [
            row.warnings.as_slice(),
            record.problems.as_slice(),
            record.plan.thresholds.notice().as_slice(),
        ]
        .concat()
        .join("; "),
        text(&row.level),
        text(&row.word),
        row.claimed.join("; "),
        text(&row.u_kind),
        row.requests.to_string(),
    ]);
    for figure in row.figures() {
        fields.extend(estimate_fields(figure));
    }
    // The columns of named figures are empty.
    fields.extend(vec![String::new(); PROBE_COLUMNS.len() + SUFFIXES.len()]);
    fields
}

/// The lines of figures that are in no row of the matrix, with `columns` fields each.
fn further_lines(record: &RunRecord, columns: usize) -> Vec<Vec<String>> {
    let doses = record.dose_curves.iter().flat_map(|curve| {
        let figures = curves::figures(curve).into_iter();
        let lines = figures.map(|(name, figure)| dose_line(record, curve, columns, &name, figure));
        lines.collect::<Vec<_>>()
    });
    let probes = record.probe_figures.iter().map(|one| {
        let explains = one.explains.as_deref().unwrap_or_default();
        let (axis, sub_axis) = explains.split_once('/').unwrap_or((explains, ""));
        let keys = [mechanism_of(&one.variant), &one.variant, axis, sub_axis, "probe"];
        line(record, keys, columns, &one.title(), Some(&one.estimate))
    });
    let operator = record.operator.iter().flat_map(|row| {
        let axis = (row.sub_axis.axis().as_str(), row.sub_axis.as_str());
        let keys = [&row.mechanism, &row.variant, axis.0, axis.1, "operator"];
        let of = format!("{} beside {}, {} tenants", row.victim, row.aggressor, row.tenants);
        let figures = OperatorRow::FIGURES.iter().zip(row.figures());
        let figures = figures.map(|(name, estimate)| (format!("{name}: {of}"), estimate.clone()));
        let times = row.gpu_time.iter().map(|one| gpu_time(one, &of, row.stp.n));
        let all: Vec<(String, Estimate)> = figures.chain(times).collect();
        let lines = all.into_iter();
        let lines = lines.map(|(name, figure)| line(record, keys, columns, &name, Some(&figure)));
        lines.collect::<Vec<_>>()
    });
    let claims = record.claims.iter().flat_map(|row| claim_lines(record, row, columns));
    doses.chain(probes).chain(operator).chain(claims).collect()
}

/// A figure of a dose curve.
fn dose_line(
    record: &RunRecord,
    curve: &DoseCurve,
    columns: usize,
    name: &str,
    figure: &Estimate,
) -> Vec<String> {
    let axis = (curve.sub_axis.axis().as_str(), curve.sub_axis.as_str());
    let keys = [&curve.mechanism, &curve.variant, axis.0, axis.1, &curve.victim];
    let mut fields = line(record, keys, columns, name, Some(figure));
    let outcome = &curve.outcome;
    put(&mut fields, "aggressor", &curve.aggressor);
    put(&mut fields, "outcome", outcome.outcome.as_str());
    put(&mut fields, "reason", outcome.reason.as_deref().unwrap_or_default());
    fields
}

fn put(fields: &mut [String], name: &str, text: &str) {
    let mut columns = TEXT_COLUMNS.iter().chain(&VERDICT_COLUMNS);
    if let Some(at) = columns.position(|known| *known == name) {
        text.clone_into(&mut fields[at]);
    }
}

/// The GPU time of a tenant, which is a sum over the blocks and has no interval.
fn gpu_time(time: &TenantTime, of: &str, blocks: u32) -> (String, Estimate) {
    let seconds = time.gpu_time_ns as f64 / 1e9;
    let estimate = Estimate {
        value: seconds,
        lo: seconds,
        hi: seconds,
        ends: Ends::Range,
        parts: None,
        n: blocks,
        unit: "s".to_owned(),
    };
    (format!("gpu_time of {}: {of}", time.tenant), estimate)
}

/// A claim: a line for each figure, or one without a figure.
fn claim_lines(record: &RunRecord, row: &ClaimRow, columns: usize) -> Vec<Vec<String>> {
    let axis = row.axis.map_or("", |axis| axis.as_str());
    let mechanisms = row.mechanisms.join(" ");
    let of = |variant: &str, title: &str, figure: Option<&Estimate>| {
        let keys = [mechanisms.as_str(), variant, axis, "", "claim"];
        let mut fields = line(record, keys, columns, title, figure);
        put(&mut fields, "reason", if figure.is_none() { &row.evidence } else { "" });
        put(&mut fields, "word", row.verdict.as_str());
        put(&mut fields, "claimed", &format!("{}: {}", row.source, row.statement));
        fields
    };
    let figures = row.figures.iter().filter(|one| one.estimate.is_some());
    let lines: Vec<Vec<String>> = figures
        .map(|one| {
            let variant = one.of.split(' ').next().unwrap_or_default();
            let title = format!("{}: {} ({})", row.id, one.of, one.verdict.as_str());
            of(variant, &title, one.estimate.as_ref())
        })
        .collect();
    match lines.is_empty() {
        true => vec![of("", &row.id, None)],
        false => lines,
    }
}

fn mechanism_of(variant: &str) -> &str {
    variant.split('[').next().unwrap_or_default()
}

/// One line with a figure: mechanism, variant, axis, sub-axis and kind, then its name and value.
fn line(
    record: &RunRecord,
    keys: [&str; 5],
    columns: usize,
    name: &str,
    figure: Option<&Estimate>,
) -> Vec<String> {
    let mut fields = record_fields(record);
    fields.extend(keys.map(str::to_owned));
    let figure = estimate_fields(figure);
    fields.resize(columns - 1 - figure.len(), String::new());
    fields.push(name.to_owned());
    fields.extend(figure);
    fields
}

/// All digits, since programs read them; empty where the figure is missing.
fn estimate_fields(estimate: Option<&Estimate>) -> [String; 6] {
    estimate.map_or_else(Default::default, |e| {
        let value = if e.ends == Ends::AtMost { String::new() } else { e.value.to_string() };
        [
            value,
            e.lo.to_string(),
            e.hi.to_string(),
            e.ends.as_str().to_owned(),
            e.n.to_string(),
            e.unit.clone(),
        ]
    })
}
