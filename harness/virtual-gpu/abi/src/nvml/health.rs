//! Memory errors. The model's memory never fails by itself: error counts are those that the machine
//! file plants after fatal faults.

use std::ffi::c_uint;

use super::mig::privileged;
use super::returns::{self, Return};
use super::target::{Target, device, target};
use super::types::{EccErrorCounts, EccSramErrorStatus, RowRemapperHistogram};
use super::{DeviceHandle, check_not_null, check_version, put};
use gpubench_virtual_gpu_driver::device::Device;

/// First major compute capability that remaps rows; older ones retire pages (nvml.h).
const REMAPS_SINCE: u32 = 8;
/// An H100 of 80 GiB has 2560 banks, and an A100 with one row remapped tells one bank as high and
/// none as less (both as `nvidia-smi -q` prints them).
const BANKS_PER_GIB: u64 = 32;
/// Kinds of errors (`nvmlMemoryErrorType_t`) and of counters (`nvmlEccCounterType_t`).
const KINDS: u32 = 2;
/// `NVML_MEMORY_ERROR_TYPE_CORRECTED`; the other kind is uncorrected.
pub(super) const CORRECTED: u32 = 0;
/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`.
pub(super) const UNCORRECTED: u32 = 1;
/// `NVML_VOLATILE_ECC`: counts since the driver was loaded.
const VOLATILE: u32 = 0;
/// `NVML_MEMORY_LOCATION_COUNT`, and the location of planted errors (`NVML_MEMORY_LOCATION_DRAM`).
const LOCATIONS: u32 = 8;
const DRAM: u32 = 2;

figures! {
    fn nvmlDeviceGetDefaultEccMode(device) -> u32 {
        has_ecc(device)?;
        Ok(1)
    }

    fn nvmlDeviceGetRowRemapperHistogram(device) -> RowRemapperHistogram {
        let [_, rows, ..] = remapped(device)?;
        let banks = banks(device);
        // No two planted rows lie in one bank, until there are more rows than banks.
        let high = rows.min(banks);
        Ok(RowRemapperHistogram { max: banks - high, high, ..RowRemapperHistogram::default() })
    }
}

entries! {
    fn nvmlDeviceGetEccMode(handle: DeviceHandle, current: *mut c_uint, pending: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(current)?;
        check_not_null(pending)?;
        has_ecc(&device)?;
        put(current, 1)?;
        put(pending, 1)
    }

    fn nvmlDeviceGetTotalEccErrors(
        handle: DeviceHandle, error: c_uint, counter: c_uint, count: *mut u64,
    ) {
        check_not_null(count)?;
        let found = errors(handle, error, counter)?;
        put(count, found)
    }

    fn nvmlDeviceGetDetailedEccErrors(
        handle: DeviceHandle, error: c_uint, counter: c_uint, counts: *mut EccErrorCounts,
    ) {
        check_not_null(counts)?;
        let found = EccErrorCounts {
            device_memory: errors(handle, error, counter)?,
            ..EccErrorCounts::default()
        };
        put(counts, found)
    }

    fn nvmlDeviceGetMemoryErrorCounter(
        handle: DeviceHandle, error: c_uint, counter: c_uint, location: c_uint, count: *mut u64,
    ) {
        check_not_null(count)?;
        let found = errors(handle, error, counter)?;
        if location >= LOCATIONS {
            return Err(returns::INVALID_ARGUMENT);
        }
        let there = if location == DRAM { found } else { 0 };
        put(count, there)
    }

    fn nvmlDeviceGetSramEccErrorStatus(handle: DeviceHandle, status: *mut EccSramErrorStatus) {
        let device = device(handle)?;
        let version = check_version(status, 1)?;
        remaps_rows(&device)?;
        privileged(&device)?;
        // What the machine plants, it plants in DRAM.
        put(status, EccSramErrorStatus { version, ..EccSramErrorStatus::default() })
    }

    fn nvmlDeviceGetRemappedRows(
        handle: DeviceHandle, corrected: *mut c_uint, uncorrected: *mut c_uint,
        pending: *mut c_uint, failed: *mut c_uint,
    ) {
        let device = device(handle)?;
        let places = [corrected, uncorrected, pending, failed];
        for place in places {
            check_not_null(place)?;
        }
        let rows = remapped(&device)?;
        for (place, found) in places.into_iter().zip(rows) {
            put(place, found)?;
        }
        Ok(())
    }
}

/// Banks of the memory.
fn banks(device: &Device) -> u32 {
    let gib = device.machine().memory.total_mib.div_ceil(1 << 10);
    let banks = gib * BANKS_PER_GIB;
    u32::try_from(banks).unwrap_or(u32::MAX)
}

/// Rows remapped for corrected and for uncorrected errors, whether one waits for a reset, and
/// whether a remapping failed.
pub(super) fn remapped(device: &Device) -> Result<[u32; 4], Return> {
    remaps_rows(device)?;
    let faults = device.shared().read(|state| state.fatal_faults)?;
    let pending = faults > 0 && device.machine().defects.fault_remap_pending;
    let rows = if pending { faults } else { 0 };
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    Ok([0, rows, u32::from(pending), 0])
}

/// Errors of a kind that a counter has. MIG devices have volatile counters only. Nothing happened
/// to this memory before its driver was loaded, so both counters are the same.
fn errors(handle: DeviceHandle, error: u32, counter: u32) -> Result<u64, Return> {
    let (device, target) = target(handle)?;
    if error >= KINDS || counter >= KINDS {
        return Err(returns::INVALID_ARGUMENT);
    }
    has_ecc(&device)?;
    if target != Target::Whole && counter != VOLATILE {
        return Err(returns::NOT_SUPPORTED);
    }
    errors_found(&device, error)
}

/// Errors of a kind that the device has found.
pub(super) fn errors_found(device: &Device, error: u32) -> Result<u64, Return> {
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
fn remaps_rows(device: &Device) -> Result<(), Return> {
    has_ecc(device)?;
    if device.machine().compute_capability().0 < REMAPS_SINCE {
        return Err(returns::NOT_SUPPORTED);
    }
    Ok(())
}

pub(super) fn has_ecc(device: &Device) -> Result<(), Return> {
    if device.machine().memory.ecc {
        Ok(())
    } else {
        Err(returns::NOT_SUPPORTED)
    }
}
