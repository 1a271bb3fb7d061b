//! The profiles of GPU instances and their placements.

use std::ffi::c_uint;

use super::types::{
    GpuInstanceProfileInfoV2, GpuInstanceProfileInfoV3, Placement, ProfileCounts, title,
};
use crate::nvml::returns::{self, Return};
use crate::nvml::types::version_of;
use crate::nvml::{DeviceHandle, check_not_null, put, put_all, read};
use gpubench_virtual_gpu_driver::nvml::mig::profile::{self, Description};
use gpubench_virtual_gpu_driver::nvml::target::device;

entries! {
    fn nvmlDeviceGetGpuInstanceProfileInfoV(
        handle: DeviceHandle, number: c_uint, info: *mut GpuInstanceProfileInfoV2,
    ) {
        let device = device(handle)?;
        check_not_null(info)?;
        put_versioned(profile::of_number(device.machine(), number)?, info)
    }

    fn nvmlDeviceGetGpuInstancePossiblePlacements, nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        handle: DeviceHandle, profile_id: c_uint, placements: *mut Placement, count: *mut c_uint,
    ) {
        let device = device(handle)?;
        check_not_null(count)?;
        put_all(&profile::placements(&device, profile_id)?, placements, count)
    }
}

/// Fills the structure of the version that the caller has set.
unsafe fn put_versioned(
    found: Description,
    to: *mut GpuInstanceProfileInfoV2,
) -> Result<(), Return> {
    let version = read(to.cast::<u32>())?;
    let Description { id, memory_mib: memory_size_mib, .. } = found;
    let (counts, name) = (ProfileCounts::of(&found), title(&found.name));
    if version == version_of::<GpuInstanceProfileInfoV2>(2) {
        let second = GpuInstanceProfileInfoV2 {
            version,
            id,
            is_p2p_supported: 0,
            counts,
            memory_size_mib,
            name,
        };
        put(to, second)
    } else if version == version_of::<GpuInstanceProfileInfoV3>(3) {
        let third = GpuInstanceProfileInfoV3 {
            version,
            id,
            counts,
            memory_size_mib,
            name,
            capabilities: 0,
        };
        put(to.cast(), third)
    } else {
        Err(returns::INVALID_ARGUMENT)
    }
}
