//! Modes that a device can be in.
#![expect(unsafe_code, reason = "the caller's structures are raw pointers")]

use std::ffi::c_uint;

use super::library::{device, target};
use super::returns;
use super::types::GpmSupport;
use super::{DeviceHandle, entries, figures, put, take};

/// `NVML_GPM_SUPPORT_VERSION`.
const GPM_VERSION: u32 = 1;

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

    fn nvmlGpmQueryDeviceSupport(handle: DeviceHandle, support: *mut GpmSupport) {
        device(handle)?;
        // SAFETY: the caller's structure, checked for null.
        let asked = unsafe { take(support)? };
        if asked.version != GPM_VERSION {
            return Err(returns::ARGUMENT_VERSION_MISMATCH);
        }
        // SAFETY: as above.
        unsafe { put(support, GpmSupport { is_supported: 0, ..asked }) }
    }
}
