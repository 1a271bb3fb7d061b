//! The latency charts of a record, for the formats that show them.

use std::collections::BTreeMap;

use gpubench_record::{CellResult, Condition, RunRecord};
use gpubench_reports::{Latencies, LatencyChart, LatencyCurve, Record};

use crate::gate::OPEN_REQUESTS;

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
    if !by_victim.is_empty() && !record.has_latencies() {
        warnings.push("the record holds no latencies: latencies.hlog is absent".to_owned());
        return charts;
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
    let mut requests = 0;
    let mut sum = Latencies::new().ok()?;
    for cell in cells {
        let Some(victim) = cell.tenant_results.first() else {
            continue;
        };
        let latencies = record.latencies(&cell.cell.id, &victim.planned.tenant);
        let added = latencies
            .map_err(|error| error.to_string())
            .and_then(|latencies| sum.add(&latencies).map_err(|error| error.to_string()));
        if let Err(error) = added {
            // A curve without some of its cells could be mistaken for a complete one.
            warnings.push(format!("no latency curve \"{label}\": {error}"));
            return None;
        }
        requests += cell.requests.get(OPEN_REQUESTS).copied().unwrap_or(0);
    }
    LatencyCurve::new(label, requests, &sum)
}
