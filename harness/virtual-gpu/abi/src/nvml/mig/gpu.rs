//! GPU instances: making, finding, describing and ending them.

use std::ffi::c_uint;

use super::profile::{by_id, put_all};
use super::types::{GpuInstanceInfo, Placement};
use super::{InstanceHandle, Kind, enabled, handle, instance, privileged, supported, take_time};
use crate::nvml::library::{catch_up_with_the_living, device_handle};
use crate::nvml::returns::{self, Return};
use crate::nvml::target::device;
use crate::nvml::{DeviceHandle, check_not_null, put, read};
use gpubench_virtual_gpu_model::mig;

entries! {
    fn nvmlDeviceCreateGpuInstance(
        device: DeviceHandle, profile_id: c_uint, to: *mut InstanceHandle,
    ) {
        create(device, profile_id, None, to)
    }

    fn nvmlDeviceCreateGpuInstanceWithPlacement(
        device: DeviceHandle, profile_id: c_uint, placement: *const Placement,
        to: *mut InstanceHandle,
    ) {
        let placement = read(placement)?;
        create(device, profile_id, Some(placement), to)
    }

    fn nvmlGpuInstanceDestroy(gpu: InstanceHandle) {
        let (device, row) = instance(gpu, Kind::GpuInstance)?;
        privileged(&device)?;
        catch_up_with_the_living(&device)?;
        device.transact(|state, _| mig::destroy_instance(state, row))??;
        take_time(&device, supported(&device)?)
    }

    fn nvmlDeviceGetGpuInstances(
        handle_of: DeviceHandle, profile_id: c_uint, to: *mut InstanceHandle, count: *mut c_uint,
    ) {
        let device = device(handle_of)?;
        check_not_null(to)?;
        check_not_null(count)?;
        let mig = enabled(&device)?;
        privileged(&device)?;
        let (index, _) = by_id(mig, profile_id)?;
        let found: Vec<InstanceHandle> = device.shared().read(|state| {
            let rows = mig::instances(state).filter(|(_, row)| row.profile == index);
            rows.map(|(row, _)| handle(state, Kind::GpuInstance, row)).collect()
        })?;
        put_all(&found, to, count)
    }

    fn nvmlDeviceGetGpuInstanceById(handle_of: DeviceHandle, id: c_uint, to: *mut InstanceHandle) {
        let device = device(handle_of)?;
        check_not_null(to)?;
        enabled(&device)?;
        privileged(&device)?;
        let found = device.shared().read(|state| {
            let row = mig::instances(state).find(|(_, row)| row.id == id);
            row.map(|(row, _)| handle(state, Kind::GpuInstance, row))
        })?;
        put(to, found.ok_or(returns::NOT_FOUND)?)
    }

    fn nvmlGpuInstanceGetInfo(gpu: InstanceHandle, info: *mut GpuInstanceInfo) {
        let (device, row) = instance(gpu, Kind::GpuInstance)?;
        check_not_null(info)?;
        let mig = supported(&device)?;
        let found = device.shared().read(|state| {
            let row = &state.instances.rows[row as usize];
            GpuInstanceInfo {
                device: device_handle(),
                id: row.id,
                profile_id: mig.profile[row.profile as usize].id,
                placement: Placement { start: row.slot_start, size: row.slots },
            }
        })?;
        put(info, found)
    }
}

unsafe fn create(
    handle_of: DeviceHandle,
    profile_id: u32,
    placement: Option<Placement>,
    to: *mut InstanceHandle,
) -> Result<(), Return> {
    let device = device(handle_of)?;
    check_not_null(to)?;
    let mig = enabled(&device)?;
    privileged(&device)?;
    // An unknown id is a wrong argument here, and something not supported elsewhere (nvml.h).
    let (index, profile) = by_id(mig, profile_id).map_err(|_| returns::INVALID_ARGUMENT)?;
    if placement.is_some_and(|place| place.size != profile.memory_slots) {
        return Err(returns::INVALID_ARGUMENT);
    }
    let start = placement.map(|place| place.start);
    catch_up_with_the_living(&device)?;
    let made = device.transact(|state, _| {
        let row = mig::create_instance(state, device.machine(), index, start)?;
        Ok::<_, mig::MigError>(handle(state, Kind::GpuInstance, row))
    })??;
    take_time(&device, mig)?;
    put(to, made)
}
