//! Modes that a device can be in.

use std::ffi::c_uint;

use super::{DeviceHandle, put};
use gpubench_virtual_gpu_driver::nvml::modes;
use gpubench_virtual_gpu_driver::nvml::target::target;

figures! {
    fn nvmlDeviceGetPersistenceMode(_) -> u32 {
        // The device outlives its clients.
        Ok(1)
    }

    fn nvmlDeviceGetDisplayMode, nvmlDeviceGetDisplayActive(_) -> u32 {
        Ok(0)
    }

    fn nvmlDeviceGetVirtualizationMode(device) -> u32 {
        Ok(device.machine().circumstances.virtualization as u32)
    }
}

entries! {
    fn nvmlDeviceGetComputeMode(handle: DeviceHandle, mode: *mut c_uint) {
        let (device, _) = target(handle)?;
        put(mode, modes::compute_mode(&device)? as c_uint)
    }

    fn nvmlDeviceSetComputeMode(handle: DeviceHandle, mode: c_uint) {
        let (device, _) = target(handle)?;
        Ok(modes::set_compute_mode(&device, mode)?)
    }
}
