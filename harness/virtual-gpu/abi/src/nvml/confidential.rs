//! Confidential computing: what the system can do, what is on, and how memory is divided by it.
//!
//! The machine file says whether it is on. The model encrypts nothing, so that all of the memory is
//! protected while it is on and none of it otherwise, and work is taken in either case.
#![expect(unsafe_code, reason = "the caller's structures are raw pointers")]

use std::ffi::c_uint;
use std::sync::Arc;

use super::library::only_device;
use super::memory::figures_of;
use super::returns::{self, Return};
use super::target::{Target, device};
use super::types::{
    ConfComputeMemSizeInfo, ConfComputeSettings, ConfComputeSystemCaps, ConfComputeSystemState,
    Memory, version_of,
};
use super::{DeviceHandle, check_place, entries, put, take};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::machine::Machine;

/// First major compute capabilities whose drivers answer at all, and that tell the settings; the
/// latter are also the first that can do it (nvml.h; Hopper architecture whitepaper).
const ANSWERED_SINCE: u32 = 8;
const CAPABLE_SINCE: u32 = 9;
/// `NVML_CC_SYSTEM_CPU_CAPS_AMD_SEV_SNP`: whose machine has it on has such a CPU.
const CPU_SEV_SNP: u32 = 3;

entries! {
    fn nvmlSystemGetConfComputeCapabilities(capabilities: *mut ConfComputeSystemCaps) {
        let device = answering()?;
        check_place(capabilities)?;
        let machine = device.machine();
        let is_capable = is_on(machine) || machine.compute_capability().0 >= CAPABLE_SINCE;
        let found = ConfComputeSystemCaps {
            cpu: if is_on(machine) { CPU_SEV_SNP } else { 0 },
            gpus: c_uint::from(is_capable),
        };
        // SAFETY: the caller's place, checked for null.
        unsafe { put(capabilities, found) }
    }

    fn nvmlSystemGetConfComputeState(state: *mut ConfComputeSystemState) {
        let device = answering()?;
        let (environment, feature) = modes(device.machine());
        let found = ConfComputeSystemState { environment, feature, devtools: 0 };
        // SAFETY: the caller's place, checked for null.
        unsafe { put(state, found) }
    }

    fn nvmlSystemGetConfComputeSettings(settings: *mut ConfComputeSettings) {
        let device = answering()?;
        // SAFETY: the caller's structure, checked for null.
        let version = unsafe { take(settings.cast::<u32>())? };
        if version != version_of::<ConfComputeSettings>(1) {
            return Err(returns::ARGUMENT_VERSION_MISMATCH);
        }
        let machine = device.machine();
        if !is_on(machine) && machine.compute_capability().0 < CAPABLE_SINCE {
            return Err(returns::NOT_SUPPORTED);
        }
        let (environment, feature) = modes(machine);
        // NVML_CC_SYSTEM_MULTIGPU_NONE: there is one device.
        let found =
            ConfComputeSettings { version, environment, feature, devtools: 0, multi_gpu: 0 };
        // SAFETY: as above.
        unsafe { put(settings, found) }
    }

    fn nvmlSystemGetConfComputeGpusReadyState(is_accepting: *mut c_uint) {
        answering()?;
        // NVML_CC_ACCEPTING_CLIENT_REQUESTS_TRUE: the model refuses nobody for it.
        // SAFETY: the caller's place, checked for null.
        unsafe { put(is_accepting, 1) }
    }

    fn nvmlDeviceGetConfComputeMemSizeInfo(
        handle: DeviceHandle,
        sizes: *mut ConfComputeMemSizeInfo,
    ) {
        let device = answered_by(handle)?;
        check_place(sizes)?;
        let total_kib = figures_of(&device, Target::Whole)?.total >> 10;
        let protected_kib = if is_on(device.machine()) { total_kib } else { 0 };
        let unprotected_kib = total_kib - protected_kib;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(sizes, ConfComputeMemSizeInfo { protected_kib, unprotected_kib }) }
    }

    fn nvmlDeviceGetConfComputeProtectedMemoryUsage(handle: DeviceHandle, memory: *mut Memory) {
        let device = answered_by(handle)?;
        check_place(memory)?;
        let found = if is_on(device.machine()) {
            let now = figures_of(&device, Target::Whole)?;
            Memory { total: now.total, free: now.free, used: now.total - now.free }
        } else {
            Memory::default()
        };
        // SAFETY: the caller's place, checked for null.
        unsafe { put(memory, found) }
    }
}

fn is_on(machine: &Machine) -> bool {
    machine.circumstances.confidential_computing
}

/// Environment and feature: `NVML_CC_SYSTEM_ENVIRONMENT_PROD` and `NVML_CC_SYSTEM_FEATURE_ENABLED`,
/// or neither. Devtools mode is for debuggers, of which there are none.
fn modes(machine: &Machine) -> (u32, u32) {
    let on = u32::from(is_on(machine));
    (2 * on, on)
}

/// The device, on a machine whose driver answers such questions: of Ampere or newer (nvml.h), or
/// whose file has it on.
fn answering() -> Result<Arc<Device>, Return> {
    let device = only_device()?;
    answers(&device)
        .then_some(device)
        .ok_or(returns::NOT_SUPPORTED)
}

fn answered_by(handle: DeviceHandle) -> Result<Arc<Device>, Return> {
    let device = device(handle)?;
    answers(&device)
        .then_some(device)
        .ok_or(returns::NOT_SUPPORTED)
}

fn answers(device: &Device) -> bool {
    let machine = device.machine();
    is_on(machine) || machine.compute_capability().0 >= ANSWERED_SINCE
}
