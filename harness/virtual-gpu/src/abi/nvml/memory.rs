//! How much device memory there is, and how much of it is free.
#![expect(unsafe_code, reason = "the caller's structures are raw pointers")]

use super::library::{catch_up_with_the_living, device};
use super::returns::{self, Return};
use super::types::{Bar1Memory, Memory, MemoryV2, version_of};
use super::{DeviceHandle, entries, figures, put, take};
use crate::device::Device;
use crate::memory;

/// Window through which the host could map device memory: that of a board without resizable BAR1.
const BAR1_BYTES: u64 = 256 << 20;

figures! {
    fn nvmlDeviceGetMemoryInfo(device) -> Memory {
        let now = figures_of(device)?;
        // In this form, what the driver holds back counts as used.
        Ok(Memory { total: now.total, free: now.free, used: now.total - now.free })
    }

    fn nvmlDeviceGetBAR1MemoryInfo(_) -> Bar1Memory {
        // Copies go through the engines and host memory is never mapped through the window.
        Ok(Bar1Memory { total: BAR1_BYTES, free: BAR1_BYTES, used: 0 })
    }
}

entries! {
    fn nvmlDeviceGetMemoryInfo_v2(handle: DeviceHandle, memory: *mut MemoryV2) {
        let device = device(handle)?;
        // SAFETY: the caller's structure, checked for null.
        let version = unsafe { take(memory.cast::<u32>())? };
        if version != version_of::<MemoryV2>(2) {
            return Err(returns::ARGUMENT_VERSION_MISMATCH);
        }
        let found = MemoryV2 { version, ..figures_of(&device)? };
        // SAFETY: the caller's place, checked for null.
        unsafe { put(memory, found) }
    }
}

fn figures_of(device: &Device) -> Result<MemoryV2, Return> {
    catch_up_with_the_living(device)?;
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
