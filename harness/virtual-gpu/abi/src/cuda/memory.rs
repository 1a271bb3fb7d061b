//! Device memory: asking for it, giving it back, and what is known about an address.

use std::ffi::c_uint;

use crate::arguments::{put, put_optional};
use gpubench_virtual_gpu_driver::backing_store::BASE;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::device_memory::{forget, take};
use gpubench_virtual_gpu_driver::entries::Origin;
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::{pinned, pool};
use gpubench_virtual_gpu_model::memory;

/// Bytes to which the rows of a pitched allocation are aligned.
const PITCH: usize = 512;

entries! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let process = process()?;
        let context = process.current()?;
        let device = &process.device;
        device.charge(device.machine().host.query_ns)?;
        device.drop_closed_exports()?;
        let (left, all) = device.transact(|state, _| {
            let all = memory::total_for(state, device.machine(), context.slot);
            (memory::free_for(state, context.slot), all)
        })?;
        put(free, left as usize)?;
        put(total, all as usize)
    }

    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) {
        allocate(pointer, bytes)
    }

    fn cuMemAllocPitch_v2(
        pointer: *mut u64, pitch: *mut usize, width_bytes: usize, height: usize,
        element_bytes: c_uint,
    ) {
        if pitch.is_null() || width_bytes == 0 || ![4, 8, 16].contains(&element_bytes) {
            return Err(code::INVALID_VALUE);
        }
        let row = width_bytes.checked_next_multiple_of(PITCH).ok_or(code::OUT_OF_MEMORY)?;
        allocate(pointer, row.checked_mul(height).ok_or(code::OUT_OF_MEMORY)?)?;
        put(pitch, row)
    }

    fn cuMemFree_v2(pointer: u64) {
        if pointer == 0 {
            return Ok(());
        }
        let process = process()?;
        let context = process.current()?;
        let entry = process.ready()?.allocations.get(&pointer).cloned();
        let entry = entry.ok_or(code::INVALID_VALUE)?;
        if !matches!(entry.origin, Origin::Plain | Origin::Managed | Origin::Pool(_)) {
            return Err(code::INVALID_VALUE);
        }
        let device = &process.device;
        // Freeing waits for the work that may still use the memory.
        device.wait_context(context.slot)?;
        gpubench_virtual_gpu_driver::launch::finish_reruns(process, context.slot)?;
        device.charge_locked(device.machine().host.free_ns)?;
        if let Origin::Pool(pool) = entry.origin {
            pool::keep(process, pool, pointer)?;
            return pool::trim_all(process);
        }
        process.tables().advice.remove(&pointer);
        forget(process, pointer)
    }

    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, pointer: u64) {
        let tables = process()?.ready()?;
        let (start, bytes) = match tables.covering(pointer, 1) {
            Some((start, entry)) => (start, entry.bytes as usize),
            None => {
                let pinned = pinned::covering(&tables, pointer as usize, 1);
                let (start, entry) = pinned.ok_or(code::NOT_FOUND)?;
                (start as u64, entry.bytes)
            }
        };
        put_optional(base, start);
        put_optional(size, bytes);
        Ok(())
    }
}

unsafe fn allocate(pointer: *mut u64, bytes: usize) -> Result<(), Code> {
    if pointer.is_null() || bytes == 0 {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let context = process.current()?;
    process
        .device
        .charge_locked(process.device.machine().host.alloc_ns)?;
    let bytes = bytes as u64;
    let made = take(process, context.slot, bytes)?;
    let address = BASE + made.offset;
    process
        .tables()
        .enter(address, bytes, context.slot, made.offset, Origin::Plain);
    put(pointer, address)
}
