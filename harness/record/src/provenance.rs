//! The origin of a record: the device, the host, the build. Only this module has wall-clock facts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// A real GPU or the virtual one. Every report shows which.
    pub enum DeviceKind {
        /// An NVIDIA GPU.
        Real = "real",
        /// The virtual GPU.
        Virtual = "virtual",
    }
}

/// The fact of a virtual device that names the guessed constants of its machine file.
pub const MACHINE_GUESSES: &str = "machine_guesses";

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
    /// PCI device and subsystem id, as `nvidia-smi` prints them; absent where NVML does not report
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_id: Option<String>,
    /// Further facts (clocks, power cap, ECC, MIG mode, compute mode), by name.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

/// Facts of the host, the build and the time of a run.
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
    /// Labels that the user gave the run: cluster, pool, rack...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `virtual` or `wall`: which clock the stamps are on.
    pub clock: String,
    /// Results of the timer self-test, in nanoseconds, by name; empty in virtual time.
    #[serde(default)]
    pub timer_floor_ns: BTreeMap<String, u64>,
    /// Names of the user's variables that processes of the run did not inherit and that could have
    /// changed the measurement: those of CUDA, NVIDIA, the dynamic linker and HAMi.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_variables: Vec<String>,
    /// `CUDA_VISIBLE_DEVICES` of the user and how it was read; absent without the variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_devices: Option<String>,
    /// The environment of the user's victim program; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_environment: Option<String>,
}
