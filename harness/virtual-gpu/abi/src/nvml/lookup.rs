//! The devices, and how a program finds one: by index, UUID or PCI address.

use std::ffi::{CStr, c_char, c_uint};

use super::library::{device_handle, only_device};
use super::returns::{self, Return};
use super::types::Uuid;
use super::{DeviceHandle, check_not_null, check_version, mig, put, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::kernel_log::PCI_BUS as BUS;
use gpubench_virtual_gpu_driver::placement;

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
        by_index(index, handle)
    }

    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: *mut DeviceHandle) {
        let device = only_device()?;
        give(handle, by_uuid(&device, &text(uuid)?)?)
    }

    fn nvmlDeviceGetHandleByUUIDV(uuid: *const Uuid, handle: *mut DeviceHandle) {
        let device = only_device()?;
        check_version(uuid, 1)?;
        let Uuid { kind, value, .. } = read(uuid)?;
        let found = match kind {
            UUID_ASCII => {
                let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                by_uuid(&device, &String::from_utf8_lossy(text))?
            }
            UUID_BINARY => {
                let digits: String = value[..16].iter().map(|b| format!("{b:02x}")).collect();
                let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|at| &digits[at]);
                // The bytes do not say which kind of device they name.
                let text = format!("{a}-{b}-{c}-{d}-{e}");
                match by_uuid(&device, &format!("GPU-{text}"))? {
                    None => by_uuid(&device, &format!("MIG-{text}"))?,
                    found => found,
                }
            }
            _ => return Err(returns::INVALID_ARGUMENT),
        };
        give(handle, found)
    }

    fn nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2(
        id: *const c_char, handle: *mut DeviceHandle,
    ) {
        by_bus_id(id, handle)
    }
}

unsafe fn by_index(index: u32, handle: *mut DeviceHandle) -> Result<(), Return> {
    only_device()?;
    check_not_null(handle)?;
    if index != 0 {
        return Err(returns::INVALID_ARGUMENT);
    }
    give(handle, Some(device_handle()))
}

unsafe fn give(handle: *mut DeviceHandle, found: Option<DeviceHandle>) -> Result<(), Return> {
    check_not_null(handle)?;
    put(handle, found.ok_or(returns::NOT_FOUND)?)
}

unsafe fn by_bus_id(id: *const c_char, handle: *mut DeviceHandle) -> Result<(), Return> {
    only_device()?;
    let address = parse_bus_id(&text(id)?).ok_or(returns::INVALID_ARGUMENT)?;
    give(handle, (address == (0, BUS, 0, 0)).then(device_handle))
}

/// Domain, bus, device and function of a PCI address in any of the forms that nvml.h lists:
/// `domain:bus:device.function`, `domain:bus:device`, `bus:device.function`, all hexadecimal.
fn parse_bus_id(text: &str) -> Option<(u32, u32, u32, u32)> {
    let hex = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let (place, function) = match text.split_once('.') {
        Some((place, function)) => (place, Some(hex(function)?)),
        None => (text, None),
    };
    let parts: Vec<u32> = place.split(':').map(hex).collect::<Option<_>>()?;
    match (parts.as_slice(), function) {
        (&[domain, bus, device], function) => Some((domain, bus, device, function.unwrap_or(0))),
        (&[bus, device], Some(function)) => Some((0, bus, device, function)),
        _ => None,
    }
}

/// The device or MIG device with this UUID.
fn by_uuid(device: &Device, uuid: &str) -> Result<Option<DeviceHandle>, Return> {
    let machine = device.machine();
    if uuid.starts_with("MIG-") {
        return Ok(device.shared().read(|state| {
            let row = placement::find(state, machine, Some(uuid))?;
            Some(mig::handle(state, mig::Kind::Device, row))
        })?);
    }
    if !uuid.starts_with("GPU-") {
        return Err(returns::INVALID_ARGUMENT);
    }
    Ok((uuid == machine.uuid()).then(device_handle))
}

/// A caller's text.
pub(super) unsafe fn text(from: *const c_char) -> Result<String, Return> {
    check_not_null(from)?;
    Ok(CStr::from_ptr(from).to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_bus_id;

    #[test]
    fn pci_addresses_are_read_in_every_form() {
        for (text, expected) in [
            ("00000000:01:00.0", Some((0, 1, 0, 0))),
            ("0000:01:00.0", Some((0, 1, 0, 0))),
            ("1:2:3", Some((1, 2, 3, 0))),
            ("0A:1f.7", Some((0, 10, 31, 7))),
            ("01:00", None),
            ("", None),
            ("zz:00.0", None),
            ("1:2:3:4", None),
        ] {
            assert_eq!(parse_bus_id(text), expected, "{text:?}");
        }
    }
}
