//! Modes that a device can be in.
#![expect(unsafe_code, reason = "the caller's structures are raw pointers")]

use std::ffi::c_uint;

use super::library::target;
use super::{DeviceHandle, entries, figures, put};

figures! {
    fn nvmlDeviceGetPersistenceMode(_) -> u32 {
        // The device outlives its clients.
        Ok(1)
    }

    fn nvmlDeviceGetDisplayMode(_) -> u32 {
        Ok(0)
    }

    fn nvmlDeviceGetDisplayActive(_) -> u32 {
        Ok(0)
    }

    fn nvmlDeviceGetVirtualizationMode(_) -> u32 {
        // NVML_GPU_VIRTUALIZATION_MODE_NONE: no hypervisor stands between.
        Ok(0)
    }
}

entries! {
    fn nvmlDeviceGetComputeMode(handle: DeviceHandle, mode: *mut c_uint) {
        target(handle)?;
        // NVML_COMPUTEMODE_DEFAULT: any number of contexts.
        // SAFETY: the caller's place, checked for null.
        unsafe { put(mode, 0) }
    }
}
