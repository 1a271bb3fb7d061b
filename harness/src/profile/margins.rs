//! The `[margins]` table: the type of the record, with unknown keys refused, and its rules.

use gpubench_record::Margins;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::within;
use super::error::Fault;

/// The smallest changes that matter to `gpubench diff`. They are not part of the profile's hash,
/// because they change nothing that is measured.
// The compiler checks that the keys are those of the record's type.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Margins", deny_unknown_fields)]
pub(super) struct MarginsTable {
    /// Of ratios, rates and medians, as a share.
    ratio: f64,
    /// Of the 99th percentile, as a share.
    p99: f64,
    /// Of jitter, in native medians and as a share of the jitter; the larger one counts.
    jitter: f64,
    /// Of proportions of trials, as a difference of proportions.
    survival: f64,
}

/// Checks that every margin is above zero and no larger than what flags accept.
pub(super) fn check(margins: &Margins) -> Result<(), Fault> {
    for (key, value, max) in [
        ("margins.ratio", margins.ratio, 10.0),
        ("margins.p99", margins.p99, 10.0),
        ("margins.jitter", margins.jitter, 10.0),
        ("margins.survival", margins.survival, 1.0),
    ] {
        within(key, value, 0.0001, max)?;
    }
    Ok(())
}
