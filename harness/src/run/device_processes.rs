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
    pub compute_mode: Option<String>,
    /// Why NVML lists no processes with a context, if it does not.
    pub failure: Option<String>,
}

impl DeviceProcesses {
    /// Reads NVML.
    pub fn now(nvml: &Nvml) -> Self {
        let (processes, failure) = match nvml.compute_processes() {
            Ok(processes) => (Some(processes), None),
            Err(error) => (None, Some(format!("NVML: {error}"))),
        };
        let pids =
            |processes: &Vec<(u32, Option<u32>)>| processes.iter().map(|one| one.0).collect();
        Self {
            listed: processes.as_ref().map(pids),
            // Without a list the proofs rest on `listed`, which is absent.
            instances: processes.unwrap_or_default(),
            // A driver without this list reports an error; the proof of MPS then rests on the
            // daemon's list.
            mps_clients: nvml.mps_client_pids().ok(),
            // The proof of a compute mode fails without it.
            compute_mode: nvml.compute_mode().ok().map(str::to_owned),
            failure,
        }
    }
}
