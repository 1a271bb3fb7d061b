//! Gates on the device's memory and on the clocks of the processes that stamp samples.

use std::collections::BTreeMap;

use gpubench_record::{Condition, EccSpan, Gate, GateState, Unobserved};

use super::findings::finite;
use super::{CellObservation, ClockKind, Findings};

/// Accepted difference between the native service time and the calibrated one.
const SERVICE_DRIFT_MAX: f64 = 0.10;

pub(super) fn judge(observation: &CellObservation<'_>, found: &mut Findings) {
    let unobserved = observation.host.unobserved;
    ecc(observation.host.ecc, unobserved, found);
    clocks(observation, found);
    service_drift(observation, found);
    device_drift(observation, found);
}

/// The device has one speed before the cell and after it. Cells of a block run in random order, and
/// those of its pair in the reverse order, so that a drift within the bracket cancels; what is left
/// between brackets widens intervals (`score/systematic.rs`).
fn device_drift(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::DeviceDrift;
    let Some([before, after]) = observation.host.speed_ln else {
        return found.not_evaluated(GATE, "no check kernel ran before and after the cell");
    };
    if found.figures.closed_rate_per_s.is_some() {
        found.figures.device_speed_ln = finite(f64::midpoint(before, after));
    }
    let (drift, max) = (after - before, observation.thresholds.drift_max);
    let detail = format!(
        "the speed of the device moved by {drift:+.4} (log) between the check kernels around the \
         cell, accepted is up to {max}"
    );
    found.holds(GATE, drift.abs() <= max, detail);
    found.numbers(Some(drift), Some(max), "log ratio");
}

/// Why an observation is missing.
pub(super) fn missing(unobserved: &BTreeMap<Unobserved, String>, what: Unobserved) -> String {
    match unobserved.get(&what) {
        Some(error) => format!("not observed: {error}"),
        None => "not observed".to_owned(),
    }
}

/// Errors that memory could not correct spoil what was computed; corrected ones take time.
fn ecc(span: Option<EccSpan>, unobserved: &BTreeMap<Unobserved, String>, found: &mut Findings) {
    let counts = |count: fn(&gpubench_record::EccCounts) -> Option<u64>| {
        let span = span.as_ref()?;
        Some((count(&span.before)?, count(&span.after)?))
    };
    for (gate, kind, both) in [
        (Gate::Ecc, "uncorrected", counts(|counts| counts.uncorrected_volatile)),
        (Gate::EccCorrected, "corrected", counts(|counts| counts.corrected_volatile)),
    ] {
        match both {
            None => found.not_evaluated(gate, missing(unobserved, Unobserved::Ecc)),
            Some((before, after)) if before == after => {
                found.holds(gate, true, format!("{after} {kind} errors before and after"));
            }
            // A count that falls was reset, so errors of this cell may be gone with it.
            Some((before, after)) => {
                let detail = format!("{before} {kind} errors before the cell, {after} after it");
                found.holds(gate, false, detail);
                found.numbers(Some(after as f64 - before as f64), Some(0.0), "errors");
            }
        }
    }
}

/// Time stamps of two processes are compared, so their clocks must be one clock.
fn clocks(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::TimeNamespace;
    let host = &observation.host;
    match (observation.clock, host.other_clocks) {
        (ClockKind::Virtual, _) => found.gate(GATE, GateState::NotApplicable, super::host::VIRTUAL),
        (ClockKind::Wall, None) => {
            found.not_evaluated(GATE, missing(host.unobserved, Unobserved::Clocks));
        }
        (ClockKind::Wall, Some([])) => found.holds(GATE, true, "one for all processes"),
        (ClockKind::Wall, Some(others)) => {
            let detail = format!(
                "time stamps cannot be compared: {} in another time namespace",
                others.join(", ")
            );
            found.holds(GATE, false, detail);
        }
    }
}

/// A native request takes the time that calibration found, else the victim does other work than
/// planned, or the device has another speed.
fn service_drift(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::ServiceDrift;
    if observation.cell.condition != Condition::N {
        return;
    }
    let native_ns = found.figures.closed_service_p50_ns;
    let calibrated_ns = observation.calibrated_service_ns.filter(|ns| *ns > 0);
    let (Some(native_ns), Some(calibrated_ns)) = (native_ns, calibrated_ns) else {
        return found.not_evaluated(GATE, "no native median, or no calibrated service time");
    };
    let ratio = native_ns / calibrated_ns as f64;
    let detail = format!(
        "native median {native_ns:.0} ns, calibrated {calibrated_ns} ns: {ratio:.3}, accepted is \
         {:.2} to {:.2}",
        1.0 - SERVICE_DRIFT_MAX,
        1.0 + SERVICE_DRIFT_MAX
    );
    found.holds(GATE, (ratio - 1.0).abs() <= SERVICE_DRIFT_MAX, detail);
    found.numbers(Some(ratio - 1.0), Some(SERVICE_DRIFT_MAX), "share");
}
