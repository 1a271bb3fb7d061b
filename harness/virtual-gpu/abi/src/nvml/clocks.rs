//! Clocks, performance state, and why clocks are held back.

use std::ffi::c_uint;

use super::returns::Return;
use super::{DeviceHandle, check_not_null, put};
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
}

figures! {
    fn nvmlDeviceGetPerformanceState(_) -> u32 {
        // NVML_PSTATE_0: the clocks never go down.
        Ok(0)
    }

    fn nvmlDeviceGetCurrentClocksEventReasons,
        nvmlDeviceGetCurrentClocksThrottleReasons(device) -> u64 {
        Ok(clocks::reasons(device)?)
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
