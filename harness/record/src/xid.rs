//! What the kernel's log says of an Xid, which NVML's event does not: whose it was, and where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line of the kernel's log about one Xid. What the line lacks is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct XidLine {
    /// Number of the Xid.
    pub number: u32,
    /// Process that the driver names, by the number that it has in the host's first namespace. In
    /// virtual time, where equal runs have equal records, [`XidLine::ours`] alone says who it was.
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
    /// Who of this run that process is: the tenants that are it, or the mechanism's service; empty
    /// for nobody of ours. Absent where process numbers are those of another namespace, or the line
    /// has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<Vec<String>>,
    /// The rest of the line.
    pub text: String,
}

/// Name under which the processes that serve a mechanism are among [`XidLine::ours`].
pub const SERVICE: &str = "service";
