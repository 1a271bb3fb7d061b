//! MIG mode: on, off, or pending.

use std::ffi::c_uint;

use super::{privileged, supported};
use crate::nvml::library::catch_up_with_the_living;
use crate::nvml::returns;
use crate::nvml::target::device;
use crate::nvml::{DeviceHandle, check_not_null, put};
use gpubench_virtual_gpu_model::mig;

entries! {
    fn nvmlDeviceGetMigMode(handle: DeviceHandle, current: *mut c_uint, pending: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(current)?;
        check_not_null(pending)?;
        supported(&device)?;
        let mode = device.shared().read(|state| state.mig)?;
        put(current, c_uint::from(mode.current))?;
        put(pending, c_uint::from(mode.pending))
    }

    fn nvmlDeviceSetMigMode(handle: DeviceHandle, mode: c_uint, status: *mut i32) {
        let device = device(handle)?;
        check_not_null(status)?;
        let on = match mode {
            0 => false,
            1 => true,
            _ => return Err(returns::INVALID_ARGUMENT),
        };
        supported(&device)?;
        privileged(&device)?;
        catch_up_with_the_living(&device)?;
        let machine = device.machine();
        let activation = device.transact(|state, _| mig::request_mode(state, machine, on))?;
        let found = match activation {
            mig::Activation::Done => 0,
            mig::Activation::InUse => returns::IN_USE.0,
            mig::Activation::ResetRequired => returns::RESET_REQUIRED.0,
        };
        put(status, found)
    }
}

figures! {
    fn nvmlDeviceGetMaxMigDeviceCount(device) -> u32 {
        let on = device.shared().read(|state| state.mig.current)?;
        let slices = device.machine().mig.as_ref().map_or(0, |mig| mig.slices);
        Ok(if on { slices } else { 0 })
    }
}
