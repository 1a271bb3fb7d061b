//! Identity: names, numbers, PCI address, shape of the chip.

use std::ffi::{c_char, c_int, c_uint};

use super::entry::filled;
use super::types::PciInfo;
use super::{DeviceHandle, check_not_null, put, put_text};
use gpubench_virtual_gpu_driver::kernel_log::PCI_BUS as BUS;
use gpubench_virtual_gpu_driver::nvml::identity;
use gpubench_virtual_gpu_driver::nvml::target::{device, target};

/// Vendor 10de below a device id that no product has: no table of names can take it for silicon.
const PCI_ID: u32 = 0xffff_10de;

entries! {
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
}

figures! {
    fn nvmlDeviceGetNumGpuCores(device) -> u32 {
        let gpu = &device.machine().gpu;
        Ok(gpu.sm_count * gpu.fp32_lanes_per_clock)
    }

    fn nvmlDeviceGetMemoryBusWidth(device) -> u32 {
        Ok(device.machine().gpu.memory_bus_bits)
    }
}
