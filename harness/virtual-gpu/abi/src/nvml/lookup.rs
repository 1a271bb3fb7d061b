//! The devices, and how a program finds one: by index, UUID or PCI address.

use std::ffi::{c_char, c_uint};

use super::returns;
use super::{DeviceHandle, check_not_null, put, text};
use gpubench_virtual_gpu_driver::nvml::library::only_device;
use gpubench_virtual_gpu_driver::nvml::lookup::{by_bus_id, by_uuid};
use gpubench_virtual_gpu_driver::nvml::target::device_handle;

entries! {
    fn nvmlDeviceGetCount, nvmlDeviceGetCount_v2(count: *mut c_uint) {
        only_device()?;
        put(count, 1)
    }

    fn nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2(
        index: c_uint, handle: *mut DeviceHandle,
    ) {
        only_device()?;
        check_not_null(handle)?;
        if index != 0 {
            return Err(returns::INVALID_ARGUMENT);
        }
        put(handle, device_handle())
    }

    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: *mut DeviceHandle) {
        let device = only_device()?;
        let uuid = text(uuid)?;
        check_not_null(handle)?;
        put(handle, by_uuid(&device, &uuid)?)
    }

    fn nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2(
        id: *const c_char, handle: *mut DeviceHandle,
    ) {
        only_device()?;
        let id = text(id)?;
        check_not_null(handle)?;
        put(handle, by_bus_id(&id)?)
    }
}
