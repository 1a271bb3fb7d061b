//! Clocks, performance state, and why clocks are held back.

use std::ffi::c_uint;

use super::returns::{self, Return};
use super::types::ViolationTime;
use super::{DeviceHandle, check_not_null, put, put_list};
use gpubench_virtual_gpu_driver::nvml::clocks::{self, Which, clock_mhz};
use gpubench_virtual_gpu_driver::nvml::target::device;

entries! {
    fn nvmlDeviceGetClockInfo(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::Now, mhz)
    }

    fn nvmlDeviceGetMaxClockInfo(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::Max, mhz)
    }

    fn nvmlDeviceGetApplicationsClock(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::Application, mhz)
    }

    fn nvmlDeviceGetDefaultApplicationsClock(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::Default, mhz)
    }

    fn nvmlDeviceGetMaxCustomerBoostClock(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::CustomerBoost, mhz)
    }

    fn nvmlDeviceGetClock(handle: DeviceHandle, kind: c_uint, id: c_uint, mhz: *mut c_uint) {
        match id {
            // NVML_CLOCK_ID_CURRENT, APP_CLOCK_TARGET and APP_CLOCK_DEFAULT.
            0 => put_clock(handle, kind, Which::Now, mhz),
            1 => put_clock(handle, kind, Which::Application, mhz),
            2 => put_clock(handle, kind, Which::Default, mhz),
            3 => put_clock(handle, kind, Which::CustomerBoost, mhz),
            _ => Err(returns::INVALID_ARGUMENT),
        }
    }

    fn nvmlDeviceGetViolationStatus(handle: DeviceHandle, policy: c_uint, to: *mut ViolationTime) {
        let device = device(handle)?;
        check_not_null(to)?;
        let (reference_us, violation_ns) = clocks::violation(&device, policy)?;
        put(to, ViolationTime { reference_us, violation_ns })
    }

    fn nvmlDeviceGetSupportedMemoryClocks(
        handle: DeviceHandle, count: *mut c_uint, mhz: *mut c_uint,
    ) {
        put_list(&[device(handle)?.machine().gpu.memory_clock_mhz], count, mhz)
    }

    fn nvmlDeviceGetSupportedGraphicsClocks(
        handle: DeviceHandle, memory_mhz: c_uint, count: *mut c_uint, mhz: *mut c_uint,
    ) {
        let device = device(handle)?;
        put_list(&clocks::graphics_mhz(device.machine(), memory_mhz)?, count, mhz)
    }
}

figures! {
    fn nvmlDeviceGetPerformanceState(_) -> u32 {
        // NVML_PSTATE_0: the clocks never go down.
        Ok(0)
    }

    fn nvmlDeviceGetPowerState(_) -> u32 {
        Ok(0)
    }

    fn nvmlDeviceGetCurrentClocksEventReasons,
        nvmlDeviceGetCurrentClocksThrottleReasons(device) -> u64 {
        Ok(clocks::reasons(device)?)
    }

    fn nvmlDeviceGetSupportedClocksEventReasons,
        nvmlDeviceGetSupportedClocksThrottleReasons(_) -> u64 {
        Ok(clocks::ALL_REASONS)
    }
}

/// Stores a clock.
unsafe fn put_clock(
    handle: DeviceHandle,
    kind: u32,
    which: Which,
    mhz: *mut c_uint,
) -> Result<(), Return> {
    let device = device(handle)?;
    check_not_null(mhz)?;
    put(mhz, clock_mhz(&device, kind, which)?)
}
