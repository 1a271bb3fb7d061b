//! Identity: names, numbers, PCI address, shape of the chip.

use std::ffi::{c_char, c_int, c_uint};

use super::entry::filled;
use super::returns::Return;
use super::types::{PciInfo, PciInfoExt};
use super::{DeviceHandle, check_not_null, check_version, put, put_text};
use crate::arguments::put_prefix;
use gpubench_virtual_gpu_driver::kernel_log::PCI_BUS as BUS;
use gpubench_virtual_gpu_driver::nvml::identity;
use gpubench_virtual_gpu_driver::nvml::target::{device, target};

/// Vendor 10de below a device id that no product has: no table of names can take it for silicon.
const PCI_ID: u32 = 0xffff_10de;
/// PCI class of a 3D controller: base 3, sub-class 2.
const PCI_CLASS: (u32, u32) = (3, 2);

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

    fn nvmlDeviceGetBoardPartNumber(handle: DeviceHandle, part: *mut c_char, length: c_uint) {
        let device = device(handle)?;
        let text = format!("virtual-{}", device.machine().name);
        put_text(part, length, &text)
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

    fn nvmlDeviceGetPciInfo(handle: DeviceHandle, info: *mut u8) {
        // The first form ends before the subsystem.
        put_pci_info(handle, info, std::mem::offset_of!(PciInfo, pci_subsystem_id))
    }

    fn nvmlDeviceGetPciInfo_v2(handle: DeviceHandle, info: *mut u8) {
        // The second form has reserved words where the third has the long text.
        put_pci_info(handle, info, std::mem::offset_of!(PciInfo, bus_id))
    }

    fn nvmlDeviceGetPciInfo_v3(handle: DeviceHandle, info: *mut u8) {
        put_pci_info(handle, info, size_of::<PciInfo>())
    }

    fn nvmlDeviceGetPciInfoExt(handle: DeviceHandle, info: *mut PciInfoExt) {
        device(handle)?;
        let version = check_version(info, 1)?;
        let found = PciInfoExt {
            version,
            domain: 0,
            bus: BUS,
            device: 0,
            pci_device_id: PCI_ID,
            pci_subsystem_id: PCI_ID,
            base_class: PCI_CLASS.0,
            sub_class: PCI_CLASS.1,
            bus_id: bus_id(),
        };
        put(info, found)
    }
}

figures! {
    fn nvmlDeviceGetMinorNumber, nvmlDeviceGetMultiGpuBoard(_) -> u32 {
        Ok(0)
    }

    fn nvmlDeviceGetBoardId(_) -> u32 {
        Ok(BUS << 8)
    }

    fn nvmlDeviceGetBrand(_) -> u32 {
        // NVML_BRAND_UNKNOWN: no vendor sells it.
        Ok(0)
    }

    fn nvmlDeviceGetArchitecture(device) -> u32 {
        Ok(identity::architecture(device.machine().compute_capability()))
    }

    fn nvmlDeviceGetNumGpuCores(device) -> u32 {
        let gpu = &device.machine().gpu;
        Ok(gpu.sm_count * gpu.fp32_lanes_per_clock)
    }

    fn nvmlDeviceGetMemoryBusWidth(device) -> u32 {
        Ok(device.machine().gpu.memory_bus_bits)
    }

    fn nvmlDeviceGetBusType(_) -> u32 {
        // NVML_BUS_TYPE_PCIE.
        Ok(2)
    }
}

fn bus_id() -> [c_char; 32] {
    filled(&format!("{:08X}:{BUS:02X}:{:02X}.0", 0, 0))
}

/// Stores the first bytes of the structure: as many as the caller's form has.
unsafe fn put_pci_info(handle: DeviceHandle, info: *mut u8, bytes: usize) -> Result<(), Return> {
    device(handle)?;
    check_not_null(info)?;
    let found = PciInfo {
        bus_id_legacy: filled(&format!("{:04X}:{BUS:02X}:{:02X}.0", 0, 0)),
        domain: 0,
        bus: BUS,
        device: 0,
        pci_device_id: PCI_ID,
        pci_subsystem_id: PCI_ID,
        bus_id: bus_id(),
    };
    put_prefix(info, bytes, &found);
    Ok(())
}
