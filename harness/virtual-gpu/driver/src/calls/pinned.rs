//! Calls on host memory that the device may use: allocated for it, or registered.
//!
//! Such memory has one address for host and device; kernels read and write it in place.
#![expect(unsafe_code, reason = "host memory is mapped and unmapped")]

use std::ffi::{c_uint, c_void};

use super::wait_for_context;
use crate::code::{self, Code, refuse};
use crate::entries::PinnedEntry;
use crate::launch;
use crate::pinned::covering;
use crate::process::process;

/// `CU_MEMHOSTREGISTER_IOMEMORY` (cuda.h): memory of another device, of which there is none.
const IO_MEMORY: c_uint = 4;

pub fn allocate(bytes: usize, flags: c_uint) -> Result<*mut c_void, Code> {
    refuse(bytes == 0 || flags > 7, code::INVALID_VALUE)?;
    let process = process()?;
    let context = process.current()?.slot;
    process.charge_locked(process.host().alloc_ns)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // Not from the heap, which would write every byte: untouched pages cost nothing.
    // SAFETY: a new private mapping.
    let made = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    refuse(made == libc::MAP_FAILED, code::OUT_OF_MEMORY)?;
    // Programs that lock much write all of it, and large pages are cleared sooner. A refusal is
    // harmless.
    // SAFETY: the mapping that was just made.
    unsafe { libc::madvise(made, bytes, libc::MADV_HUGEPAGE) };
    let entry = PinnedEntry { bytes, context, registered: false };
    process.tables().pinned.insert(made as usize, entry);
    Ok(made)
}

pub fn free(address: usize) -> Result<(), Code> {
    let process = process()?;
    let context = process.current()?;
    // No copy into it may be repeated after it is unmapped.
    if launch::has_reruns(process, context.slot) {
        wait_for_context(process, context.slot)?;
    }
    let mut tables = process.ready()?;
    let entry = tables.pinned.get(&address);
    let entry = entry.filter(|entry| !entry.registered);
    let bytes = entry.ok_or(code::INVALID_VALUE)?.bytes;
    tables.pinned.remove(&address);
    // Other contents may get this address.
    let freed = address as u64..(address + bytes) as u64;
    tables.copies.retain(|_, copy| !freed.contains(&copy.from));
    // SAFETY: mapped by `allocate` with this length, and no longer in the table.
    match unsafe { libc::munmap(address as *mut c_void, bytes) } {
        0 => Ok(()),
        _ => Err(code::INVALID_VALUE),
    }
}

pub fn register(pointer: *mut c_void, bytes: usize, flags: c_uint) -> Result<(), Code> {
    refuse(pointer.is_null() || bytes == 0 || flags > 15, code::INVALID_VALUE)?;
    refuse(flags & IO_MEMORY != 0, code::NOT_SUPPORTED)?;
    let process = process()?;
    let context = process.current()?.slot;
    process.charge_locked(process.host().alloc_ns)?;
    let start = pointer as usize;
    let end = start.checked_add(bytes).ok_or(code::INVALID_VALUE)?;
    let mut tables = process.ready()?;
    let below = tables.pinned.range(..end).next_back();
    if below.is_some_and(|(at, entry)| at + entry.bytes > start) {
        return Err(code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    // Device and managed memory belongs to the driver already.
    refuse(tables.is_mapped(start as u64, bytes as u64), code::INVALID_VALUE)?;
    let entry = PinnedEntry { bytes, context, registered: true };
    tables.pinned.insert(start, entry);
    Ok(())
}

/// Ends a registration once the work that may still write there is done.
pub fn unregister(pointer: *mut c_void) -> Result<(), Code> {
    let process = process()?;
    let context = process.current()?;
    refuse(pointer.is_null(), code::INVALID_VALUE)?;
    let key = pointer as usize;
    let entry = process.ready()?.pinned.get(&key).copied();
    refuse(!entry.is_some_and(|entry| entry.registered), code::HOST_MEMORY_NOT_REGISTERED)?;
    wait_for_context(process, context.slot)?;
    process.tables().pinned.remove(&key);
    Ok(())
}

/// Device address of pinned memory: under unified addressing its own.
pub fn device_pointer(pointer: *mut c_void, flags: c_uint) -> Result<u64, Code> {
    refuse(flags != 0, code::INVALID_VALUE)?;
    let process = process()?;
    process.current()?;
    covering(&*process.ready()?, pointer as usize, 1).ok_or(code::INVALID_VALUE)?;
    Ok(pointer as u64)
}
