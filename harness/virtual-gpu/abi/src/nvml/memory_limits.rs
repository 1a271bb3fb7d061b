//! How much of the device's memory the processes of a control group may have together.

use super::types::{GetMemoryLimits, SetMemoryLimits};
use super::{DeviceHandle, put, read, text};
use gpubench_virtual_gpu_driver::nvml::memory_limits;

entries! {
    fn nvmlDeviceGetMemoryLimits_v1(handle: DeviceHandle, limits: *mut GetMemoryLimits) {
        let device = memory_limits::device(handle)?;
        let GetMemoryLimits { namespace, .. } = read(limits)?;
        let found = memory_limits::limits(&device, &text(namespace)?)?;
        let found = GetMemoryLimits {
            namespace,
            soft_bytes: found.soft_bytes,
            hard_bytes: found.hard_bytes,
            used_bytes: found.used_bytes,
        };
        put(limits, found)
    }

    fn nvmlDeviceSetMemoryLimits_v1(handle: DeviceHandle, limits: *mut SetMemoryLimits) {
        let device = memory_limits::device(handle)?;
        let SetMemoryLimits { namespace, soft_bytes, hard_bytes } = read(limits)?;
        Ok(memory_limits::set(&device, &text(namespace)?, (soft_bytes, hard_bytes))?)
    }
}
