//! Managed memory: one address for host and device.
//!
//! The host sees the very pages of device memory that kernels use, at the address that kernels
//! use. All of it lies on the device from the start, so that there is no more of it than device
//! memory; migration shows only in what a prefetch costs.

use std::ffi::c_int;
use std::sync::Arc;

use crate::code::{self, Code};
use crate::device_memory;
use crate::entries::{Advice, NOWHERE, Origin};
use crate::graph::capture;
use crate::handles::Handle;
use crate::process::{Tables, process};
use crate::submit;
use gpubench_virtual_gpu_model::state::OpKind;

/// Granularity of managed memory.
const PAGE: u64 = 2 << 20;

/// `CU_DEVICE_CPU` and `CU_DEVICE_INVALID` (cuda.h).
pub const CPU: c_int = -1;

/// The managed allocation that holds a range.
pub fn within(tables: &Tables, pointer: u64, bytes: usize) -> Result<u64, Code> {
    if bytes == 0 {
        return Err(code::INVALID_VALUE);
    }
    let found = tables.covering(pointer, bytes as u64);
    let managed = found.filter(|(_, entry)| entry.origin == Origin::Managed);
    managed.map(|(start, _)| start).ok_or(code::INVALID_VALUE)
}

/// Allocates managed memory, and maps it for the host.
pub fn allocate(bytes: usize) -> Result<u64, Code> {
    let process = process()?;
    let context = process.current()?.slot;
    process.charge_locked(process.host().alloc_ns)?;
    let whole = (bytes as u64).checked_next_multiple_of(PAGE);
    let made = device_memory::take(process, context, whole.ok_or(code::OUT_OF_MEMORY)?)?;
    let viewed = device_memory::clear(process, &made).and_then(|()| {
        let view = process.contents.view(made.offset, made.taken);
        Ok(view?)
    });
    let view = match viewed {
        Ok(view) => view,
        Err(code) => {
            device_memory::give_back(process, made.offset)?;
            return Err(code);
        }
    };
    let address = view.address();
    let mut tables = process.tables();
    tables.enter(address, bytes as u64, context, made.offset, Origin::Managed);
    if let Some(entry) = tables.allocations.get_mut(&address) {
        entry.open = true;
        entry.view = Some(Arc::new(view));
    }
    tables.advice.insert(address, Advice::default());
    Ok(address)
}

/// Stores the program's advice for managed memory (`CUmem_advise`).
pub fn advise(pointer: u64, bytes: usize, advice: c_int, device: c_int) -> Result<(), Code> {
    let mut tables = process()?.ready()?;
    let start = within(&tables, pointer, bytes)?;
    if !(CPU..=0).contains(&device) && advice > 2 {
        return Err(code::INVALID_DEVICE);
    }
    let known = tables.advice.entry(start).or_default();
    let who = usize::from(device == 0);
    // CUmem_advise (cuda.h): set and unset in turn.
    match advice {
        1 | 2 => known.read_mostly = advice == 1,
        3 => known.preferred = device,
        4 => known.preferred = NOWHERE,
        5 | 6 => known.accessed_by[who] = advice == 5,
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}

/// Moves managed memory to a device or to the host.
pub fn prefetch(pointer: u64, bytes: usize, device: c_int, stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    capture::forbid(process, &entry)?;
    if !(CPU..=0).contains(&device) {
        return Err(code::INVALID_DEVICE);
    }
    let moved = {
        let mut tables = process.ready()?;
        let start = within(&tables, pointer, bytes)?;
        let known = tables.advice.entry(start).or_default();
        std::mem::replace(&mut known.fetched_to, device) != device
    };
    process.charge(process.host().copy_ns)?;
    if moved {
        let pcie = &process.device.machine().pcie;
        let way = match device {
            CPU => (OpKind::ToHost, pcie.to_host_gb_per_s),
            _ => (OpKind::ToDevice, pcie.to_device_gb_per_s),
        };
        submit::link_traffic(process, &entry, way, bytes as u64)?;
    }
    Ok(())
}
