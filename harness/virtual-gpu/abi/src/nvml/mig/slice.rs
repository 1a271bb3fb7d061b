//! The profiles of compute instances within a GPU instance, and their placements.

use std::ffi::c_uint;

use super::types::{
    ComputeInstanceProfileInfo, ComputeInstanceProfileInfoV2, ComputeInstanceProfileInfoV3,
    InstanceHandle, Placement, SharedEngines, title,
};
use crate::nvml::returns;
use crate::nvml::types::version_of;
use crate::nvml::{check_not_null, put, put_all, read};
use gpubench_virtual_gpu_driver::nvml::mig::slice::{self, Description};
use gpubench_virtual_gpu_driver::nvml::mig::{Kind, instance};

entries! {
    fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
        handle: InstanceHandle, number: c_uint, engines: c_uint,
        info: *mut ComputeInstanceProfileInfo,
    ) {
        check_not_null(info)?;
        let gpu = instance(handle, Kind::GpuInstance)?;
        put(info, info_of(number, &slice::describe(&gpu, number, engines)?))
    }

    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        handle: InstanceHandle, number: c_uint, engines: c_uint,
        to: *mut ComputeInstanceProfileInfoV2,
    ) {
        check_not_null(to)?;
        let gpu = instance(handle, Kind::GpuInstance)?;
        let found = slice::describe(&gpu, number, engines)?;
        let (info, name) = (info_of(number, &found), title(&found.name));
        let version = read(to.cast::<u32>())?;
        if version == version_of::<ComputeInstanceProfileInfoV2>(2) {
            put(to, ComputeInstanceProfileInfoV2 { version, info, name })
        } else if version == version_of::<ComputeInstanceProfileInfoV3>(3) {
            let capabilities = 0;
            let third = ComputeInstanceProfileInfoV3 { version, info, name, capabilities };
            put(to.cast(), third)
        } else {
            Err(returns::INVALID_ARGUMENT)
        }
    }

    fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
        handle: InstanceHandle, profile_id: c_uint, count: *mut c_uint,
    ) {
        let gpu = instance(handle, Kind::GpuInstance)?;
        check_not_null(count)?;
        put(count, slice::capacity(&gpu, profile_id)?)
    }

    fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(
        handle: InstanceHandle, profile_id: c_uint, to: *mut Placement, count: *mut c_uint,
    ) {
        let gpu = instance(handle, Kind::GpuInstance)?;
        check_not_null(count)?;
        put_all(&slice::placements(&gpu, profile_id)?, to, count)
    }
}

fn info_of(id: u32, found: &Description) -> ComputeInstanceProfileInfo {
    ComputeInstanceProfileInfo {
        id,
        slice_count: found.slices,
        instance_count: found.instances,
        multiprocessor_count: found.sms,
        shared: SharedEngines::of(&found.shared),
    }
}
