//! The operator's view of tenants that share the device: their progress, its fairness, and the GPU
//! time of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::SubAxis;
use crate::estimate::Estimate;

/// One variant, victim, aggressor and number of tenants, over all blocks. No level follows from it:
/// a fair device may isolate nothing.
///
/// The progress of a tenant is its rate in the closed loop over its rate alone on the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorRow {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// The sub-axis of the pair.
    pub sub_axis: SubAxis,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor.
    pub aggressor: String,
    /// Working tenants, including the victim.
    pub tenants: u32,
    /// Average normalised turnaround time: the mean of 1 over progress.
    pub antt: Estimate,
    /// System throughput: the sum of progress.
    pub stp: Estimate,
    /// The smallest progress of a tenant.
    pub progress_min: Estimate,
    /// The largest.
    pub progress_max: Estimate,
    /// Jain's index of progress. It is flat near 1: two tenants that progress two to one have 0.9.
    pub jain: Estimate,
    /// Work of all tenants over what the device can do of that work, by its peak: 1 is full.
    /// In format 1.0 the victim counted with its share of the device, which is more than it
    /// uses.
    pub utilisation: Estimate,
    /// GPU time of each tenant over these blocks. Absent in format 1.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_time: Vec<TenantTime>,
}

impl OperatorRow {
    /// The names of its figures, as in JSON and CSV.
    pub const FIGURES: [&'static str; 6] =
        ["antt", "stp", "progress_min", "progress_max", "jain", "utilisation"];

    /// Its figures, in the order of their names.
    #[must_use]
    pub const fn figures(&self) -> [&Estimate; Self::FIGURES.len()] {
        [
            &self.antt,
            &self.stp,
            &self.progress_min,
            &self.progress_max,
            &self.jain,
            &self.utilisation,
        ]
    }
}

/// GPU time of one tenant: the sum over its requests of the time between the device events before
/// and after each. Where tenants take turns it includes turns of others within a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantTime {
    /// Name of the tenant.
    pub tenant: String,
    /// Its workload.
    pub workload: String,
    /// Its GPU time.
    pub gpu_time_ns: u64,
    /// Its share of the GPU time of all tenants.
    pub share: f64,
}
