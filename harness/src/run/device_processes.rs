//! The processes on the device at one instant, as NVML lists them.

use crate::device::Nvml;

/// NVML's lists; `None` is what it does not tell.
#[derive(Debug, Clone, Default)]
pub struct DeviceProcesses {
    /// Processes with a compute context.
    pub listed: Option<Vec<u32>>,
    /// The GPU instance of each of them, where the device is cut up.
    pub instances: Vec<(u32, Option<u32>)>,
    /// MPS clients, by process id.
    pub mps_clients: Option<Vec<u32>>,
    /// Compute mode.
    pub compute_mode: Option<String>,
}

impl DeviceProcesses {
    /// Asks NVML.
    pub fn now(nvml: &Nvml) -> Self {
        let places = nvml.compute_processes().ok();
        let pids = |places: &Vec<(u32, Option<u32>)>| places.iter().map(|(pid, _)| *pid).collect();
        Self {
            listed: places.as_ref().map(pids),
            instances: places.unwrap_or_default(),
            mps_clients: nvml.mps_client_pids().ok(),
            compute_mode: nvml.compute_mode().ok().map(str::to_owned),
        }
    }
}
