//! The host link: generation, width, and what goes over it.

use std::ffi::c_uint;

use super::{DeviceHandle, check_not_null, put};
use gpubench_virtual_gpu_driver::nvml::link;
use gpubench_virtual_gpu_driver::nvml::target::device;

figures! {
    fn nvmlDeviceGetMaxPcieLinkGeneration, nvmlDeviceGetGpuMaxPcieLinkGeneration,
        nvmlDeviceGetCurrPcieLinkGeneration(device) -> u32 {
        Ok(device.machine().pcie.generation)
    }

    fn nvmlDeviceGetMaxPcieLinkWidth, nvmlDeviceGetCurrPcieLinkWidth(device) -> u32 {
        Ok(device.machine().pcie.width)
    }
}

entries! {
    fn nvmlDeviceGetPcieThroughput(handle: DeviceHandle, counter: c_uint, kib_per_s: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(kib_per_s)?;
        put(kib_per_s, link::throughput(&device, counter)?)
    }
}
