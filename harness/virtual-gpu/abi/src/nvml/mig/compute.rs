//! Compute instances: making, finding, describing and ending them.

use std::ffi::c_uint;
use std::mem::offset_of;

use super::types::{ComputeInstanceInfo, InstanceHandle, Placement};
use crate::arguments::put_prefix;
use crate::nvml::returns::Return;
use crate::nvml::{check_not_null, put, put_all, read};
use gpubench_virtual_gpu_driver::nvml::mig::{Kind, compute, instance};

entries! {
    fn nvmlGpuInstanceCreateComputeInstance(
        handle: InstanceHandle, profile_id: c_uint, to: *mut InstanceHandle,
    ) {
        let gpu = instance(handle, Kind::GpuInstance)?;
        check_not_null(to)?;
        put(to, compute::create(&gpu, profile_id, None)?)
    }

    fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
        handle: InstanceHandle, profile_id: c_uint, placement: *const Placement,
        to: *mut InstanceHandle,
    ) {
        let placement = read(placement)?;
        let gpu = instance(handle, Kind::GpuInstance)?;
        check_not_null(to)?;
        put(to, compute::create(&gpu, profile_id, Some(placement.into()))?)
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

    fn nvmlGpuInstanceGetComputeInstanceById(
        handle: InstanceHandle, id: c_uint, to: *mut InstanceHandle,
    ) {
        let gpu = instance(handle, Kind::GpuInstance)?;
        check_not_null(to)?;
        put(to, compute::of_id(&gpu, id)?)
    }

    fn nvmlComputeInstanceGetInfo(handle: InstanceHandle, to: *mut u8) {
        check_not_null(to)?;
        let info = describe(handle)?;
        put_prefix(to, offset_of!(ComputeInstanceInfo, placement), &info);
        Ok(())
    }

    fn nvmlComputeInstanceGetInfo_v2(handle: InstanceHandle, to: *mut ComputeInstanceInfo) {
        check_not_null(to)?;
        put(to, describe(handle)?)
    }
}

fn describe(handle: InstanceHandle) -> Result<ComputeInstanceInfo, Return> {
    let found = compute::describe(&instance(handle, Kind::ComputeInstance)?)?;
    Ok(ComputeInstanceInfo {
        device: found.device,
        gpu_instance: found.gpu_instance,
        id: found.id,
        profile_id: found.profile_id,
        placement: found.placement.into(),
    })
}
