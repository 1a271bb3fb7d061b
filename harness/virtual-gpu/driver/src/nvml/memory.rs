//! How much device memory there is, and how much of it is free.

use super::Error;
use super::library::{Target, catch_up_with_the_living, privileged};
use super::mig::is_divided;
use crate::device::Device;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::state::{GpuInstance, State};

/// Bytes of memory. What the driver reserves is neither free nor used.
#[derive(Default)]
pub struct MemoryUse {
    pub total: u64,
    pub reserved: u64,
    pub free: u64,
    pub used: u64,
}

pub fn use_of(device: &Device, target: Target) -> Result<MemoryUse, Error> {
    catch_up_with_the_living(device)?;
    match target {
        Target::Whole => of_the_device(device),
        Target::Engine(row) => Ok(device.shared().read(|state| {
            let total = part_of(state, row).memory_bytes;
            let free = memory::free_bytes(state, state.engines.rows[row as usize].instance);
            MemoryUse { total, free, used: total - free, ..MemoryUse::default() }
        })?),
    }
}

/// Bytes of the window through which the host reaches the memory. Copies go through the engines,
/// and host memory is never mapped through the window, so all of it is free.
pub fn window_bytes(device: &Device, target: Target) -> Result<u64, Error> {
    let whole = device.machine().pcie.bar1_mib << 20;
    match (target, &device.machine().mig) {
        (Target::Engine(row), Some(mig)) => {
            let slots = device.shared().read(|state| part_of(state, row).slots)?;
            Ok(whole * u64::from(slots) / u64::from(mig.slots))
        }
        _ => Ok(whole),
    }
}

/// The GPU instance of a compute instance.
fn part_of(state: &State, engine: u32) -> &GpuInstance {
    let instance = state.engines.rows[engine as usize].instance;
    &state.instances.rows[instance as usize]
}

fn of_the_device(device: &Device) -> Result<MemoryUse, Error> {
    // While the device is divided, only privileged callers may read its totals (nvml.h).
    if is_divided(device)? {
        privileged(device)?;
    }
    let machine = device.machine();
    let free = device.shared().read(|state| memory::device_free_bytes(state, machine))?;
    let total = machine.memory.total_mib << 20;
    let reserved = machine.memory.reserved_mib << 20;
    let used = total.saturating_sub(reserved).saturating_sub(free);
    Ok(MemoryUse { total, reserved, free, used })
}
