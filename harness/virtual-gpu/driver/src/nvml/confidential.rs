//! Confidential computing: whether it is on.
//!
//! The machine file says so. The model encrypts nothing, and work is accepted in either case.

use super::Error;
use super::library::only_device;

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
    if !is_on && machine.compute_capability().0 < ANSWERED_SINCE {
        return Err(Error::NotSupported);
    }
    let on = u32::from(is_on);
    Ok(Modes { environment: 2 * on, feature: on })
}
