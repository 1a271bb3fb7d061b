//! How busy the device is, as a whole and by process.

use std::ffi::c_uint;

use super::returns;
use super::types::{ProcessUtilizationSample, Utilization};
use super::{DeviceHandle, check_not_null, put, put_list};
use gpubench_virtual_gpu_driver::nvml::target::device;
use gpubench_virtual_gpu_driver::nvml::utilization::{self, ProcessShare, SHARES};

figures! {
    fn nvmlDeviceGetUtilizationRates(device) -> Utilization {
        let (gpu, memory) = utilization::rates(device)?;
        Ok(Utilization { gpu, memory })
    }
}

entries! {
    fn nvmlDeviceGetEncoderUtilization, nvmlDeviceGetDecoderUtilization(
        handle: DeviceHandle, percent: *mut c_uint, period_us: *mut c_uint,
    ) {
        let (used, over_us) = utilization::video(&*device(handle)?)?;
        check_not_null(percent)?;
        check_not_null(period_us)?;
        put(percent, used)?;
        put(period_us, over_us)
    }

    fn nvmlDeviceGetProcessUtilization(
        handle: DeviceHandle, samples: *mut ProcessUtilizationSample, count: *mut c_uint,
        last_seen_us: u64,
    ) {
        let device = device(handle)?;
        check_not_null(count)?;
        if samples.is_null() {
            put(count, SHARES as c_uint)?;
            return Err(returns::INSUFFICIENT_SIZE);
        }
        put_list(&utilization::since(&device, last_seen_us)?, count, samples)
    }
}

impl From<ProcessShare> for ProcessUtilizationSample {
    fn from(share: ProcessShare) -> Self {
        Self {
            time_stamp_us: share.stamp_us,
            pid: share.pid,
            sm_util: share.sm_percent,
            mem_util: share.dram_percent,
            ..Self::default()
        }
    }
}
