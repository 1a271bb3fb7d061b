//! MIG devices: compute instances under handles that stand in for the device's own.

use std::ffi::c_uint;

use super::types::{DeviceAttributes, SharedEngines};
use crate::nvml::returns::Return;
use crate::nvml::{DeviceHandle, check_not_null, put};
use gpubench_virtual_gpu_driver::nvml::mig::{Instance, device as mig};
use gpubench_virtual_gpu_driver::nvml::target::{Target, device, device_handle, target};

entries! {
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
        instance(handle)?;
        put(to, device_handle())
    }

    fn nvmlDeviceGetGpuInstanceId(handle: DeviceHandle, id: *mut c_uint) {
        let compute = instance(handle)?;
        check_not_null(id)?;
        put(id, mig::instance_ids(&compute)?.0)
    }

    fn nvmlDeviceGetComputeInstanceId(handle: DeviceHandle, id: *mut c_uint) {
        let compute = instance(handle)?;
        check_not_null(id)?;
        put(id, mig::instance_ids(&compute)?.1)
    }

    fn nvmlDeviceGetAttributes_v2(handle: DeviceHandle, to: *mut DeviceAttributes) {
        check_not_null(to)?;
        put(to, attributes(handle)?)
    }
}

/// The compute instance of a MIG device.
fn instance(handle: DeviceHandle) -> Result<Instance, Return> {
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
