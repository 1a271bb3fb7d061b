//! The health of the memory. The model's never fails: error correction is on and has found nothing.
#![expect(unsafe_code, reason = "the caller's places are raw pointers")]

use std::ffi::c_uint;

use super::library::{Target, device, target};
use super::returns::{self, Return};
use super::types::EccErrorCounts;
use super::{DeviceHandle, check_place, entries, figures, put};

/// First major compute capability that remaps rows; older ones retire pages (nvml.h).
const REMAPS_SINCE: u32 = 8;
/// Kinds of errors (`nvmlMemoryErrorType_t`) and of counters (`nvmlEccCounterType_t`).
const KINDS: u32 = 2;
/// `NVML_VOLATILE_ECC`: counts since the driver was loaded.
const VOLATILE: u32 = 0;
/// Places that can fail (`NVML_MEMORY_LOCATION_COUNT`).
const LOCATIONS: u32 = 8;

figures! {
    fn nvmlDeviceGetDefaultEccMode(_) -> u32 {
        Ok(1)
    }
}

entries! {
    fn nvmlDeviceGetEccMode(handle: DeviceHandle, current: *mut c_uint, pending: *mut c_uint) {
        device(handle)?;
        check_place(current)?;
        check_place(pending)?;
        // SAFETY: the caller's places, checked for null.
        unsafe {
            put(current, 1)?;
            put(pending, 1)
        }
    }

    fn nvmlDeviceGetTotalEccErrors(
        handle: DeviceHandle,
        error: c_uint,
        counter: c_uint,
        count: *mut u64,
    ) {
        check_counter(handle, error, counter)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(count, 0) }
    }

    fn nvmlDeviceGetDetailedEccErrors(
        handle: DeviceHandle,
        error: c_uint,
        counter: c_uint,
        counts: *mut EccErrorCounts,
    ) {
        check_counter(handle, error, counter)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(counts, EccErrorCounts::default()) }
    }

    fn nvmlDeviceGetMemoryErrorCounter(
        handle: DeviceHandle,
        error: c_uint,
        counter: c_uint,
        location: c_uint,
        count: *mut u64,
    ) {
        check_counter(handle, error, counter)?;
        if location >= LOCATIONS {
            return Err(returns::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's place, checked for null.
        unsafe { put(count, 0) }
    }

    fn nvmlDeviceGetRemappedRows(
        handle: DeviceHandle,
        corrected: *mut c_uint,
        uncorrected: *mut c_uint,
        pending: *mut c_uint,
        failed: *mut c_uint,
    ) {
        let device = device(handle)?;
        let places = [corrected, uncorrected, pending, failed];
        for place in places {
            check_place(place)?;
        }
        if device.machine().compute_capability().0 < REMAPS_SINCE {
            return Err(returns::NOT_SUPPORTED);
        }
        for place in places {
            // SAFETY: the caller's places, checked for null.
            unsafe { put(place, 0)? };
        }
        Ok(())
    }
}

/// Whether there is such a counter. MIG devices have volatile ones only.
fn check_counter(handle: DeviceHandle, error: u32, counter: u32) -> Result<(), Return> {
    let (_, target) = target(handle)?;
    if error >= KINDS || counter >= KINDS {
        return Err(returns::INVALID_ARGUMENT);
    }
    if target != Target::Whole && counter != VOLATILE {
        return Err(returns::NOT_SUPPORTED);
    }
    Ok(())
}
