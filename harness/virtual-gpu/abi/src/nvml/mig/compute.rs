//! Compute instances: making, finding, describing and ending them.

use std::ffi::c_uint;
use std::mem::offset_of;

use super::profile::put_all;
use super::slice::{id_of, sizes};
use super::types::{ComputeInstanceInfo, Placement};
use super::{InstanceHandle, Kind, handle, instance, privileged, supported, take_time};
use crate::arguments::put_prefix;
use crate::nvml::library::catch_up_with_the_living;
use crate::nvml::returns::{self, Return};
use crate::nvml::{check_not_null, put, read};
use gpubench_virtual_gpu_model::mig;

entries! {
    fn nvmlGpuInstanceCreateComputeInstance(
        gpu: InstanceHandle, profile_id: c_uint, to: *mut InstanceHandle,
    ) {
        create(gpu, profile_id, None, to)
    }

    fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
        gpu: InstanceHandle, profile_id: c_uint, placement: *const Placement,
        to: *mut InstanceHandle,
    ) {
        let placement = read(placement)?;
        create(gpu, profile_id, Some(placement), to)
    }

    fn nvmlComputeInstanceDestroy(compute: InstanceHandle) {
        let (device, row) = instance(compute, Kind::ComputeInstance)?;
        privileged(&device)?;
        catch_up_with_the_living(&device)?;
        device.transact(|state, _| mig::destroy_engine(state, row))??;
        take_time(&device, supported(&device)?)
    }

    fn nvmlGpuInstanceGetComputeInstances(
        gpu: InstanceHandle, profile_id: c_uint, to: *mut InstanceHandle, count: *mut c_uint,
    ) {
        let (device, row) = instance(gpu, Kind::GpuInstance)?;
        check_not_null(to)?;
        check_not_null(count)?;
        privileged(&device)?;
        let (slices, _) = sizes(&device, row, profile_id)?;
        let found: Vec<InstanceHandle> = device.shared().read(|state| {
            let engines = mig::engines(state, row).filter(|(_, engine)| engine.profile == slices);
            engines.map(|(row, _)| handle(state, Kind::ComputeInstance, row)).collect()
        })?;
        put_all(&found, to, count)
    }

    fn nvmlGpuInstanceGetComputeInstanceById(
        gpu: InstanceHandle, id: c_uint, to: *mut InstanceHandle,
    ) {
        let (device, row) = instance(gpu, Kind::GpuInstance)?;
        check_not_null(to)?;
        privileged(&device)?;
        let found = device.shared().read(|state| {
            let engine = mig::engines(state, row).find(|(_, engine)| engine.id == id);
            engine.map(|(row, _)| handle(state, Kind::ComputeInstance, row))
        })?;
        put(to, found.ok_or(returns::NOT_FOUND)?)
    }

    fn nvmlComputeInstanceGetInfo(compute: InstanceHandle, to: *mut u8) {
        check_not_null(to)?;
        let info = describe(compute)?;
        put_prefix(to, offset_of!(ComputeInstanceInfo, placement), &info);
        Ok(())
    }

    fn nvmlComputeInstanceGetInfo_v2(compute: InstanceHandle, to: *mut ComputeInstanceInfo) {
        check_not_null(to)?;
        put(to, describe(compute)?)
    }
}

unsafe fn create(
    gpu: InstanceHandle,
    profile_id: u32,
    placement: Option<Placement>,
    to: *mut InstanceHandle,
) -> Result<(), Return> {
    let (device, row) = instance(gpu, Kind::GpuInstance)?;
    check_not_null(to)?;
    privileged(&device)?;
    let (slices, _) = sizes(&device, row, profile_id)?;
    if placement.is_some_and(|place| place.size != slices) {
        return Err(returns::INVALID_ARGUMENT);
    }
    let start = placement.map(|place| place.start);
    let made = device.transact(|state, _| {
        let engine = mig::create_engine(state, device.machine(), row, slices, start)?;
        Ok::<_, mig::MigError>(handle(state, Kind::ComputeInstance, engine))
    })??;
    take_time(&device, supported(&device)?)?;
    put(to, made)
}

fn describe(compute: InstanceHandle) -> Result<ComputeInstanceInfo, Return> {
    let (device, row) = instance(compute, Kind::ComputeInstance)?;
    Ok(device.shared().read(|state| {
        let engine = &state.engines.rows[row as usize];
        ComputeInstanceInfo {
            device: handle(state, Kind::Device, row),
            gpu_instance: handle(state, Kind::GpuInstance, engine.instance),
            id: engine.id,
            profile_id: id_of(engine.profile),
            placement: Placement {
                start: engine.slice_start,
                size: engine.profile,
            },
        }
    })?)
}
