//! The `[thresholds]` table: the contract's own type, with unknown keys refused.

use gpubench_record::Thresholds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The thresholds of `scoring-v1`. Conventions, hashed with the profile; not findings.
// The compiler checks that the keys are those of the contract's type.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Thresholds", deny_unknown_fields)]
pub(super) struct ThresholdsTable {
    /// Lower bound of retention for L3.
    retention_l3: f64,
    /// Lower bound of retention for L2.
    retention_l2: f64,
    /// Lower bound of the guarantee for L3; below it isolation is bought with capacity.
    guarantee_l3: f64,
    /// Bound of the isolation index between L0 and L1.
    index_l1: f64,
    /// Upper bound of jitter, in native medians, for `Negligible`.
    jitter_negligible: f64,
    /// Upper bound of jitter, in native medians, for `Low-Medium`.
    jitter_low_medium: f64,
    /// An aggressor that leaves more than this unprotected is too weak to show anything.
    effectiveness_max: f64,
    /// Least part of a closed loop in which both tenants must have work outstanding.
    overlap_min: f64,
    /// Greatest drift between the halves of a cell and between N and N', as a log ratio.
    drift_max: f64,
    /// Fewest blocks that may decide.
    blocks_min: u32,
    /// Fewest open-loop requests in a block for a p99.
    jitter_requests_min: u32,
}
