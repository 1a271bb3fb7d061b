//! Memory errors. The model's memory never fails by itself: error counts are those that the machine
//! file plants after fatal faults.

use super::Error;
use super::library::Target;
use crate::code::refuse;
use crate::device::Device;

/// First major compute capability that remaps rows; older ones retire pages (nvml.h).
const REMAPS_SINCE: u32 = 8;
/// Kinds of errors (`nvmlMemoryErrorType_t`) and of counters (`nvmlEccCounterType_t`).
const KINDS: u32 = 2;
/// `NVML_MEMORY_ERROR_TYPE_CORRECTED`; the other kind is uncorrected.
pub(super) const CORRECTED: u32 = 0;
/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`.
pub(super) const UNCORRECTED: u32 = 1;
/// `NVML_VOLATILE_ECC`: counts since the driver was loaded.
const VOLATILE: u32 = 0;
/// Errors of a kind that a counter has. MIG devices have volatile counters only. Nothing happened
/// to this memory before its driver was loaded, so both counters are the same.
pub fn errors(device: &Device, target: Target, error: u32, counter: u32) -> Result<u64, Error> {
    refuse(error >= KINDS || counter >= KINDS, Error::InvalidArgument)?;
    has_ecc(device)?;
    refuse(target != Target::Whole && counter != VOLATILE, Error::NotSupported)?;
    errors_found(device, error)
}

/// Rows remapped for corrected and for uncorrected errors, whether one waits for a reset, and
/// whether a remapping failed.
pub(super) fn remapped(device: &Device) -> Result<[u32; 4], Error> {
    remaps_rows(device)?;
    let faults = device.shared().read(|state| state.fatal_faults)?;
    let pending = faults > 0 && device.machine().defects.fault_remap_pending;
    let rows = if pending { faults } else { 0 };
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    Ok([0, rows, u32::from(pending), 0])
}

pub(super) fn errors_found(device: &Device, error: u32) -> Result<u64, Error> {
    has_ecc(device)?;
    let defects = &device.machine().defects;
    let each = if error == CORRECTED {
        defects.fault_ecc_corrected
    } else {
        defects.fault_ecc_uncorrected
    };
    let faults = device.shared().read(|state| state.fatal_faults)?;
    Ok(faults * u64::from(each))
}

/// Refuses on chips before Ampere, which neither remap rows nor tell the errors of their SRAM apart
/// (nvml.h), and without error correction.
fn remaps_rows(device: &Device) -> Result<(), Error> {
    has_ecc(device)?;
    refuse(device.machine().compute_capability().0 < REMAPS_SINCE, Error::NotSupported)?;
    Ok(())
}

/// Refuses without error correction.
pub fn has_ecc(device: &Device) -> Result<(), Error> {
    if device.machine().memory.ecc { Ok(()) } else { Err(Error::NotSupported) }
}
