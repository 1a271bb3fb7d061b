//! MIG devices: compute instances under handles that stand in for the device's own.

use std::ffi::c_uint;
use std::mem::offset_of;

use super::profile::described;
use super::slice::{name_of, profile_of};
use super::types::DeviceAttributes;
use super::{Kind, handle, supported};
use crate::arguments::put_prefix;
use crate::nvml::library::device_handle;
use crate::nvml::returns::{self, Return};
use crate::nvml::target::{Target, device, target};
use crate::nvml::{DeviceHandle, check_not_null, put};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::mig;
use gpubench_virtual_gpu_model::state::{State, WHOLE};

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
        let mig = supported(&device)?;
        if index >= mig.slices {
            return Err(returns::INVALID_ARGUMENT);
        }
        let found = device.shared().read(|state| {
            let row = in_order(state).get(index as usize).copied();
            row.map(|row| handle(state, Kind::Device, row))
        })?;
        put(to, found.ok_or(returns::NOT_FOUND)?)
    }

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle: DeviceHandle, to: *mut DeviceHandle) {
        engine(handle)?;
        put(to, device_handle())
    }

    fn nvmlDeviceGetGpuInstanceId(handle: DeviceHandle, id: *mut c_uint) {
        let (device, row) = engine(handle)?;
        check_not_null(id)?;
        let found = device.shared().read(|state| ids(state, row))?;
        put(id, found.0)
    }

    fn nvmlDeviceGetComputeInstanceId(handle: DeviceHandle, id: *mut c_uint) {
        let (device, row) = engine(handle)?;
        check_not_null(id)?;
        let found = device.shared().read(|state| ids(state, row))?;
        put(id, found.1)
    }

    fn nvmlDeviceGetAttributes(handle: DeviceHandle, to: *mut u8) {
        check_not_null(to)?;
        let found = attributes(handle)?;
        // The first form ends before the memory.
        put_prefix(to, offset_of!(DeviceAttributes, memory_size_mib), &found);
        Ok(())
    }

    fn nvmlDeviceGetAttributes_v2(handle: DeviceHandle, to: *mut DeviceAttributes) {
        check_not_null(to)?;
        put(to, attributes(handle)?)
    }
}

/// The rows of all compute instances in the order in which programs count them: by GPU instance,
/// then by compute instance.
fn in_order(state: &State) -> Vec<u32> {
    let live = state.engines.live().iter().enumerate().skip(1);
    let mut rows: Vec<u32> = live
        .filter(|(_, engine)| engine.live)
        .map(|(row, _)| row as u32)
        .collect();
    rows.sort_by_key(|&row| ids(state, row));
    rows
}

/// The index under which programs find a compute instance.
pub(in crate::nvml) fn index(state: &State, row: u32) -> u32 {
    let before = in_order(state)
        .into_iter()
        .take_while(|&other| other != row);
    before.count() as u32
}

/// Ids of the GPU instance and of the compute instance behind a row; none for the whole device.
pub(in crate::nvml) fn ids(state: &State, row: u32) -> (u32, u32) {
    if row == WHOLE {
        let none = crate::nvml::types::NO_INSTANCE;
        return (none, none);
    }
    let engine = &state.engines.rows[row as usize];
    (state.instances.rows[engine.instance as usize].id, engine.id)
}

/// The name of a MIG device: the product and the size.
pub(in crate::nvml) fn name(device: &Device, row: u32) -> Result<String, Return> {
    let (instance, slices) = device.shared().read(|state| part(state, row))?;
    let size = name_of(profile_of(device, instance)?, slices);
    Ok(format!("{} MIG {size}", device.machine().gpu.product))
}

/// Row of the GPU instance of a compute instance, and slices of the latter.
fn part(state: &State, row: u32) -> (u32, u32) {
    let engine = &state.engines.rows[row as usize];
    (engine.instance, engine.profile)
}

/// The row behind the handle of a MIG device; the whole device is none.
fn engine(handle: DeviceHandle) -> Result<(std::sync::Arc<Device>, u32), Return> {
    match target(handle)? {
        (device, Target::Engine(row)) => Ok((device, row)),
        (device, Target::Whole) => {
            supported(&device)?;
            Err(returns::INVALID_ARGUMENT)
        }
    }
}

fn attributes(handle: DeviceHandle) -> Result<DeviceAttributes, Return> {
    // Only MIG devices have them (nvml.h).
    let (device, row) = match target(handle)? {
        (device, Target::Engine(row)) => (device, row),
        (_, Target::Whole) => return Err(returns::NOT_SUPPORTED),
    };
    let (instance, slices) = device.shared().read(|state| part(state, row))?;
    let profile = profile_of(&device, instance)?;
    let whole = described(device.machine(), supported(&device)?, profile);
    Ok(DeviceAttributes {
        multiprocessor_count: mig::engine_sms(whole.multiprocessor_count, slices, profile.slices),
        shared_copy_engine_count: whole.copy_engine_count,
        shared_decoder_count: whole.decoder_count,
        shared_encoder_count: whole.encoder_count,
        shared_jpeg_count: whole.jpeg_count,
        shared_ofa_count: whole.ofa_count,
        gpu_instance_slice_count: profile.slices,
        compute_instance_slice_count: slices,
        memory_size_mib: whole.memory_size_mib,
    })
}
