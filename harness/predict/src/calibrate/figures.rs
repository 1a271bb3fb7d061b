//! Figures of the cells of a record: one value per block, by mechanism and aggressor.

use gpubench_record::cell::CellResult;
use gpubench_record::condition::Condition;
use gpubench_record::figures::CellFigures;
use gpubench_record::run::RunRecord;

/// A figure of a cell.
type Figure = fn(&CellFigures) -> Option<f64>;

const CLOSED_SERVICE_P50_NS: Figure = |of| of.closed_service_p50_ns;
const GPU_P50_NS: Figure = |of| of.gpu_p50_ns;

/// One victim beside one aggressor under one mechanism; each list has a value per block.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shared {
    pub mechanism: String,
    pub variant: String,
    pub aggressor: String,
    pub closed_ms: Vec<f64>,
    pub rate_per_s: Vec<f64>,
    pub aggressor_rate_per_s: Vec<f64>,
    pub offered_per_s: Vec<f64>,
    pub p50_ms: Vec<f64>,
    pub p99_ms: Vec<f64>,
    /// Blocks without a latency of the open loop.
    pub without_latency: u32,
}

/// Durations of a victim's request alone on the GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Native {
    /// From issue to end.
    pub service_ms: f64,
    /// Busy time of the GPU; the rest is host time. Equal to `service_ms` if unknown.
    pub gpu_ms: f64,
}

/// One victim alone under one mechanism.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Solo {
    pub mechanism: String,
    pub variant: String,
    pub closed_ms: Vec<f64>,
}

/// Victims with a cell beside a full aggressor, in the order of the record.
pub(super) fn victims(record: &RunRecord) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for cell in record.cells.iter().filter(|cell| is_shared(cell)) {
        if !names.contains(&cell.cell.victim) {
            names.push(cell.cell.victim.clone());
        }
    }
    names
}

/// A victim alone on the GPU: from native cells, else from the calibration.
pub(super) fn native(record: &RunRecord, victim: &str) -> Option<Native> {
    let measured = |figure| median(&ms_of(native_cells(record, victim), figure));
    let calibrated = || {
        let entry = record.calibration.entries.get(victim)?;
        Some(entry.service_ns as f64 / 1e6)
    };
    let service_ms = measured(CLOSED_SERVICE_P50_NS).or_else(calibrated)?;
    let gpu_ms = measured(GPU_P50_NS).unwrap_or(service_ms).min(service_ms);
    Some(Native { service_ms, gpu_ms })
}

fn native_cells<'a>(record: &'a RunRecord, victim: &str) -> impl Iterator<Item = &'a CellResult> {
    record.cells.iter().filter(move |cell| {
        cell.outcome.is_measured() && cell.cell.condition.is_native() && cell.cell.victim == victim
    })
}

/// Rate of an aggressor alone on the GPU.
pub(super) fn aggressor_native_per_s(record: &RunRecord, aggressor: &str) -> Option<f64> {
    record.calibration.entries.get(aggressor).map(|entry| entry.native_rate_per_s)
}

/// The victim beside full aggressors, by mechanism and aggressor.
pub(super) fn shared(record: &RunRecord, victim: &str) -> Vec<Shared> {
    let mut rows: Vec<Shared> = Vec::new();
    for cell in record.cells.iter().filter(|cell| is_shared(cell) && cell.cell.victim == victim) {
        let aggressor = cell.cell.aggressor.clone().unwrap_or_default();
        let known = rows
            .iter()
            .position(|row| row.variant == cell.cell.variant && row.aggressor == aggressor);
        let index = known.unwrap_or_else(|| {
            rows.push(Shared {
                mechanism: cell.cell.mechanism.clone(),
                variant: cell.cell.variant.clone(),
                aggressor,
                closed_ms: Vec::new(),
                rate_per_s: Vec::new(),
                aggressor_rate_per_s: Vec::new(),
                offered_per_s: Vec::new(),
                p50_ms: Vec::new(),
                p99_ms: Vec::new(),
                without_latency: 0,
            });
            rows.len() - 1
        });
        add(&mut rows[index], cell);
    }
    rows
}

fn add(row: &mut Shared, cell: &CellResult) {
    let of = &cell.figures;
    let ms = |ns: Option<f64>| ns.map(|ns| ns * 1e-6);
    row.closed_ms.extend(ms(of.closed_service_p50_ns));
    row.rate_per_s.extend(of.closed_rate_per_s);
    row.aggressor_rate_per_s.extend(of.aggressor_rate_per_s);
    row.offered_per_s.extend(of.offered_per_s);
    row.p50_ms.extend(ms(of.open_latency_p50_ns));
    row.p99_ms.extend(ms(of.open_latency_p99_ns));
    row.without_latency += u32::from(of.open_latency_p50_ns.is_none());
}

/// The victim alone under each mechanism.
pub(super) fn solo(record: &RunRecord, victim: &str) -> Vec<Solo> {
    let is_solo = |cell: &&CellResult| {
        cell.outcome.is_measured()
            && matches!(cell.cell.condition, Condition::S | Condition::SAgain)
            && cell.cell.victim == victim
    };
    let mut rows: Vec<Solo> = Vec::new();
    for cell in record.cells.iter().filter(is_solo) {
        let known = rows.iter().position(|row| row.variant == cell.cell.variant);
        let index = known.unwrap_or_else(|| {
            let (mechanism, variant) = (cell.cell.mechanism.clone(), cell.cell.variant.clone());
            rows.push(Solo { mechanism, variant, closed_ms: Vec::new() });
            rows.len() - 1
        });
        rows[index].closed_ms.extend(ms_of(std::iter::once(cell), CLOSED_SERVICE_P50_NS));
    }
    rows
}

fn is_shared(cell: &CellResult) -> bool {
    cell.outcome.is_measured()
        && cell.cell.condition == Condition::C
        && cell.cell.dose >= 1.0
        && cell.cell.aggressor.is_some()
}

fn ms_of<'a>(cells: impl Iterator<Item = &'a CellResult>, figure: Figure) -> Vec<f64> {
    cells.filter_map(|cell| figure(&cell.figures)).map(|ns| ns / 1e6).collect()
}

/// The median; `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    crate::percentile::percentiles(&mut values.to_vec(), [50.0]).map(|[median]| median)
}
