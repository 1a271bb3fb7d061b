//! Host memory that the device may use: allocated for it, or the program's own, registered.
//!
//! Such memory has one address for host and device; kernels read and write it in place.

use std::ffi::{c_uint, c_void};

use crate::arguments::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::PinnedEntry;
use gpubench_virtual_gpu_driver::pinned::covering;
use gpubench_virtual_gpu_driver::process::process;

/// `CU_MEMHOSTREGISTER_IOMEMORY` (cuda.h): memory of another device, of which there is none.
const IO_MEMORY: c_uint = 4;

entries! {
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        allocate(pointer, bytes, flags)
    }

    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) {
        allocate(pointer, bytes, 0)
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        let process = process()?;
        let context = process.current()?;
        // Copies into it that have to be made once more must not come after it is gone.
        // Nor may a stream look at a word in it.
        let waiting = !process.ready()?.deferred_queues.is_empty();
        if waiting || gpubench_virtual_gpu_driver::launch::has_reruns(process, context.slot) {
            process.device.wait_context(context.slot)?;
            gpubench_virtual_gpu_driver::launch::finish_reruns(process, context.slot)?;
        }
        let mut tables = process.ready()?;
        let key = pointer as usize;
        let entry = tables.pinned.get(&key).copied().filter(|entry| !entry.registered);
        let entry = entry.ok_or(code::INVALID_VALUE)?;
        tables.pinned.remove(&key);
        let code = libc::munmap(pointer, entry.bytes);
        if code == 0 { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) {
        if pointer.is_null() || bytes == 0 || flags > 15 {
            return Err(code::INVALID_VALUE);
        }
        if flags & IO_MEMORY != 0 {
            return Err(code::NOT_SUPPORTED);
        }
        let process = process()?;
        let context = process.current()?;
        process.device.charge_locked(process.device.machine().host.alloc_ns)?;
        let start = pointer as usize;
        let end = start.checked_add(bytes).ok_or(code::INVALID_VALUE)?;
        let mut tables = process.ready()?;
        let below = tables.pinned.range(..end).next_back();
        if below.is_some_and(|(at, entry)| at + entry.bytes > start) {
            return Err(code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        // Device and managed memory is the driver's already.
        if tables.is_mapped(start as u64, bytes as u64) {
            return Err(code::INVALID_VALUE);
        }
        tables.pinned.insert(start, PinnedEntry {
            bytes,
            context: context.slot,
            flags,
            registered: true,
        });
        Ok(())
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        let process = process()?;
        let context = process.current()?;
        if pointer.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let key = pointer as usize;
        let known = process.ready()?.pinned.get(&key).is_some_and(|entry| entry.registered);
        if !known {
            return Err(code::HOST_MEMORY_NOT_REGISTERED);
        }
        // Results that kernels still owe this memory must not come after it is gone.
        process.device.wait_context(context.slot)?;
        gpubench_virtual_gpu_driver::launch::finish_reruns(process, context.slot)?;
        process.tables().pinned.remove(&key);
        Ok(())
    }

    fn cuMemHostGetDevicePointer_v2(device_pointer: *mut u64, pointer: *mut c_void, flags: c_uint) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        process.current()?;
        covering(&*process.ready()?, pointer as usize, 1).ok_or(code::INVALID_VALUE)?;
        // Unified addressing: a pinned pointer is its own device address.
        put(device_pointer, pointer as u64)
    }

    fn cuMemHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) {
        let tables = process()?.ready()?;
        let found = covering(&tables, pointer as usize, 1);
        let (_, entry) = found.filter(|(_, e)| !e.registered).ok_or(code::INVALID_VALUE)?;
        put(flags, entry.flags)
    }
}

unsafe fn allocate(pointer: *mut *mut c_void, bytes: usize, flags: u32) -> Result<(), Code> {
    if pointer.is_null() || bytes == 0 || flags > 7 {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let context = process.current()?;
    process
        .device
        .charge_locked(process.device.machine().host.alloc_ns)?;
    // Mapped and not taken from the heap, which would write every byte of it: untouched pages
    // costs nothing.
    let made = {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0)
    };
    if made == libc::MAP_FAILED {
        return Err(code::OUT_OF_MEMORY);
    }
    process.tables().pinned.insert(
        made as usize,
        PinnedEntry {
            bytes,
            context: context.slot,
            flags,
            registered: false,
        },
    );
    put(pointer, made)
}
