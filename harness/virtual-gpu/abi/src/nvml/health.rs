//! Memory errors.

use std::ffi::c_uint;

use super::types::{EccErrorCounts, EccSramErrorStatus, RowRemapperHistogram};
use super::{DeviceHandle, check_not_null, check_version, put};
use gpubench_virtual_gpu_driver::nvml::health::{self, Reserves, errors};
use gpubench_virtual_gpu_driver::nvml::target::{device, target};

figures! {
    fn nvmlDeviceGetDefaultEccMode(device) -> u32 {
        health::has_ecc(device)?;
        Ok(1)
    }

    fn nvmlDeviceGetRowRemapperHistogram(device) -> RowRemapperHistogram {
        let Reserves { max, high } = health::reserves(device)?;
        Ok(RowRemapperHistogram { max, high, ..RowRemapperHistogram::default() })
    }
}

entries! {
    fn nvmlDeviceGetEccMode(handle: DeviceHandle, current: *mut c_uint, pending: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(current)?;
        check_not_null(pending)?;
        health::has_ecc(&device)?;
        put(current, 1)?;
        put(pending, 1)
    }

    fn nvmlDeviceGetTotalEccErrors(
        handle: DeviceHandle, error: c_uint, counter: c_uint, count: *mut u64,
    ) {
        check_not_null(count)?;
        let (device, target) = target(handle)?;
        put(count, errors(&device, target, error, counter)?)
    }

    fn nvmlDeviceGetDetailedEccErrors(
        handle: DeviceHandle, error: c_uint, counter: c_uint, counts: *mut EccErrorCounts,
    ) {
        check_not_null(counts)?;
        let (device, target) = target(handle)?;
        let device_memory = errors(&device, target, error, counter)?;
        put(counts, EccErrorCounts { device_memory, ..EccErrorCounts::default() })
    }

    fn nvmlDeviceGetMemoryErrorCounter(
        handle: DeviceHandle, error: c_uint, counter: c_uint, location: c_uint, count: *mut u64,
    ) {
        check_not_null(count)?;
        let (device, target) = target(handle)?;
        let all = errors(&device, target, error, counter)?;
        put(count, health::errors_at(location, all)?)
    }

    fn nvmlDeviceGetSramEccErrorStatus(handle: DeviceHandle, status: *mut EccSramErrorStatus) {
        let device = device(handle)?;
        let version = check_version(status, 1)?;
        health::check_sram(&device)?;
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
        for (place, found) in places.into_iter().zip(health::remapped(&device)?) {
            put(place, found)?;
        }
        Ok(())
    }
}
