//! Confidential computing: what the system can do, what is on, and how memory is divided by it.
//!
//! The machine file says whether it is on. The model encrypts nothing: all of the memory counts as
//! protected while it is on and none of it otherwise, and work is accepted in either case.

use std::ffi::c_uint;
use std::sync::Arc;

use super::library::only_device;
use super::memory::figures_of;
use super::returns::{self, Return};
use super::target::Target;
use super::types::{
    ConfComputeMemSizeInfo, ConfComputeSettings, ConfComputeSystemCaps, ConfComputeSystemState,
    Memory, MemoryV2,
};
use super::{check_not_null, check_version, put};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::machine::Machine;

/// First major compute capability whose drivers answer at all, and the first that can do it, which
/// also reports the settings (nvml.h; Hopper architecture whitepaper).
const ANSWERED_SINCE: u32 = 8;
const CAPABLE_SINCE: u32 = 9;
/// `NVML_CC_SYSTEM_CPU_CAPS_AMD_SEV_SNP`, reported where confidential computing is on.
const CPU_SEV_SNP: u32 = 3;

entries! {
    fn nvmlSystemGetConfComputeCapabilities(capabilities: *mut ConfComputeSystemCaps) {
        let device = answering()?;
        check_not_null(capabilities)?;
        let machine = device.machine();
        let is_capable = is_on(machine) || machine.compute_capability().0 >= CAPABLE_SINCE;
        let found = ConfComputeSystemCaps {
            cpu: if is_on(machine) { CPU_SEV_SNP } else { 0 },
            gpus: c_uint::from(is_capable),
        };
        put(capabilities, found)
    }

    fn nvmlSystemGetConfComputeState(state: *mut ConfComputeSystemState) {
        let device = answering()?;
        let (environment, feature) = modes(device.machine());
        put(state, ConfComputeSystemState { environment, feature, devtools: 0 })
    }

    fn nvmlSystemGetConfComputeSettings(settings: *mut ConfComputeSettings) {
        let device = answering()?;
        let version = check_version(settings, 1)?;
        let machine = device.machine();
        if !is_on(machine) && machine.compute_capability().0 < CAPABLE_SINCE {
            return Err(returns::NOT_SUPPORTED);
        }
        let (environment, feature) = modes(machine);
        // NVML_CC_SYSTEM_MULTIGPU_NONE: there is one device.
        let found =
            ConfComputeSettings { version, environment, feature, devtools: 0, multi_gpu: 0 };
        put(settings, found)
    }

    fn nvmlSystemGetConfComputeGpusReadyState(is_accepting: *mut c_uint) {
        answering()?;
        // NVML_CC_ACCEPTING_CLIENT_REQUESTS_TRUE: the model refuses no client for it.
        put(is_accepting, 1)
    }

}

figures! {
    fn nvmlDeviceGetConfComputeMemSizeInfo(device) -> ConfComputeMemSizeInfo {
        check_answers(device)?;
        let total_kib = figures_of(device, Target::Whole)?.total >> 10;
        let protected_kib = if is_on(device.machine()) { total_kib } else { 0 };
        Ok(ConfComputeMemSizeInfo { protected_kib, unprotected_kib: total_kib - protected_kib })
    }

    fn nvmlDeviceGetConfComputeProtectedMemoryUsage(device) -> Memory {
        check_answers(device)?;
        if !is_on(device.machine()) {
            return Ok(Memory::default());
        }
        let MemoryV2 { total, free, .. } = figures_of(device, Target::Whole)?;
        Ok(Memory { total, free, used: total - free })
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

/// The device, if its driver answers.
fn answering() -> Result<Arc<Device>, Return> {
    let device = only_device()?;
    check_answers(&device)?;
    Ok(device)
}

/// Refuses on a machine before Ampere (nvml.h), unless its file has confidential computing on.
fn check_answers(device: &Device) -> Result<(), Return> {
    let machine = device.machine();
    if is_on(machine) || machine.compute_capability().0 >= ANSWERED_SINCE {
        Ok(())
    } else {
        Err(returns::NOT_SUPPORTED)
    }
}
