//! GPU instances: making, finding, describing and ending them.

use std::ffi::c_uint;

use super::types::{GpuInstanceInfo, InstanceHandle, Placement};
use crate::nvml::{DeviceHandle, check_not_null, put, put_all, read};
use gpubench_virtual_gpu_driver::nvml::mig::{Kind, gpu, instance};
use gpubench_virtual_gpu_driver::nvml::target::{device, device_handle};

entries! {
    fn nvmlDeviceCreateGpuInstance(
        handle: DeviceHandle, profile_id: c_uint, to: *mut InstanceHandle,
    ) {
        let device = device(handle)?;
        check_not_null(to)?;
        put(to, gpu::create(&device, profile_id, None)?)
    }

    fn nvmlDeviceCreateGpuInstanceWithPlacement(
        handle: DeviceHandle, profile_id: c_uint, placement: *const Placement,
        to: *mut InstanceHandle,
    ) {
        let placement = read(placement)?;
        let device = device(handle)?;
        check_not_null(to)?;
        put(to, gpu::create(&device, profile_id, Some(placement.into()))?)
    }

    fn nvmlGpuInstanceDestroy(handle: InstanceHandle) {
        Ok(gpu::destroy(&instance(handle, Kind::GpuInstance)?)?)
    }

    fn nvmlDeviceGetGpuInstances(
        handle: DeviceHandle, profile_id: c_uint, to: *mut InstanceHandle, count: *mut c_uint,
    ) {
        let device = device(handle)?;
        check_not_null(to)?;
        check_not_null(count)?;
        put_all(&gpu::of_profile(&device, profile_id)?, to, count)
    }

    fn nvmlDeviceGetGpuInstanceById(handle: DeviceHandle, id: c_uint, to: *mut InstanceHandle) {
        let device = device(handle)?;
        check_not_null(to)?;
        put(to, gpu::of_id(&device, id)?)
    }

    fn nvmlGpuInstanceGetInfo(handle: InstanceHandle, info: *mut GpuInstanceInfo) {
        let instance = instance(handle, Kind::GpuInstance)?;
        check_not_null(info)?;
        let found = gpu::describe(&instance)?;
        let found = GpuInstanceInfo {
            device: device_handle(),
            id: found.id,
            profile_id: found.profile_id,
            placement: found.placement.into(),
        };
        put(info, found)
    }
}
