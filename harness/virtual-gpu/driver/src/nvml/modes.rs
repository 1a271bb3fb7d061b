//! Modes that a device can be in, and confidential computing.

use super::Error;
use super::library::{only_device, privileged};
use super::mig::check_undivided;
use crate::code::refuse;
use crate::device::Device;
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;

/// Who may have a context.
pub fn compute_mode(device: &Device) -> Result<ComputeMode, Error> {
    Ok(device.shared().read(|state| state.compute_mode)?)
}

/// Changes who may have a context.
pub fn set_compute_mode(device: &Device, number: u32) -> Result<(), Error> {
    // NVML_COMPUTEMODE_EXCLUSIVE_THREAD (1) has lost its support (nvml.h).
    let mode = match ComputeMode::of_number(number) {
        Some(mode) => mode,
        None if number == 1 => return Err(Error::NotSupported),
        None => return Err(Error::InvalidArgument),
    };
    check_undivided(device)?;
    privileged(device)?;
    Ok(device.transact(|state, _| state.compute_mode = mode)?)
}

// Confidential computing: whether it is on.
//
// The machine file says so. The model encrypts nothing, and work is accepted in either case.

/// First major compute capability whose drivers answer at all (nvml.h).
const ANSWERED_SINCE: u32 = 8;

/// Environment and feature, as nvml.h numbers them.
pub struct Modes {
    pub environment: u32,
    pub feature: u32,
}

/// `NVML_CC_SYSTEM_ENVIRONMENT_PROD` and `NVML_CC_SYSTEM_FEATURE_ENABLED`, or neither. Devtools
/// mode is for debuggers, of which there are none. A driver before Ampere does not answer (nvml.h),
/// unless the machine file has it on.
pub fn modes() -> Result<Modes, Error> {
    let device = only_device()?;
    let machine = device.machine();
    let is_on = machine.circumstances.confidential_computing;
    refuse(!is_on && machine.compute_capability().0 < ANSWERED_SINCE, Error::NotSupported)?;
    let on = u32::from(is_on);
    Ok(Modes { environment: 2 * on, feature: on })
}
