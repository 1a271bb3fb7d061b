//! Modes that a device can be in.

use super::Error;
use super::library::privileged;
use super::mig::check_undivided;
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
