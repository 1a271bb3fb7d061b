//! How much device memory there is, and how much of it is free.

use super::types::{Bar1Memory, Memory, MemoryV2};
use super::{DeviceHandle, check_not_null, check_version, put};
use gpubench_virtual_gpu_driver::nvml::memory::{MemoryUse, use_of, window_bytes};
use gpubench_virtual_gpu_driver::nvml::target::target;

impl From<MemoryUse> for Memory {
    /// In this form, memory that the driver reserves counts as used.
    fn from(MemoryUse { total, free, .. }: MemoryUse) -> Self {
        Self { total, free, used: total - free }
    }
}

entries! {
    fn nvmlDeviceGetMemoryInfo(handle: DeviceHandle, memory: *mut Memory) {
        let (device, target) = target(handle)?;
        check_not_null(memory)?;
        put(memory, use_of(&device, target)?.into())
    }

    fn nvmlDeviceGetMemoryInfo_v2(handle: DeviceHandle, memory: *mut MemoryV2) {
        let (device, target) = target(handle)?;
        let version = check_version(memory, 2)?;
        let MemoryUse { total, reserved, free, used } = use_of(&device, target)?;
        put(memory, MemoryV2 { version, total, reserved, free, used })
    }

    fn nvmlDeviceGetBAR1MemoryInfo(handle: DeviceHandle, memory: *mut Bar1Memory) {
        let (device, target) = target(handle)?;
        check_not_null(memory)?;
        let total = window_bytes(&device, target)?;
        put(memory, Bar1Memory { total, free: total, used: 0 })
    }
}
