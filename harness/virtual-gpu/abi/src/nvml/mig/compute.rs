//! Compute instances: making, finding, describing and ending them.
#![expect(unsafe_code, reason = "the caller's places are raw pointers")]

use std::ffi::c_uint;
use std::mem::offset_of;

use super::profile::put_all;
use super::slice::{id_of, sizes};
use super::types::{ComputeInstanceInfo, Placement};
use super::{InstanceHandle, Kind, handle, instance, privileged, supported, take_time};
use crate::nvml::library::catch_up_with_the_living;
use crate::nvml::returns::{self, Return};
use crate::nvml::{check_place, entries, put, take};
use gpubench_virtual_gpu_model::mig;

entries! {
    fn nvmlGpuInstanceCreateComputeInstance(
        gpu: InstanceHandle,
        profile_id: c_uint,
        to: *mut InstanceHandle,
    ) {
        create(gpu, profile_id, None, to)
    }

    fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
        gpu: InstanceHandle,
        profile_id: c_uint,
        placement: *const Placement,
        to: *mut InstanceHandle,
    ) {
        // SAFETY: the caller's structure, checked for null.
        let placement = unsafe { take(placement)? };
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
        gpu: InstanceHandle,
        profile_id: c_uint,
        to: *mut InstanceHandle,
        count: *mut c_uint,
    ) {
        let (device, row) = instance(gpu, Kind::GpuInstance)?;
        check_place(to)?;
        check_place(count)?;
        privileged(&device)?;
        let (slices, _) = sizes(&device, row, profile_id)?;
        let found: Vec<InstanceHandle> = device.shared().read(|state| {
            let engines = mig::engines(state, row).filter(|(_, engine)| engine.profile == slices);
            engines.map(|(row, _)| handle(state, Kind::ComputeInstance, row)).collect()
        })?;
        // SAFETY: the caller's places; the array has room for the profile's instances, by nvml.h.
        unsafe { put_all(&found, to, count) }
    }

    fn nvmlGpuInstanceGetComputeInstanceById(
        gpu: InstanceHandle,
        id: c_uint,
        to: *mut InstanceHandle,
    ) {
        let (device, row) = instance(gpu, Kind::GpuInstance)?;
        check_place(to)?;
        privileged(&device)?;
        let found = device.shared().read(|state| {
            let engine = mig::engines(state, row).find(|(_, engine)| engine.id == id);
            engine.map(|(row, _)| handle(state, Kind::ComputeInstance, row))
        })?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(to, found.ok_or(returns::NOT_FOUND)?) }
    }

    fn nvmlComputeInstanceGetInfo(compute: InstanceHandle, to: *mut u8) {
        check_place(to)?;
        let info = describe(compute)?;
        let bytes = offset_of!(ComputeInstanceInfo, placement);
        // SAFETY: the caller's structure has that many bytes in its first form, and so has ours.
        unsafe { std::ptr::copy_nonoverlapping((&raw const info).cast::<u8>(), to, bytes) };
        Ok(())
    }

    fn nvmlComputeInstanceGetInfo_v2(compute: InstanceHandle, to: *mut ComputeInstanceInfo) {
        check_place(to)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(to, describe(compute)?) }
    }
}

fn create(
    gpu: InstanceHandle,
    profile_id: u32,
    placement: Option<Placement>,
    to: *mut InstanceHandle,
) -> Result<(), Return> {
    let (device, row) = instance(gpu, Kind::GpuInstance)?;
    check_place(to)?;
    privileged(&device)?;
    let (slices, _) = sizes(&device, row, profile_id)?;
    if placement.is_some_and(|place| place.size != slices) {
        return Err(returns::INVALID_ARGUMENT);
    }
    let start = placement.map(|place| place.start);
    let made = device.transact(|state, _| {
        let engine = mig::create_engine_at(state, device.machine(), row, slices, start)?;
        Ok::<_, mig::MigError>(handle(state, Kind::ComputeInstance, engine))
    })??;
    take_time(&device, supported(&device)?)?;
    // SAFETY: the caller's place, checked for null.
    unsafe { put(to, made) }
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
