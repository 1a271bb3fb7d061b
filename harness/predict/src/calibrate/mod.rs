//! `simulate --calibrate`: parameters of the model from a record, and prediction beside
//! measurement.
//!
//! figures (medians of cells over blocks) -> parameters (from closed loops only) -> compare (open
//! loops predicted from them). The compared figures are not used for the calibration.

mod compare;
mod link;
pub mod output;

use gpubench_record::cell::CellResult;
use gpubench_record::condition::Condition;
use gpubench_record::figures::CellFigures;
use gpubench_record::run::RunRecord;
use serde::Serialize;

use super::simulate::scenario::MILLISECONDS;
use crate::error::PredictError;
use crate::simulate::scenario::{MAX_TENANTS, Scenario};

pub use compare::{Comparison, Miss};

/// Default time slice of the driver: 128 << 3 microseconds (kernel_fifo_gv100.c of
/// open-gpu-kernel-modules 595). An assumption if the time slice of the device was not measured.
pub const DEFAULT_SLICE_MS: f64 = 1.024;

#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// Victim that gives the figures; the first victim of the record by default.
    pub victim: Option<String>,
    pub slice_ms: f64,
    /// Seed of the simulated open loop.
    pub seed: u64,
}

impl Default for Choices {
    fn default() -> Self {
        Self { victim: None, slice_ms: DEFAULT_SLICE_MS, seed: 7 }
    }
}

/// The calibration from a record, and the error of its predictions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibrated {
    /// Device of the record, real or virtual.
    pub device: String,
    pub victim: String,
    pub parameters: Parameters,
    /// Prediction beside measurement, one row per mechanism and aggressor.
    pub comparisons: Vec<Comparison>,
}

/// Calibrates the model with a record and compares predictions with measurements.
pub fn calibrate(record: &RunRecord, choices: &Choices) -> Result<Calibrated, PredictError> {
    MILLISECONDS.check("slice_ms", choices.slice_ms)?;
    let tenants = record.plan.tenants;
    if tenants > MAX_TENANTS {
        let accepted = format!("at most {MAX_TENANTS}");
        return Err(PredictError::value("plan.tenants of the record", tenants, &accepted));
    }
    let victim = victim(record, choices)?;
    let rows = shared(record, &victim);
    let native = native(record, &victim).ok_or_else(|| PredictError::Missing {
        what: format!("the native service time of {victim}"),
        remedy: "the record needs a measured native cell or a calibration entry of it".to_owned(),
    })?;
    let comparisons: Vec<Comparison> =
        rows.iter().map(|row| compare::compare(record, &victim, native, row, choices)).collect();
    Ok(Calibrated {
        device: format!("{} ({:?})", record.device.name, record.device.kind).to_lowercase(),
        parameters: parameters(record, &victim, native.service_ms, &comparisons),
        victim,
        comparisons,
    })
}

fn victim(record: &RunRecord, choices: &Choices) -> Result<String, PredictError> {
    let victims = victims(record);
    match &choices.victim {
        Some(name) if victims.contains(name) => Ok(name.clone()),
        Some(name) => Err(PredictError::Unknown {
            what: "victim",
            name: name.clone(),
            known: victims.join(", "),
        }),
        None => victims.into_iter().next().ok_or_else(|| PredictError::Missing {
            what: "a measured contended cell".to_owned(),
            remedy: "use a record of `matrix` with a measured contended cell".to_owned(),
        }),
    }
}

impl Calibrated {
    /// The scenario with the parameters that the record measured.
    pub fn applied(&self, scenario: &Scenario) -> Scenario {
        let mut changed = scenario.clone();
        let set = |basis: &Option<Basis>, into: &mut f64| {
            if let Some(basis) = basis {
                *into = basis.value;
            }
        };
        changed.service_ms = self.parameters.service_ms.value;
        set(&self.parameters.contention, &mut changed.contention);
        set(&self.parameters.switch_ms, &mut changed.switch_ms);
        if let Some(speed) = &self.parameters.slice_speed {
            // A speed above 1 is noise of an instance as fast as the whole device.
            changed.slice_speed = Some(speed.value.min(1.0));
        }
        changed
    }
}

