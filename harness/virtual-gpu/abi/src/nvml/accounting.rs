//! Accounting: what each process used over its life, also after its end.

use std::ffi::c_uint;

use super::types::AccountingStats;
use super::{DeviceHandle, check_not_null, put, put_list, switch};
use gpubench_virtual_gpu_driver::nvml::accounting;
use gpubench_virtual_gpu_driver::nvml::target::device;

figures! {
    fn nvmlDeviceGetAccountingMode(device) -> u32 {
        Ok(u32::from(accounting::is_on(device)?))
    }

    fn nvmlDeviceGetAccountingBufferSize(_) -> u32 {
        Ok(accounting::KEPT as u32)
    }
}

entries! {
    fn nvmlDeviceSetAccountingMode(handle: DeviceHandle, mode: c_uint) {
        let device = device(handle)?;
        Ok(accounting::set_mode(&device, switch(mode)?)?)
    }

    fn nvmlDeviceClearAccountingPids(handle: DeviceHandle) {
        Ok(accounting::clear(&*device(handle)?)?)
    }

    fn nvmlDeviceGetAccountingPids(handle: DeviceHandle, count: *mut c_uint, pids: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(count)?;
        put_list(&accounting::pids(&device)?, count, pids)
    }

    fn nvmlDeviceGetAccountingStats(handle: DeviceHandle, pid: c_uint, to: *mut AccountingStats) {
        let device = device(handle)?;
        check_not_null(to)?;
        let found = accounting::of_process(&device, pid)?;
        let stats = AccountingStats {
            gpu_utilization: found.gpu_percent,
            memory_utilization: found.memory_percent,
            max_memory_usage: found.peak_bytes,
            time_ms: found.time_ms,
            start_time_us: found.start_us,
            is_running: u32::from(found.is_running),
            reserved: [0; 5],
        };
        put(to, stats)
    }
}
