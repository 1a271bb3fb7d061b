//! Device memory and pinned host memory.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::alloc::Layout;
use std::ffi::{c_uint, c_void};

use super::global::entries;
use crate::abi::code::{self, Code};
use crate::abi::process::{AllocationEntry, process};
use crate::abi::put;
use crate::contents::BASE;
use crate::memory;

/// Alignment of pinned host memory: a page.
const HOST_PAGE: usize = 4096;

entries! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let process = process()?;
        let context = process.current()?;
        let device = &process.device;
        device.charge(device.machine().host.query_ns)?;
        let (left, all) = device.transact(|state, _| {
            (memory::free_for(state, context.slot), memory::total_for(state, context.slot))
        })?;
        // SAFETY: the caller's places, checked for null.
        unsafe {
            put(free, left as usize)?;
            put(total, all as usize)
        }
    }

    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) {
        if pointer.is_null() || bytes == 0 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let context = process.current()?;
        let device = &process.device;
        device.charge(device.machine().host.alloc_ns)?;
        let owner = device.process()?;
        let bytes = bytes as u64;
        let made = device.transact(|state, _| {
            memory::allocate(state, owner, context.slot, bytes)
        })?;
        let made = made.ok_or(code::OUT_OF_MEMORY)?;
        if device.machine().memory.scrub {
            let scrubbed = process.contents.scrub(made.offset, made.taken);
            scrubbed.map_err(crate::device::DeviceError::State)?;
        }
        let address = BASE + made.offset;
        let mut tables = process.tables();
        let version = tables.next_version;
        tables.next_version += 1;
        let entry =
            AllocationEntry { bytes, context: context.slot, version, unwritten: false };
        tables.allocations.insert(address, entry);
        // SAFETY: the caller's place, checked for null above.
        unsafe { put(pointer, address) }
    }

    fn cuMemFree_v2(pointer: u64) {
        if pointer == 0 {
            return Ok(());
        }
        let process = process()?;
        let context = process.current()?;
        let known = process.ready()?.allocations.contains_key(&pointer);
        if !known {
            return Err(code::INVALID_VALUE);
        }
        let device = &process.device;
        // Freeing waits for the work that may still use the memory.
        device.wait_context(context.slot)?;
        crate::launch::finish_deferred(process, context.slot)?;
        device.charge(device.machine().host.free_ns)?;
        let owner = device.process()?;
        device.transact(|state, _| memory::release(state, owner, pointer - BASE))?;
        process.tables().allocations.remove(&pointer);
        Ok(())
    }

    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, pointer: u64) {
        let tables = process()?.ready()?;
        let (start, entry) = tables.covering(pointer, 1).ok_or(code::NOT_FOUND)?;
        // SAFETY: the caller's places; null means not wanted (cuda.h).
        unsafe {
            if !base.is_null() {
                put(base, start)?;
            }
            if !size.is_null() {
                put(size, entry.bytes as usize)?;
            }
        }
        Ok(())
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        host_alloc(pointer, bytes, flags)
    }

    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) {
        host_alloc(pointer, bytes, 0)
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        let process = process()?;
        process.current()?;
        let freed = process.ready()?.pinned.remove(&(pointer as usize));
        let (bytes, _) = freed.ok_or(code::INVALID_VALUE)?;
        let layout = layout(bytes)?;
        // SAFETY: allocated by `host_alloc` with this very layout, and taken off the list.
        unsafe { std::alloc::dealloc(pointer.cast(), layout) };
        Ok(())
    }

    fn cuMemHostGetDevicePointer_v2(
        device_pointer: *mut u64,
        pointer: *mut c_void,
        flags: c_uint,
    ) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        process.current()?;
        let known = process.ready()?.pinned.contains_key(&(pointer as usize));
        if !known {
            return Err(code::INVALID_VALUE);
        }
        // Unified addressing: a pinned pointer is its own device address.
        // SAFETY: the caller's place, checked for null.
        unsafe { put(device_pointer, pointer as u64) }
    }
}

fn layout(bytes: usize) -> Result<Layout, Code> {
    Layout::from_size_align(bytes, HOST_PAGE).map_err(|_| code::OUT_OF_MEMORY)
}

fn host_alloc(pointer: *mut *mut c_void, bytes: usize, flags: u32) -> Result<(), Code> {
    if pointer.is_null() || bytes == 0 || flags > 7 {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let context = process.current()?;
    process
        .device
        .charge(process.device.machine().host.alloc_ns)?;
    // SAFETY: the size is not zero.
    let made = unsafe { std::alloc::alloc_zeroed(layout(bytes)?) };
    if made.is_null() {
        return Err(code::OUT_OF_MEMORY);
    }
    process
        .tables()
        .pinned
        .insert(made as usize, (bytes, context.slot));
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(pointer, made.cast()) }
}
