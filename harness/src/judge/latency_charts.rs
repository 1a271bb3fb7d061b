//! The latency charts of a record, for the formats that show them.

use std::collections::BTreeMap;

use gpubench_record::{CellFigures, CellResult, Condition, RunRecord};
use gpubench_reports::latency::PERCENTILES;
use gpubench_reports::{CurveOf, LatencyChart, LatencyCurve, Record};

use crate::gate::OPEN_REQUESTS;

/// The figures of a cell for each of [`PERCENTILES`].
const FIGURES: [fn(&CellFigures) -> Option<f64>; PERCENTILES.len()] = [
    |of| of.open_latency_p50_ns,
    |of| of.open_latency_p90_ns,
    |of| of.open_latency_p99_ns,
    |of| of.open_latency_p999_ns,
];

/// For each victim with an open loop, the latencies in N, and in S and in C at full dose. From the
/// histograms of the record; without them, from the percentiles of each cell.
#[must_use]
pub fn latency_charts(
    record: &Record,
    run: &RunRecord,
    warnings: &mut Vec<String>,
) -> Vec<LatencyChart> {
    let mut by_victim: BTreeMap<&str, BTreeMap<CurveOf, Vec<&CellResult>>> = BTreeMap::new();
    for cell in run.cells.iter().filter(|cell| is_drawn(run, cell)) {
        let curves = by_victim.entry(&cell.cell.victim).or_default();
        curves.entry(CurveOf::cell(&cell.cell)).or_default().push(cell);
    }
    let has_latencies = record.has_latencies();
    let mut charts = Vec::new();
    for (victim, curves) in by_victim {
        let curves: Vec<LatencyCurve> = curves
            .into_iter()
            .filter_map(|(of, cells)| {
                if has_latencies {
                    curve(record, of, &cells, warnings)
                } else {
                    curve_of_figures(of, &cells)
                }
            })
            .collect();
        if !curves.is_empty() {
            charts.push(LatencyChart { victim: victim.to_owned(), curves });
        }
    }
    charts
}

/// Whether reports show the open loop of a cell. One without open-loop requests has none to show.
fn is_drawn(run: &RunRecord, cell: &CellResult) -> bool {
    let plan = &run.plan;
    let drawn = match cell.cell.condition {
        Condition::N | Condition::S => true,
        // Beside all neighbours; a sweep also has cells with fewer.
        Condition::C => {
            let all = plan.sweep.is_empty() || cell.cell.tenants.len() >= plan.tenants as usize;
            cell.cell.dose >= 1.0 && all
        }
        _ => false,
    };
    drawn && cell.outcome.is_measured() && requests(cell) > 0
}

fn requests(cell: &CellResult) -> u64 {
    cell.requests.get(OPEN_REQUESTS).copied().unwrap_or(0)
}

fn curve(
    record: &Record,
    of: CurveOf,
    cells: &[&CellResult],
    warnings: &mut Vec<String>,
) -> Option<LatencyCurve> {
    let mut blocks = Vec::new();
    for cell in cells {
        let Some(victim) = cell.tenant_results.first() else {
            continue;
        };
        match record.latencies(&cell.cell.id, &victim.planned.tenant) {
            Ok(latencies) => blocks.push((requests(cell), latencies)),
            Err(error) => {
                // A curve without some of its cells could be mistaken for a complete one.
                warnings.push(format!("no latency curve \"{}\": {error}", of.label()));
                return None;
            }
        }
    }
    LatencyCurve::new(of, &blocks)
}

fn curve_of_figures(of: CurveOf, cells: &[&CellResult]) -> Option<LatencyCurve> {
    let figures = FIGURES.map(|figure| -> Vec<f64> {
        cells.iter().filter_map(|cell| figure(&cell.figures)).collect()
    });
    let sum = cells.iter().map(|cell| requests(cell)).sum();
    LatencyCurve::of_figures(of, sum, figures.each_ref().map(Vec::as_slice))
}
