//! Names and numbers of the device and of MIG devices.

use super::Error;
use super::mig;
use super::target::Target;
use crate::device::Device;
use gpubench_virtual_gpu_model::mig::uuid as mig_uuid;

/// The product, with the size of a MIG device.
pub fn name(device: &Device, target: Target) -> Result<String, Error> {
    match target {
        Target::Whole => Ok(device.machine().gpu.product.clone()),
        Target::Engine(row) => mig::device::name(device, row),
    }
}

/// The UUID as text.
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
