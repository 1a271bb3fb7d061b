//! What a device is called, and how a program finds it.

use super::Error;
use super::library::{Target, device_handle};
use super::mig;
use super::mig::handles::{Kind, handle};
use crate::code::refuse;
use crate::device::Device;
use crate::handles::Handle;
use crate::kernel_log::PCI_BUS as BUS;
use crate::placement;
use gpubench_virtual_gpu_model::mig::uuid as mig_uuid;

/// The product, with the size of a MIG device.
pub fn name(device: &Device, target: Target) -> Result<String, Error> {
    match target {
        Target::Whole => Ok(device.machine().gpu.product.clone()),
        Target::Engine(row) => mig::device::name(device, row),
    }
}

pub fn uuid(device: &Device, target: Target) -> Result<String, Error> {
    let machine = device.machine();
    match target {
        Target::Whole => Ok(machine.uuid()),
        Target::Engine(row) => Ok(device.shared().read(|state| mig_uuid(state, machine, row))?),
    }
}

/// The index under which programs find it.
pub fn index(device: &Device, target: Target) -> Result<u32, Error> {
    match target {
        Target::Whole => Ok(0),
        Target::Engine(row) => Ok(device.shared().read(|state| mig::device::index(state, row))?),
    }
}

pub fn by_uuid(device: &Device, uuid: &str) -> Result<Handle, Error> {
    let machine = device.machine();
    if uuid.starts_with("MIG-") {
        let found = device.shared().read(|state| {
            let row = placement::find(state, machine, Some(uuid))?;
            Some(handle(state, Kind::Device, row))
        })?;
        return found.ok_or(Error::NotFound);
    }
    refuse(!uuid.starts_with("GPU-"), Error::InvalidArgument)?;
    if uuid == machine.uuid() { Ok(device_handle()) } else { Err(Error::NotFound) }
}

/// The device at this PCI address.
pub fn by_bus_id(id: &str) -> Result<Handle, Error> {
    match parse_bus_id(id).ok_or(Error::InvalidArgument)? {
        (0, BUS, 0, 0) => Ok(device_handle()),
        _ => Err(Error::NotFound),
    }
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
