//! Modes that a device can be in, and the features that this one lacks.
#![expect(unsafe_code, reason = "the caller's structures are raw pointers")]

use super::library::device;
use super::returns;
use super::types::GpmSupport;
use super::{DeviceHandle, entries, figures, put, take};

/// `NVML_GPM_SUPPORT_VERSION`.
const GPM_VERSION: u32 = 1;

figures! {
    fn nvmlDeviceGetComputeMode(_) -> u32 {
        // NVML_COMPUTEMODE_DEFAULT: any number of contexts.
        Ok(0)
    }

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

    fn nvmlDeviceIsMigDeviceHandle(_) -> u32 {
        Ok(0)
    }

    fn nvmlDeviceGetMaxMigDeviceCount(_) -> u32 {
        Ok(0)
    }
}

entries! {
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
