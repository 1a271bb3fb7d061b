//! Parameters of the model from a record, each with its source.

use super::compare::Comparison;
use super::figures::{Solo, median};
use serde::Serialize;

/// A parameter with its source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Basis {
    /// The value.
    pub value: f64,
    /// Figures that it was computed from.
    pub from: String,
}

/// Parameters of the reference model.
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
pub(super) fn parameters(native_ms: f64, solo: &[Solo], comparisons: &[Comparison]) -> Parameters {
    let of = |mechanism: &str, figure: fn(&Comparison) -> Option<f64>| {
        let rows = comparisons.iter().filter(|row| row.mechanism == mechanism);
        let values: Vec<f64> = rows.filter_map(figure).collect();
        let value = median(&values)?;
        let aggressors = values.len();
        Some(Basis { value, from: format!("{mechanism}, median over {aggressors} aggressors") })
    };
    let slice = solo.iter().find(|row| row.mechanism == "mig").and_then(|row| {
        let alone_ms = median(&row.closed_ms)?;
        let from = format!("{}: {native_ms:.3} ms natively, {alone_ms:.3} ms there", row.variant);
        Some(Basis { value: native_ms / alone_ms, from })
    });
    Parameters {
        service_ms: Basis { value: native_ms, from: "native cells".to_owned() },
        contention: of("mps", |row| row.contention),
        switch_ms: of("time-slicing", |row| row.switch_ms),
        slice_speed: slice,
    }
}
