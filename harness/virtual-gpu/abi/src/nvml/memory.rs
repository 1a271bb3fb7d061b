//! How much device memory there is, and how much of it is free.

use super::library::catch_up_with_the_living;
use super::returns::Return;
use super::target::{Target, target};
use super::types::{Bar1Memory, Memory, MemoryV2};
use super::{DeviceHandle, check_not_null, check_version, mig, put};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::state::{GpuInstance, State};

entries! {
    fn nvmlDeviceGetMemoryInfo(handle: DeviceHandle, memory: *mut Memory) {
        let (device, target) = target(handle)?;
        check_not_null(memory)?;
        let now = figures_of(&device, target)?;
        // In this form, memory that the driver reserves counts as used.
        let found = Memory { total: now.total, free: now.free, used: now.total - now.free };
        put(memory, found)
    }

    fn nvmlDeviceGetMemoryInfo_v2(handle: DeviceHandle, memory: *mut MemoryV2) {
        let (device, target) = target(handle)?;
        let version = check_version(memory, 2)?;
        let found = MemoryV2 { version, ..figures_of(&device, target)? };
        put(memory, found)
    }

    fn nvmlDeviceGetBAR1MemoryInfo(handle: DeviceHandle, memory: *mut Bar1Memory) {
        let (device, target) = target(handle)?;
        check_not_null(memory)?;
        let whole = device.machine().pcie.bar1_mib << 20;
        let total = match (target, &device.machine().mig) {
            (Target::Engine(row), Some(mig)) => {
                let slots = device.shared().read(|state| part_of(state, row).slots)?;
                whole * u64::from(slots) / u64::from(mig.slots)
            }
            _ => whole,
        };
        // Copies go through the engines and host memory is never mapped through the window.
        put(memory, Bar1Memory { total, free: total, used: 0 })
    }
}

/// The GPU instance of a compute instance.
fn part_of(state: &State, engine: u32) -> &GpuInstance {
    let instance = state.engines.rows[engine as usize].instance;
    &state.instances.rows[instance as usize]
}

pub(super) fn figures_of(device: &Device, target: Target) -> Result<MemoryV2, Return> {
    catch_up_with_the_living(device)?;
    match target {
        Target::Whole => of_the_device(device),
        Target::Engine(row) => Ok(device.shared().read(|state| {
            let total = part_of(state, row).memory_bytes;
            let free = memory::free_bytes(state, state.engines.rows[row as usize].instance);
            MemoryV2 {
                total,
                free,
                used: total - free,
                ..MemoryV2::default()
            }
        })?),
    }
}

fn of_the_device(device: &Device) -> Result<MemoryV2, Return> {
    // While the device is divided, only privileged callers may read its totals (nvml.h).
    if device.shared().read(|state| state.mig.current)? {
        mig::privileged(device)?;
    }
    let machine = device.machine();
    let free = device
        .shared()
        .read(|state| memory::device_free_bytes(state, machine))?;
    let total = machine.memory.total_mib << 20;
    let reserved = machine.memory.reserved_mib << 20;
    let used = total.saturating_sub(reserved).saturating_sub(free);
    Ok(MemoryV2 {
        version: 0,
        total,
        reserved,
        free,
        used,
    })
}
