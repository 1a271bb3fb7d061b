//! The device: how a program finds it, names, numbers, PCI address, shape of the chip, the host
//! link, and the modes that it can be in.

use std::ffi::{c_char, c_int, c_uint};

use super::entry::filled;
use super::types::PciInfo;
use super::{DeviceHandle, check_not_null, put, put_text, returns, text};
use gpubench_virtual_gpu_driver::code::refuse;
use gpubench_virtual_gpu_driver::kernel_log::{PCI_BUS as BUS, PCI_ID};
use gpubench_virtual_gpu_driver::nvml::identity::{self, by_bus_id, by_uuid};
use gpubench_virtual_gpu_driver::nvml::library::{device, device_handle, only_device, target};
use gpubench_virtual_gpu_driver::nvml::{link, modes};

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
        refuse(index != 0, returns::INVALID_ARGUMENT)?;
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

    fn nvmlDeviceGetName(handle: DeviceHandle, name: *mut c_char, length: c_uint) {
        let (device, target) = target(handle)?;
        put_text(name, length, &identity::name(&device, target)?)
    }

    fn nvmlDeviceGetUUID(handle: DeviceHandle, uuid: *mut c_char, length: c_uint) {
        let (device, target) = target(handle)?;
        put_text(uuid, length, &identity::uuid(&device, target)?)
    }

    fn nvmlDeviceGetIndex(handle: DeviceHandle, index: *mut c_uint) {
        let (device, target) = target(handle)?;
        put(index, identity::index(&device, target)?)
    }

    fn nvmlDeviceGetVbiosVersion(handle: DeviceHandle, version: *mut c_char, length: c_uint) {
        device(handle)?;
        put_text(version, length, "00.00.virtual")
    }

    fn nvmlDeviceGetCudaComputeCapability(
        handle: DeviceHandle, major: *mut c_int, minor: *mut c_int,
    ) {
        let (x, y) = device(handle)?.machine().compute_capability();
        check_not_null(major)?;
        check_not_null(minor)?;
        put(major, x as c_int)?;
        put(minor, y as c_int)
    }

    fn nvmlDeviceGetPciInfo_v3(handle: DeviceHandle, info: *mut PciInfo) {
        device(handle)?;
        let found = PciInfo {
            bus_id_legacy: filled(&format!("{:04X}:{BUS:02X}:{:02X}.0", 0, 0)),
            domain: 0,
            bus: BUS,
            device: 0,
            pci_device_id: PCI_ID,
            pci_subsystem_id: PCI_ID,
            bus_id: filled(&format!("{:08X}:{BUS:02X}:{:02X}.0", 0, 0)),
        };
        put(info, found)
    }

    fn nvmlDeviceGetPcieThroughput(handle: DeviceHandle, counter: c_uint, kib_per_s: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(kib_per_s)?;
        put(kib_per_s, link::throughput(&device, counter)?)
    }

    fn nvmlDeviceGetComputeMode(handle: DeviceHandle, mode: *mut c_uint) {
        let (device, _) = target(handle)?;
        put(mode, modes::compute_mode(&device)? as c_uint)
    }

    fn nvmlDeviceSetComputeMode(handle: DeviceHandle, mode: c_uint) {
        let (device, _) = target(handle)?;
        Ok(modes::set_compute_mode(&device, mode)?)
    }
}

figures! {
    fn nvmlDeviceGetNumGpuCores(device) -> u32 {
        let gpu = &device.machine().gpu;
        Ok(gpu.sm_count * gpu.fp32_lanes_per_clock)
    }

    fn nvmlDeviceGetMemoryBusWidth(device) -> u32 { Ok(device.machine().gpu.memory_bus_bits) }
    fn nvmlDeviceGetMaxPcieLinkGeneration, nvmlDeviceGetCurrPcieLinkGeneration(device) -> u32 {
        Ok(device.machine().pcie.generation)
    }

    fn nvmlDeviceGetMaxPcieLinkWidth, nvmlDeviceGetCurrPcieLinkWidth(device) -> u32 {
        Ok(device.machine().pcie.width)
    }

    fn nvmlDeviceGetPersistenceMode(_) -> u32 {
        // The device outlives its clients.
        Ok(1)
    }

    fn nvmlDeviceGetDisplayMode, nvmlDeviceGetDisplayActive(_) -> u32 { Ok(0) }
    fn nvmlDeviceGetVirtualizationMode(device) -> u32 {
        Ok(device.machine().circumstances.virtualization as u32)
    }
}
