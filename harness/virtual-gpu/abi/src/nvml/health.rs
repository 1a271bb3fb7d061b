//! Memory errors.

use std::ffi::c_uint;

use super::{DeviceHandle, check_not_null, put};
use gpubench_virtual_gpu_driver::nvml::health::{self, errors};
use gpubench_virtual_gpu_driver::nvml::target::{device, target};

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
}
