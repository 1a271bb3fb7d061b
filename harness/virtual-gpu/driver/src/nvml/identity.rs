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
        Target::Engine(row) => Ok(device
            .shared()
            .read(|state| mig_uuid(state, machine, row))?),
    }
}

/// The index under which programs find it.
pub fn index(device: &Device, target: Target) -> Result<u32, Error> {
    match target {
        Target::Whole => Ok(0),
        Target::Engine(row) => Ok(device
            .shared()
            .read(|state| mig::device::index(state, row))?),
    }
}

/// `nvmlDeviceArchitecture_t` of a compute capability.
pub fn architecture(capability: (u32, u32)) -> u32 {
    match capability {
        (7, 0..=4) => 5,
        (7, _) => 6,
        (8, 9) => 8,
        (8, _) => 7,
        (9, _) => 9,
        (10 | 12, _) => 10,
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::architecture;

    #[test]
    fn architectures_are_the_headers() {
        let table = [
            ((7, 0), 5),
            ((7, 5), 6),
            ((8, 0), 7),
            ((8, 6), 7),
            ((8, 9), 8),
            ((9, 0), 9),
        ];
        for (capability, number) in table {
            assert_eq!(architecture(capability), number, "{capability:?}");
        }
        assert_eq!(
            (architecture((10, 0)), architecture((3, 5))),
            (10, u32::MAX)
        );
    }
}
