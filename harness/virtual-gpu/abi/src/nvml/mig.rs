//! MIG: the mode, profiles, instances, and MIG devices, which are compute instances under handles
//! that stand in for the device's own.

pub mod types;

use std::ffi::c_uint;

use crate::nvml::returns::{self, Return};
use crate::nvml::types::version_of;
use crate::nvml::{DeviceHandle, check_not_null, put, put_all, read, switch};
use gpubench_virtual_gpu_driver::nvml::library::{Target, device, device_handle, target};
use gpubench_virtual_gpu_driver::nvml::mig::mode::{self, Activation};
use gpubench_virtual_gpu_driver::nvml::mig::{
    Instance, Kind, compute, device as mig, gpu, instance, profile, slice,
};

pub use types::InstanceHandle;
use types::{
    ComputeInstanceInfo, ComputeInstanceProfileInfo, ComputeInstanceProfileInfoV2,
    ComputeInstanceProfileInfoV3, DeviceAttributes, GpuInstanceInfo, GpuInstanceProfileInfoV2,
    GpuInstanceProfileInfoV3, Placement, ProfileCounts, SharedEngines, title,
};

entries! {
    fn nvmlDeviceGetMigMode(handle: DeviceHandle, current: *mut c_uint, pending: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(current)?;
        check_not_null(pending)?;
        let (is_on, will_be_on) = mode::modes(&device)?;
        put(current, c_uint::from(is_on))?;
        put(pending, c_uint::from(will_be_on))
    }

    fn nvmlDeviceSetMigMode(handle: DeviceHandle, mode: c_uint, status: *mut i32) {
        let device = device(handle)?;
        check_not_null(status)?;
        let found = match mode::request(&device, switch(mode)?)? {
            Activation::Done => 0,
            Activation::InUse => returns::IN_USE.0,
            Activation::ResetRequired => returns::RESET_REQUIRED.0,
        };
        put(status, found)
    }

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

    fn nvmlDeviceIsMigDeviceHandle(handle: DeviceHandle, answer: *mut c_uint) {
        let (_, target) = target(handle)?;
        check_not_null(answer)?;
        put(answer, c_uint::from(target != Target::Whole))
    }

    fn nvmlDeviceGetMigDeviceHandleByIndex(
        parent: DeviceHandle, index: c_uint, to: *mut DeviceHandle,
    ) {
        let device = device(parent)?;
        check_not_null(to)?;
        put(to, mig::by_index(&device, index)?)
    }

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle: DeviceHandle, to: *mut DeviceHandle) {
        compute_of(handle)?;
        put(to, device_handle())
    }

    fn nvmlDeviceGetGpuInstanceId(handle: DeviceHandle, id: *mut c_uint) {
        let compute = compute_of(handle)?;
        check_not_null(id)?;
        put(id, mig::instance_ids(&compute)?.0)
    }

    fn nvmlDeviceGetComputeInstanceId(handle: DeviceHandle, id: *mut c_uint) {
        let compute = compute_of(handle)?;
        check_not_null(id)?;
        put(id, mig::instance_ids(&compute)?.1)
    }

    fn nvmlDeviceGetAttributes_v2(handle: DeviceHandle, to: *mut DeviceAttributes) {
        check_not_null(to)?;
        put(to, attributes(handle)?)
    }
}

figures! {
    fn nvmlDeviceGetMaxMigDeviceCount(device) -> u32 { Ok(mode::max_devices(device)?) }
}

/// Fills the structure of the version that the caller has set.
unsafe fn put_versioned(
    found: profile::Description,
    to: *mut GpuInstanceProfileInfoV2,
) -> Result<(), Return> {
    let version = read(to.cast::<u32>())?;
    let profile::Description { id, memory_mib: memory_size_mib, .. } = found;
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

fn info_of(id: u32, found: &slice::Description) -> ComputeInstanceProfileInfo {
    ComputeInstanceProfileInfo {
        id,
        slice_count: found.slices,
        instance_count: found.instances,
        multiprocessor_count: found.sms,
        shared: SharedEngines::of(&found.shared),
    }
}

/// The compute instance of a MIG device.
fn compute_of(handle: DeviceHandle) -> Result<Instance, Return> {
    let (device, target) = target(handle)?;
    Ok(mig::instance(device, target)?)
}

fn attributes(handle: DeviceHandle) -> Result<DeviceAttributes, Return> {
    let (device, target) = target(handle)?;
    let found = mig::attributes(&device, target)?;
    Ok(DeviceAttributes {
        multiprocessor_count: found.sms,
        shared: SharedEngines::of(&found.shared),
        gpu_instance_slice_count: found.shared.slices,
        compute_instance_slice_count: found.slices,
        memory_size_mib: found.shared.memory_mib,
    })
}
