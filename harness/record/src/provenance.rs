//! Where a record comes from: the device, the host, the build. Wall-clock facts live here alone.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Silicon or model. Nothing virtual is ever passed off as real.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// An NVIDIA GPU.
    Real,
    /// The virtual GPU.
    Virtual,
}

/// The device under test, as the driver describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceIdentity {
    /// Real or virtual.
    pub kind: DeviceKind,
    /// Product name.
    pub name: String,
    /// `GPU-...` or `MIG-...`.
    pub uuid: String,
    /// Version of the kernel driver.
    pub driver: String,
    /// Version of the CUDA driver interface, `major.minor`.
    pub cuda: String,
    /// Compute capability, `major.minor`.
    pub compute_capability: String,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Total device memory in MiB.
    pub memory_mib: u64,
    /// L2 size in KiB.
    pub l2_kib: u64,
    /// PCI device and subsystem id, as `nvidia-smi` prints them; absent where not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_id: Option<String>,
    /// Anything else worth keeping (clocks, power cap, ECC, MIG mode, compute mode), by name.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

/// The circumstances of a run. The only place for wall-clock facts and host names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// Version of gpubench.
    pub gpubench: String,
    /// RFC 3339 time at which the run began.
    pub started_at: String,
    /// RFC 3339 time at which it ended; absent while it runs or after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Host facts (kernel, CPU model, cores, governor, cgroup quota...), by name.
    #[serde(default)]
    pub host: BTreeMap<String, String>,
    /// `virtual` or `wall`: which clock the stamps are on.
    pub clock: String,
    /// What the timer self-test found, in nanoseconds, by name; empty in virtual time.
    #[serde(default)]
    pub timer_floor_ns: BTreeMap<String, u64>,
}
