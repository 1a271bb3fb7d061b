//! The device and its attributes.

use std::ffi::{c_char, c_int};

use crate::arguments::{put, put_text};
use gpubench_virtual_gpu_driver::calls::device::{
    COMPUTE_MODE, DEVICE, L2_CACHE_SIZE, MULTIPROCESSOR_COUNT, compute_mode, known, shown,
    uuid_bytes,
};
use gpubench_virtual_gpu_driver::device_attributes::attribute_of;
use gpubench_virtual_gpu_driver::kernel_log::PCI_BUS;
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::rules::Rule;
use gpubench_virtual_gpu_driver::{code, placement};

entries! {
    fn cuDeviceGetCount(count: *mut c_int) {
        let process = process()?;
        drop(process.ready()?);
        let context = placement::visible_context(&process.device);
        put(count, c_int::from(context.is_ok()))
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        known(ordinal)?;
        put(device, DEVICE)
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        let product = shown(known(device)?)?.name;
        let length = usize::try_from(length).map_err(|_| code::INVALID_VALUE)?;
        put_text(name, length, &product)
    }

    fn cuDeviceGetUuid, cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        let bytes = uuid_bytes(&shown(known(device)?)?.uuid);
        put(uuid, bytes)
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        let usable = shown(known(device)?)?.bytes;
        put(bytes, usable as usize)
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let process = known(device)?;
        let machine = process.device.machine();
        let found = match attribute {
            MULTIPROCESSOR_COUNT => c_int::try_from(shown(process)?.part.sm_count).ok(),
            COMPUTE_MODE => Some(compute_mode(process)? as c_int),
            L2_CACHE_SIZE => c_int::try_from(shown(process)?.part.l2_bytes).ok(),
            _ => attribute_of(machine, attribute),
        };
        let found = found.ok_or_else(|| Rule::UnknownAttribute.broken())?;
        put(value, found)
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) {
        let (x, y) = known(device)?.device.machine().compute_capability();
        put(major, x as c_int)?;
        put(minor, y as c_int)
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        known(device)?;
        known(peer)?;
        put(can, 0)
    }

    fn cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) {
        known(device)?;
        let length = usize::try_from(length).map_err(|_| code::INVALID_VALUE)?;
        put_text(id, length, &format!("0000:{PCI_BUS:02x}:00.0"))
    }
}
