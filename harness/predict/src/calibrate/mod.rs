//! `simulate --calibrate`: parameters of the model from a record, and prediction beside
//! measurement.
//!
//! figures (medians of cells over blocks) -> parameters (from closed loops only) -> compare (open
//! loops predicted from them). The compared figures are not used for the calibration.

mod compare;
mod figures;
mod link;
mod open_loop;
mod parameters;

pub mod output;

pub use compare::{Comparison, Miss};
pub use parameters::{Basis, Parameters};

use crate::error::PredictError;
use crate::simulate::ranges::MILLISECONDS;
use crate::simulate::scenario::MAX_TENANTS;
use crate::simulate::scenario::Scenario;
use gpubench_record::run::RunRecord;
use serde::Serialize;

/// Default time slice of the driver: 128 << 3 microseconds (kernel_fifo_gv100.c of
/// open-gpu-kernel-modules 595). An assumption if the time slice of the device was not measured.
pub const DEFAULT_SLICE_MS: f64 = 1.024;

/// Choices of the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// Victim that gives the figures; the first victim of the record by default.
    pub victim: Option<String>,
    /// Time slice of the device.
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
    /// The victim that gave the figures.
    pub victim: String,
    /// The model's parameters.
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
    let rows = figures::shared(record, &victim);
    let solo = figures::solo(record, &victim);
    let native = figures::native(record, &victim).ok_or_else(|| PredictError::Missing {
        what: format!("the native service time of {victim}"),
        remedy: "the record needs a measured native cell or a calibration entry of it".to_owned(),
    })?;
    let comparisons: Vec<Comparison> =
        rows.iter().map(|row| compare::compare(record, &victim, native, row, choices)).collect();
    Ok(Calibrated {
        device: format!("{} ({:?})", record.device.name, record.device.kind).to_lowercase(),
        parameters: parameters::parameters(native.service_ms, &solo, &comparisons),
        victim,
        comparisons,
    })
}

fn victim(record: &RunRecord, choices: &Choices) -> Result<String, PredictError> {
    let victims = figures::victims(record);
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
