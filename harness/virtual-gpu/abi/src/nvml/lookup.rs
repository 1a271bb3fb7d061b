//! The devices, and how a program finds one: by index, UUID or PCI address.

use std::ffi::{c_char, c_uint};

use super::returns;
use super::types::Uuid;
use super::{DeviceHandle, check_not_null, check_version, put, read, text};
use gpubench_virtual_gpu_driver::nvml::library::only_device;
use gpubench_virtual_gpu_driver::nvml::lookup::{by_bus_id, by_uuid, by_uuid_bytes};
use gpubench_virtual_gpu_driver::nvml::target::device_handle;

/// `nvmlUUIDType_t`.
const UUID_ASCII: u32 = 1;
const UUID_BINARY: u32 = 2;

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

    fn nvmlDeviceGetHandleByUUIDV(uuid: *const Uuid, handle: *mut DeviceHandle) {
        let device = only_device()?;
        check_version(uuid, 1)?;
        let Uuid { kind, value, .. } = read(uuid)?;
        check_not_null(handle)?;
        let found = match kind {
            UUID_ASCII => {
                let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                by_uuid(&device, &String::from_utf8_lossy(text))?
            }
            UUID_BINARY => by_uuid_bytes(&device, &value[..16])?,
            _ => return Err(returns::INVALID_ARGUMENT),
        };
        put(handle, found)
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
