//! Confidential computing: what the system can do, what is on, and how memory is divided by it.
//!
//! The machine file says whether it is on. The model encrypts nothing: all of the memory counts as
//! protected while it is on and none of it otherwise, and work is accepted in either case.

use std::sync::Arc;

use super::Error;
use super::library::only_device;
use super::memory::{MemoryUse, use_of};
use super::target::Target;
use crate::device::Device;
use gpubench_virtual_gpu_model::machine::Machine;

/// First major compute capability whose drivers answer at all, and the first that can do it, which
/// also reports the settings (nvml.h; Hopper architecture whitepaper).
const ANSWERED_SINCE: u32 = 8;
const CAPABLE_SINCE: u32 = 9;
/// `NVML_CC_SYSTEM_CPU_CAPS_AMD_SEV_SNP`, reported where confidential computing is on.
const CPU_SEV_SNP: u32 = 3;

/// Environment and feature, as nvml.h numbers them.
pub struct Modes {
    pub environment: u32,
    pub feature: u32,
}

/// Memory with and without protection.
pub struct Sizes {
    pub protected_kib: u64,
    pub unprotected_kib: u64,
}

/// What the processor can do, and whether the GPU can.
pub fn capabilities(device: &Device) -> (u32, bool) {
    let is_on = is_on(device.machine());
    let cpu = if is_on { CPU_SEV_SNP } else { 0 };
    (cpu, can_be_on(device.machine()))
}

/// `NVML_CC_SYSTEM_ENVIRONMENT_PROD` and `NVML_CC_SYSTEM_FEATURE_ENABLED`, or neither. Devtools
/// mode is for debuggers, of which there are none.
pub fn modes(device: &Device) -> Modes {
    let on = u32::from(is_on(device.machine()));
    Modes {
        environment: 2 * on,
        feature: on,
    }
}

/// The modes, where the settings are reported.
pub fn settings(device: &Device) -> Result<Modes, Error> {
    if can_be_on(device.machine()) {
        Ok(modes(device))
    } else {
        Err(Error::NotSupported)
    }
}

/// How the memory is divided.
pub fn sizes(device: &Device) -> Result<Sizes, Error> {
    check_answers(device)?;
    let total_kib = use_of(device, Target::Whole)?.total >> 10;
    let protected_kib = if is_on(device.machine()) {
        total_kib
    } else {
        0
    };
    Ok(Sizes {
        protected_kib,
        unprotected_kib: total_kib - protected_kib,
    })
}

/// The protected memory, and its use.
pub fn protected(device: &Device) -> Result<MemoryUse, Error> {
    check_answers(device)?;
    if is_on(device.machine()) {
        use_of(device, Target::Whole)
    } else {
        Ok(MemoryUse::default())
    }
}

/// The device, if its driver answers.
pub fn answering() -> Result<Arc<Device>, Error> {
    let device = only_device()?;
    check_answers(&device)?;
    Ok(device)
}

fn can_be_on(machine: &Machine) -> bool {
    is_on(machine) || machine.compute_capability().0 >= CAPABLE_SINCE
}

fn is_on(machine: &Machine) -> bool {
    machine.circumstances.confidential_computing
}

/// Refuses on a machine before Ampere (nvml.h), unless its file has confidential computing on.
fn check_answers(device: &Device) -> Result<(), Error> {
    let machine = device.machine();
    if is_on(machine) || machine.compute_capability().0 >= ANSWERED_SINCE {
        Ok(())
    } else {
        Err(Error::NotSupported)
    }
}
