//! Compute instances: making, finding, describing and ending them.

use std::ffi::c_uint;

use super::types::{ComputeInstanceInfo, InstanceHandle};
use crate::nvml::{check_not_null, put, put_all};
use gpubench_virtual_gpu_driver::nvml::mig::{Kind, compute, instance};

entries! {
    fn nvmlGpuInstanceCreateComputeInstance(
        handle: InstanceHandle, profile_id: c_uint, to: *mut InstanceHandle,
    ) {
        let gpu = instance(handle, Kind::GpuInstance)?;
        check_not_null(to)?;
        put(to, compute::create(&gpu, profile_id)?)
    }

    fn nvmlComputeInstanceDestroy(handle: InstanceHandle) {
        Ok(compute::destroy(&instance(handle, Kind::ComputeInstance)?)?)
    }

    fn nvmlGpuInstanceGetComputeInstances(
        handle: InstanceHandle, profile_id: c_uint, to: *mut InstanceHandle, count: *mut c_uint,
    ) {
        let gpu = instance(handle, Kind::GpuInstance)?;
        check_not_null(to)?;
        check_not_null(count)?;
        put_all(&compute::of_profile(&gpu, profile_id)?, to, count)
    }

    fn nvmlComputeInstanceGetInfo_v2(handle: InstanceHandle, to: *mut ComputeInstanceInfo) {
        check_not_null(to)?;
        let found = compute::describe(&instance(handle, Kind::ComputeInstance)?)?;
        let found = ComputeInstanceInfo {
            device: found.device,
            gpu_instance: found.gpu_instance,
            id: found.id,
            profile_id: found.profile_id,
            placement: found.placement.into(),
        };
        put(to, found)
    }
}
