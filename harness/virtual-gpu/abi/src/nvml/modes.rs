//! Modes that a device can be in.

use std::ffi::c_uint;

use super::mig::privileged;
use super::returns;
use super::target::target;
use super::{DeviceHandle, put};
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;

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
        let found = device.shared().read(|state| state.compute_mode)?;
        put(mode, found as c_uint)
    }

    fn nvmlDeviceSetComputeMode(handle: DeviceHandle, mode: c_uint) {
        let (device, _) = target(handle)?;
        // NVML_COMPUTEMODE_EXCLUSIVE_THREAD (1) has lost its support (nvml.h).
        let mode = match ComputeMode::of_number(mode) {
            Some(mode) => mode,
            None if mode == 1 => return Err(returns::NOT_SUPPORTED),
            None => return Err(returns::INVALID_ARGUMENT),
        };
        if device.shared().read(|state| state.mig.current)? {
            return Err(returns::NOT_SUPPORTED);
        }
        privileged(&device)?;
        Ok(device.transact(|state, _| state.compute_mode = mode)?)
    }
}
