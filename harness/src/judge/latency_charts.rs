//! The latency curves of a record, for the formats that draw them.

use std::collections::BTreeMap;

use gpubench_record::{CellResult, Condition, RunRecord, SampleRow};
use gpubench_reports::{LatencyChart, LatencyCurve, Record};

/// For each victim, the latencies in N and in C at full dose.
#[must_use]
pub fn latency_charts(
    record: &Record,
    run: &RunRecord,
    warnings: &mut Vec<String>,
) -> Vec<LatencyChart> {
    let mut charts = Vec::new();
    let mut by_victim: BTreeMap<&str, BTreeMap<String, Vec<&CellResult>>> = BTreeMap::new();
    for cell in run.cells.iter().filter(|cell| is_drawn(cell)) {
        let curves = by_victim.entry(&cell.cell.victim).or_default();
        curves.entry(label(cell)).or_default().push(cell);
    }
    for (victim, curves) in by_victim {
        let curves = curves
            .into_iter()
            .filter_map(|(label, cells)| curve(record, label, &cells, warnings))
            .collect();
        charts.push(LatencyChart {
            victim: victim.to_owned(),
            curves,
        });
    }
    charts
}

fn is_drawn(cell: &CellResult) -> bool {
    let contended = cell.cell.condition == Condition::C && cell.cell.dose >= 1.0;
    cell.outcome.is_measured() && (cell.cell.condition == Condition::N || contended)
}

fn label(cell: &CellResult) -> String {
    match &cell.cell.aggressor {
        Some(aggressor) => format!("{} beside {aggressor}", cell.cell.variant),
        None => "alone on the GPU".to_owned(),
    }
}

fn curve(
    record: &Record,
    label: String,
    cells: &[&CellResult],
    warnings: &mut Vec<String>,
) -> Option<LatencyCurve> {
    let mut rows: Vec<SampleRow> = Vec::new();
    for cell in cells {
        let Some(victim) = cell.tenant_results.first() else {
            continue;
        };
        match record.samples(&cell.cell.id, &victim.planned.tenant) {
            Ok(of_cell) => rows.extend(of_cell),
            Err(error) => {
                // A curve without some of its cells could be mistaken for a complete one.
                warnings.push(format!("no latency curve \"{label}\": {error}"));
                return None;
            }
        }
    }
    LatencyCurve::from_rows(label, &rows)
}