// Figures of the cells of a record: one value per block, by mechanism and aggressor.

type Figure = fn(&CellFigures) -> Option<f64>;

const CLOSED_SERVICE_P50_NS: Figure = |of| of.closed_service_p50_ns;
const GPU_P50_NS: Figure = |of| of.gpu_p50_ns;

/// One victim beside one aggressor under one mechanism; each list has a value per block.
#[derive(Debug, Clone, PartialEq)]
struct Shared {
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
struct Native {
    /// From issue to end.
    pub service_ms: f64,
    /// Busy time of the GPU; the rest is host time. Equal to `service_ms` if unknown.
    pub gpu_ms: f64,
}

/// Victims with a cell beside a full aggressor, in the order of the record.
fn victims(record: &RunRecord) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for cell in record.cells.iter().filter(|cell| is_shared(cell)) {
        if !names.contains(&cell.cell.victim) {
            names.push(cell.cell.victim.clone());
        }
    }
    names
}

/// A victim alone on the GPU: from native cells, else from the calibration.
fn native(record: &RunRecord, victim: &str) -> Option<Native> {
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
fn aggressor_native_per_s(record: &RunRecord, aggressor: &str) -> Option<f64> {
    record.calibration.entries.get(aggressor).map(|entry| entry.native_rate_per_s)
}

/// The victim beside full aggressors, by mechanism and aggressor.
fn shared(record: &RunRecord, victim: &str) -> Vec<Shared> {
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
fn median(values: &[f64]) -> Option<f64> {
    super::parallel::percentiles(&mut values.to_vec(), [50.0]).map(|[median]| median)
}

// Parameters of the model from a record, each with its source.

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Basis {
    pub value: f64,
    pub from: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameters {
    /// Service time on the whole device.
    pub service_ms: Basis,
    /// MPS: factor by which one busy neighbour lengthens a request.
    pub contention: Option<Basis>,
    /// Time-slicing: cost of a context switch between tenants.
    pub switch_ms: Option<Basis>,
    /// Speed of a MIG instance relative to the whole device.
    pub slice_speed: Option<Basis>,
}

/// The parameters from a victim with a known native service time.
fn parameters(
    record: &RunRecord,
    victim: &str,
    native_ms: f64,
    comparisons: &[Comparison],
) -> Parameters {
    let of = |mechanism: &str, figure: fn(&Comparison) -> Option<f64>| {
        let rows = comparisons.iter().filter(|row| row.mechanism == mechanism);
        let values: Vec<f64> = rows.filter_map(figure).collect();
        let value = median(&values)?;
        let aggressors = values.len();
        Some(Basis { value, from: format!("{mechanism}, median over {aggressors} aggressors") })
    };
    let is_alone = |cell: &&CellResult| {
        cell.outcome.is_measured()
            && matches!(cell.cell.condition, Condition::S | Condition::SAgain)
            && cell.cell.victim == victim
            && cell.cell.mechanism == "mig"
    };
    let slice = record.cells.iter().find(is_alone).and_then(|first| {
        let variant = &first.cell.variant;
        let cells = record.cells.iter().filter(is_alone);
        let cells = cells.filter(|cell| cell.cell.variant == *variant);
        let alone_ms = median(&ms_of(cells, CLOSED_SERVICE_P50_NS))?;
        let from = format!("{variant}: {native_ms:.3} ms natively, {alone_ms:.3} ms there");
        Some(Basis { value: native_ms / alone_ms, from })
    });
    Parameters {
        service_ms: Basis { value: native_ms, from: "native cells".to_owned() },
        contention: of("mps", |row| row.contention),
        switch_ms: of("time-slicing", |row| row.switch_ms),
        slice_speed: slice,
    }
}
