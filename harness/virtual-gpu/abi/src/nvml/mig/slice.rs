//! The profiles of compute instances within a GPU instance.

use std::ffi::c_uint;

use super::types::{
    ComputeInstanceProfileInfo, ComputeInstanceProfileInfoV2, ComputeInstanceProfileInfoV3,
    InstanceHandle, SharedEngines, title,
};
use crate::nvml::returns;
use crate::nvml::types::version_of;
use crate::nvml::{check_not_null, put, read};
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
