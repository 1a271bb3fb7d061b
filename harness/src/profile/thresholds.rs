//! The `[thresholds]` table: the type of the record, with unknown keys refused, and its rules.

use gpubench_record::Thresholds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::within;
use super::error::Fault;

/// The thresholds of `scoring-v3`: conventions, which are part of the profile's hash.
// The compiler checks that the keys are those of the record's type.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Thresholds", deny_unknown_fields)]
pub(super) struct ThresholdsTable {
    /// Lower bound of retention for L3.
    retention_l3: f64,
    /// Lower bound of retention for L2.
    retention_l2: f64,
    /// Lower bound of the guarantee for L3; below it the mechanism forfeits capacity.
    guarantee_l3: f64,
    /// Bound of the isolation index between L0 and L1.
    index_l1: f64,
    /// Upper bound of jitter, in native medians, for `Negligible`.
    jitter_negligible: f64,
    /// Upper bound of jitter, in native medians, for `Low-Medium`.
    jitter_low_medium: f64,
    /// Upper bound of the effectiveness; an aggressor above it is too weak to show anything.
    effectiveness_max: f64,
    /// Smallest part of a closed loop in which both tenants must have work outstanding.
    overlap_min: f64,
    /// Drift of the native rate from the first block to the last, and of N' from N, that a row
    /// mentions, as a log ratio.
    drift_max: f64,
    /// Fewest open-loop requests in a block for a p99.
    jitter_requests_min: u32,
}

/// Checks that the bounds are in range and in order.
pub(super) fn check(t: &Thresholds) -> Result<(), Fault> {
    for (name, value) in [
        ("retention_l3", t.retention_l3),
        ("retention_l2", t.retention_l2),
        ("guarantee_l3", t.guarantee_l3),
        ("index_l1", t.index_l1),
        ("effectiveness_max", t.effectiveness_max),
        ("overlap_min", t.overlap_min),
    ] {
        if !(value > 0.0 && value < 1.0) {
            let key = format!("thresholds.{name}");
            return Err(Fault::at(&key, format!("{value} is out of range"), "above 0 and below 1"));
        }
    }
    for (name, value) in [("jitter_negligible", t.jitter_negligible), ("drift_max", t.drift_max)] {
        if !(value > 0.0 && value.is_finite()) {
            let key = format!("thresholds.{name}");
            return Err(Fault::at(&key, format!("{value} is out of range"), "a number above 0"));
        }
    }
    rising("retention_l3", t.retention_l3, "retention_l2", t.retention_l2)?;
    rising("jitter_low_medium", t.jitter_low_medium, "jitter_negligible", t.jitter_negligible)?;
    // The smallest sample with a finite upper end of the two-sided 95 % interval of its p99.
    within("thresholds.jitter_requests_min", t.jitter_requests_min, 368, 1_000_000)
}

fn rising(upper: &str, above: f64, lower: &str, below: f64) -> Result<(), Fault> {
    if above > below && above.is_finite() {
        return Ok(());
    }
    let accepted = format!("a number above thresholds.{lower}, which is {below}");
    let key = format!("thresholds.{upper}");
    let fault = Fault::at(&key, format!("{above} is too low"), accepted);
    Err(fault.bound_by(&format!("thresholds.{lower}")))
}
