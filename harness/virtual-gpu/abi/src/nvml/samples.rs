//! Samples of the recent past.

use std::ffi::c_uint;

use super::fields::UNSIGNED_INT;
use super::returns;
use super::types::Sample;
use super::{DeviceHandle, check_not_null, put, put_each, read};
use gpubench_virtual_gpu_driver::nvml::samples;
use gpubench_virtual_gpu_driver::nvml::target::device;

impl From<samples::Sample> for Sample {
    fn from(sample: samples::Sample) -> Self {
        Self {
            time_stamp_us: sample.stamp_us,
            value: sample.value,
        }
    }
}

entries! {
    fn nvmlDeviceGetSamples(
        handle: DeviceHandle, kind: c_uint, last_seen_us: u64, value_type: *mut c_uint,
        count: *mut c_uint, to: *mut Sample,
    ) {
        let device = device(handle)?;
        check_not_null(value_type)?;
        let room = read(count)? as usize;
        if !to.is_null() && room == 0 {
            return Err(returns::INVALID_ARGUMENT);
        }
        let found = samples::since(&device, kind, last_seen_us)?;
        let filled = if to.is_null() { found.len() } else { found.len().min(room) };
        put(value_type, UNSIGNED_INT)?;
        put(count, filled as c_uint)?;
        if to.is_null() {
            return Ok(());
        }
        // The oldest come first, so a caller that goes on from the last stamp misses none.
        put_each(&found[..filled], to)
    }
}
