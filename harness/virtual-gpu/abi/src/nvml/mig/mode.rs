//! MIG mode: on, off, or pending.

use std::ffi::c_uint;

use crate::nvml::returns;
use crate::nvml::{DeviceHandle, check_not_null, put, switch};
use gpubench_virtual_gpu_driver::nvml::mig::mode::{self, Activation};
use gpubench_virtual_gpu_driver::nvml::target::device;

entries! {
    fn nvmlDeviceGetMigMode(handle: DeviceHandle, current: *mut c_uint, pending: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(current)?;
        check_not_null(pending)?;
        let (is_on, will_be_on) = mode::modes(&device)?;
        put(current, c_uint::from(is_on))?;
        put(pending, c_uint::from(will_be_on))
    }

    fn nvmlDeviceSetMigMode(handle: DeviceHandle, mode: c_uint, status: *mut i32) {
        let device = device(handle)?;
        check_not_null(status)?;
        let found = match mode::request(&device, switch(mode)?)? {
            Activation::Done => 0,
            Activation::InUse => returns::IN_USE.0,
            Activation::ResetRequired => returns::RESET_REQUIRED.0,
        };
        put(status, found)
    }
}

figures! {
    fn nvmlDeviceGetMaxMigDeviceCount(device) -> u32 {
        Ok(mode::max_devices(device)?)
    }
}
