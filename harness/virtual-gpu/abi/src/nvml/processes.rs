//! Which processes have a context on the device, and how much memory each has.

use std::ffi::c_uint;

use super::types::{NO_INSTANCES, ProcessInfo};
use super::{DeviceHandle, put_list};
use gpubench_virtual_gpu_driver::nvml::processes::{Running, compute, mps_clients};
use gpubench_virtual_gpu_driver::nvml::target::target;

impl From<Running> for ProcessInfo {
    fn from(running: Running) -> Self {
        let (gpu_instance_id, compute_instance_id) = running.instance.unwrap_or(NO_INSTANCES);
        Self {
            pid: running.pid,
            used_gpu_memory: running.bytes,
            gpu_instance_id,
            compute_instance_id,
        }
    }
}

entries! {
    fn nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        let (device, target) = target(handle)?;
        put_list(&compute(&device, target)?, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        target(handle)?;
        put_list(&NO_PROCESS, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        let (device, target) = target(handle)?;
        put_list(&mps_clients(&device, target)?, count, infos)
    }
}

/// The graphics processes, which this device never has.
const NO_PROCESS: [Running; 0] = [];
