//! MIG calls with results instead of output pointers.
#![expect(unsafe_code, reason = "the interfaces under test are C interfaces")]

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::mig::InstanceHandle;
use gpubench_virtual_gpu_abi::nvml::mig::types::{ComputeInstanceInfo, Placement};

use super::{Error, ok};
use crate::driver_support::call;

/// Profile ids of `3g.40gb` and of a compute instance of all its slices.
pub const THREE: u32 = 9;
pub const THREE_SLICES: u32 = 2;

/// Success with the stored value, or the code.
pub fn out<T>(empty: T, call: impl FnOnce(*mut T) -> i32) -> Result<T, i32> {
    let mut place = empty;
    match call(&raw mut place) {
        0 => Ok(place),
        code => Err(code),
    }
}

/// Sets the mode; returns the activation status.
pub fn set_mode(device: DeviceHandle, mode: u32) -> Result<i32, i32> {
    out(-1, |place| call!(nvmlDeviceSetMigMode(device, mode, place)))
}

/// The current and the pending mode.
pub fn mode(device: DeviceHandle) -> Result<(u32, u32), i32> {
    let mut pending = 9;
    let current = out(9, |place| call!(nvmlDeviceGetMigMode(device, place, &raw mut pending)))?;
    Ok((current, pending))
}

/// Creates a GPU instance, at the first free start or at this one.
pub fn create(
    device: DeviceHandle,
    profile: u32,
    place: Option<(u32, u32)>,
) -> Result<InstanceHandle, i32> {
    let place = place.map(|(start, size)| Placement { start, size });
    // SAFETY: valid pointers.
    out(null_mut(), |to| unsafe {
        match &place {
            None => nvmlDeviceCreateGpuInstance(device, profile, to),
            Some(place) => nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, place, to),
        }
    })
}

/// Creates a compute instance at the first free start.
pub fn create_compute(gpu: InstanceHandle, profile: u32) -> Result<InstanceHandle, i32> {
    out(null_mut(), |to| call!(nvmlGpuInstanceCreateComputeInstance(gpu, profile, to)))
}

/// NVML's description of a compute instance.
pub fn describe_compute(compute: InstanceHandle) -> Result<ComputeInstanceInfo, i32> {
    let empty = ComputeInstanceInfo {
        device: null_mut(),
        gpu_instance: null_mut(),
        id: 99,
        profile_id: 99,
        placement: Placement::default(),
    };
    out(empty, |place| call!(nvmlComputeInstanceGetInfo_v2(compute, place)))
}

/// A GPU instance of three slices with one compute instance, and its MIG device.
pub struct Filled {
    pub gpu: InstanceHandle,
    pub compute: InstanceHandle,
    pub device: DeviceHandle,
}

pub fn filled(device: DeviceHandle) -> Result<Filled, Error> {
    let gpu = create(device, THREE, None).map_err(|code| format!("instance: {code}"))?;
    let compute = create_compute(gpu, THREE_SLICES).map_err(|code| format!("CI: {code}"))?;
    let device = describe_compute(compute).map_err(|code| format!("info: {code}"))?.device;
    Ok(Filled { gpu, compute, device })
}

/// The device in MIG mode.
pub fn divided() -> Result<DeviceHandle, Error> {
    let device = super::nvml_device()?;
    ok(set_mode(device, 1).map_err(|code| format!("mode: {code}"))?)?;
    Ok(device)
}
