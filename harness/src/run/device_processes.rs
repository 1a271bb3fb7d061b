//! The processes on the device at one instant, as NVML lists them.

use crate::device::Nvml;

/// NVML's lists; `None` where NVML reports none.
#[derive(Debug, Clone, Default)]
pub struct DeviceProcesses {
    /// Processes with a compute context.
    pub listed: Option<Vec<u32>>,
    /// The GPU instance of each of them, where MIG is on.
    pub instances: Vec<(u32, Option<u32>)>,
    /// MPS clients, by process id.
    pub mps_clients: Option<Vec<u32>>,
    /// Compute mode.
    pub compute_mode: Option<String>,
}

impl DeviceProcesses {
    /// Reads NVML.
    pub fn now(nvml: &Nvml) -> Self {
        let processes = nvml.compute_processes().ok();
        let pids =
            |processes: &Vec<(u32, Option<u32>)>| processes.iter().map(|one| one.0).collect();
        Self {
            listed: processes.as_ref().map(pids),
            instances: processes.unwrap_or_default(),
            mps_clients: nvml.mps_client_pids().ok(),
            compute_mode: nvml.compute_mode().ok().map(str::to_owned),
        }
    }
}
