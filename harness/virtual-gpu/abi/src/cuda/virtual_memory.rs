//! Physical memory, address ranges, and the maps between them.

use std::ffi::{c_int, c_ulonglong, c_void};

use crate::arguments::{put, put_new, read};
use crate::cuda::layout::{AccessDescriptor, AllocationProperties, Location};
use gpubench_virtual_gpu_driver::calls::virtual_memory;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::virtual_memory::{GRANULARITY, whole_maps};

entries! {
    fn cuMemGetAllocationGranularity(
        bytes: *mut usize, properties: *const AllocationProperties, which: c_int,
    ) {
        check_properties(&read(properties)?)?;
        if !(0..=1).contains(&which) {
            return Err(code::INVALID_VALUE);
        }
        drop(process()?.ready()?);
        put(bytes, GRANULARITY as usize)
    }

    fn cuMemCreate(
        handle: *mut u64, bytes: usize, properties: *const AllocationProperties, flags: c_ulonglong,
    ) {
        check_properties(&read(properties)?)?;
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        put_new(handle, || virtual_memory::create(bytes as u64))
    }

    fn cuMemRelease(handle: u64) {
        virtual_memory::release(handle)
    }

    fn cuMemRetainAllocationHandle(handle: *mut u64, pointer: *mut c_void) {
        put_new(handle, || virtual_memory::retain(pointer as u64))
    }

    fn cuMemAddressReserve(
        pointer: *mut u64, bytes: usize, alignment: usize, wish: u64, flags: c_ulonglong,
    ) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        put_new(pointer, || virtual_memory::reserve(bytes as u64, alignment, wish))
    }

    fn cuMemAddressFree(pointer: u64, bytes: usize) {
        virtual_memory::free(pointer, bytes as u64)
    }

    fn cuMemMap(pointer: u64, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong) {
        // The header allows no offset yet (cuMemMap).
        if offset != 0 || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        virtual_memory::map(pointer, bytes as u64, handle)
    }

    fn cuMemUnmap(pointer: u64, bytes: usize) {
        virtual_memory::unmap(pointer, bytes as u64)
    }

    fn cuMemSetAccess(pointer: u64, bytes: usize, access: *const AccessDescriptor, count: usize) {
        let process = process()?;
        let mut tables = process.ready()?;
        let maps = whole_maps(&tables, pointer, bytes as u64)?;
        if count == 0 {
            return Err(code::INVALID_VALUE);
        }
        for index in 0..count.min(64) {
            let access = read(access.wrapping_add(index))?;
            // CU_MEM_ACCESS_FLAGS_PROT_NONE, READ and READWRITE are 0, 1 and 3 (cuda.h).
            if access.location != Location::DEVICE || ![0, 1, 3].contains(&access.flags) {
                return Err(code::INVALID_VALUE);
            }
            for (address, _) in &maps {
                if let Some(entry) = tables.allocations.get_mut(address) {
                    entry.readable = access.flags & 1 != 0;
                    entry.writable = access.flags & 2 != 0;
                }
            }
        }
        Ok(())
    }
}

fn check_properties(properties: &AllocationProperties) -> Result<(), Code> {
    // CU_MEM_ALLOCATION_TYPE_PINNED is 1; of the handle types, the file descriptor is 1 (cuda.h).
    // A program may ask for one, though no call makes it.
    if properties.kind != 1 || properties.location != Location::DEVICE {
        return Err(code::INVALID_VALUE);
    }
    match properties.handle_types {
        0 | 1 => Ok(()),
        2 | 4 | 8 => Err(code::NOT_SUPPORTED),
        _ => Err(code::INVALID_VALUE),
    }
}
