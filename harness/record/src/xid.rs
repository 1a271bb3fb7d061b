//! An Xid in the kernel's log: its process and MIG instance, which NVML's event lacks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line of the kernel's log about one Xid. What the line lacks is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct XidLine {
    /// Number of the Xid.
    pub number: u32,
    /// Process that the driver names, by its id in the host's initial namespace. Absent in virtual
    /// time, because records of equal runs are equal; [`XidLine::ours`] names the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Name of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// GPU instance, where MIG is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
    /// Compute instance in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_instance: Option<u32>,
    /// The tenants of this run in that process, or the mechanism's service; empty for other
    /// processes. Absent where process ids are those of another namespace, or the line has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<Vec<String>>,
    /// The stamp of the line on the clock of the run, in ns; absent where the line has none, or one
    /// of another clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_ns: Option<u64>,
    /// The rest of the line.
    pub text: String,
}

/// Name of the mechanism's service in [`XidLine::ours`].
pub const SERVICE: &str = "service";
