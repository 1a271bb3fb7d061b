//! Which processes have a context on the device, and how much memory each has.
#![expect(unsafe_code, reason = "the caller's arrays are raw pointers")]

use std::ffi::c_uint;

use super::library::{catch_up_with_the_living, device};
use super::returns::{self, Return};
use super::types::{
    NO_INSTANCE, ProcessDetail, ProcessDetailList, ProcessInfo, ProcessInfoV1, version_of,
};
use super::{DeviceHandle, entries, put, take};
use crate::device::Device;
use crate::memory;

/// First major compute capability whose driver gives the detailed list (nvml.h: Hopper).
const DETAILS_SINCE: u32 = 9;

impl From<ProcessInfo> for ProcessInfoV1 {
    fn from(info: ProcessInfo) -> Self {
        Self {
            pid: info.pid,
            used_gpu_memory: info.used_gpu_memory,
        }
    }
}

impl From<ProcessInfo> for ProcessDetail {
    fn from(info: ProcessInfo) -> Self {
        Self {
            pid: info.pid,
            used_gpu_memory: info.used_gpu_memory,
            gpu_instance_id: info.gpu_instance_id,
            compute_instance_id: info.compute_instance_id,
            used_protected_memory: 0,
        }
    }
}

entries! {
    fn nvmlDeviceGetComputeRunningProcesses(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfoV1,
    ) {
        list(&computing(&*device(handle)?)?, count, infos)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfo,
    ) {
        list(&computing(&*device(handle)?)?, count, infos)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfo,
    ) {
        list(&computing(&*device(handle)?)?, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfoV1,
    ) {
        none_of_that_kind(handle, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfo,
    ) {
        none_of_that_kind(handle, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfo,
    ) {
        none_of_that_kind(handle, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfoV1,
    ) {
        none_of_that_kind(handle, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfo,
    ) {
        none_of_that_kind(handle, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        handle: DeviceHandle,
        count: *mut c_uint,
        infos: *mut ProcessInfo,
    ) {
        none_of_that_kind(handle, count, infos)
    }

    fn nvmlDeviceGetRunningProcessDetailList(
        handle: DeviceHandle,
        details: *mut ProcessDetailList,
    ) {
        let device = device(handle)?;
        // SAFETY: the caller's structure, checked for null.
        let asked = unsafe { take(details)? };
        if asked.version != version_of::<ProcessDetailList>(1) {
            return Err(returns::ARGUMENT_VERSION_MISMATCH);
        }
        if device.machine().compute_capability().0 < DETAILS_SINCE {
            return Err(returns::NOT_SUPPORTED);
        }
        let found = match asked.mode {
            0 => computing(&device)?,
            1 | 2 => Vec::new(),
            _ => return Err(returns::INVALID_ARGUMENT),
        };
        let count = std::mem::offset_of!(ProcessDetailList, entries);
        // SAFETY: a field of the caller's structure.
        let count = unsafe { details.cast::<u8>().add(count) }.cast::<c_uint>();
        list(&found, count, asked.processes)
    }
}

/// Processes with a context, in the order of their slots.
fn computing(device: &Device) -> Result<Vec<ProcessInfo>, Return> {
    catch_up_with_the_living(device)?;
    Ok(device.shared().read(|state| {
        let mut found = Vec::new();
        for (slot, process) in state.processes.live().iter().enumerate() {
            let slot = slot as u32;
            let has_context = state
                .contexts
                .live()
                .iter()
                .any(|c| c.live && c.process == slot);
            if process.pid != 0 && has_context {
                found.push(ProcessInfo {
                    pid: process.pid,
                    used_gpu_memory: memory::process_bytes(state, slot),
                    gpu_instance_id: NO_INSTANCE,
                    compute_instance_id: NO_INSTANCE,
                });
            }
        }
        found
    })?)
}

/// Answers for a kind of process that this device never has.
fn none_of_that_kind<T: From<ProcessInfo>>(
    handle: DeviceHandle,
    count: *mut c_uint,
    infos: *mut T,
) -> Result<(), Return> {
    device(handle)?;
    list(&[], count, infos)
}

/// Fills the caller's array, or says how long it would have to be.
fn list<T: From<ProcessInfo>>(
    found: &[ProcessInfo],
    count: *mut c_uint,
    infos: *mut T,
) -> Result<(), Return> {
    // SAFETY: the caller's place, checked for null.
    let room = unsafe { take(count)? } as usize;
    // SAFETY: the caller's place, checked for null.
    unsafe { put(count, found.len() as c_uint)? };
    if room < found.len() {
        return Err(returns::INSUFFICIENT_SIZE);
    }
    for (index, info) in found.iter().enumerate() {
        // SAFETY: the caller's array has room for `room` elements, and `index < room`.
        unsafe { put(infos.add(index), T::from(*info))? };
    }
    Ok(())
}
