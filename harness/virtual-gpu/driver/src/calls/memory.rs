//! Calls on device memory.

use super::wait_for_context;
use crate::backing_store::BASE;
use crate::code::{self, Code, refuse};
use crate::device_memory::{forget, take};
use crate::entries::Origin;
use crate::process::process;
use crate::{pinned, pool};
use gpubench_virtual_gpu_model::memory;

/// Bytes to which the rows of a pitched allocation are aligned.
const PITCH: usize = 512;

/// Free and total bytes of what the current context may use.
pub fn info() -> Result<(u64, u64), Code> {
    let process = process()?;
    let context = process.current()?;
    process.charge(process.host().query_ns)?;
    let device = &process.device;
    Ok(device.transact(|state, _| {
        let total = memory::total_for(state, device.machine(), context.slot);
        (memory::free_for(state, context.slot), total)
    })?)
}

/// Allocates memory in the current context.
pub fn allocate(bytes: usize) -> Result<u64, Code> {
    refuse(bytes == 0, code::INVALID_VALUE)?;
    let process = process()?;
    let context = process.current()?;
    process.charge_locked(process.host().alloc_ns)?;
    let bytes = bytes as u64;
    let offset = take(process, context.slot, bytes)?.offset;
    let address = BASE + offset;
    let mut tables = process.tables();
    tables.enter(address, bytes, context.slot, offset, Origin::Plain);
    Ok(address)
}

pub fn pitch(width_bytes: usize, element_bytes: u32) -> Result<usize, Code> {
    refuse(width_bytes == 0 || ![4, 8, 16].contains(&element_bytes), code::INVALID_VALUE)?;
    let pitch = width_bytes.checked_next_multiple_of(PITCH);
    pitch.ok_or(code::OUT_OF_MEMORY)
}

/// Frees memory once the work that may still use it is done.
pub fn free(pointer: u64) -> Result<(), Code> {
    if pointer == 0 {
        return Ok(());
    }
    let process = process()?;
    let context = process.current()?;
    let entry = process.ready()?.allocations.get(&pointer).cloned();
    let origin = match entry.map(|entry| entry.origin) {
        Some(origin @ (Origin::Plain | Origin::Managed | Origin::Pool(_))) => origin,
        _ => {
            let host = process.host();
            let cost_ns = host.refused_free_ns.unwrap_or(host.refused_ns);
            return process.refuse_after(cost_ns, code::INVALID_VALUE);
        }
    };
    wait_for_context(process, context.slot)?;
    process.charge_locked(process.host().free_ns)?;
    if let Origin::Pool(pool) = origin {
        pool::keep(process, pool, pointer)?;
        return pool::trim_all(process);
    }
    forget(process, pointer)
}

/// Start and length of the allocation or pinned memory that holds an address.
pub fn range_of(pointer: u64) -> Result<(u64, usize), Code> {
    let tables = process()?.ready()?;
    if let Some((start, entry)) = tables.covering(pointer, 1) {
        return Ok((start, entry.bytes as usize));
    }
    let (start, entry) = pinned::covering(&tables, pointer as usize, 1).ok_or(code::NOT_FOUND)?;
    Ok((start as u64, entry.bytes))
}
