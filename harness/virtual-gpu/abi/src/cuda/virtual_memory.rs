//! Physical memory, address ranges, and the maps between them.

use std::ffi::{c_int, c_ulonglong, c_void};

use crate::arguments::{put, read};
use crate::cuda::layout::{AccessDescriptor, AllocationProperties, Location};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::device_memory::take;
use gpubench_virtual_gpu_driver::entries::{Origin, PhysicalEntry};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::virtual_memory::{
    GRANULARITY, held, is_whole, let_go, whole_maps,
};

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
        let properties = read(properties)?;
        check_properties(&properties)?;
        let bytes = bytes as u64;
        if handle.is_null() || !is_whole(bytes) || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let context = process.current()?;
        process.device.charge_locked(process.device.machine().host.alloc_ns)?;
        let made = take(process, context.slot, bytes)?;
        let made = process.tables().physical.insert(PhysicalEntry {
            offset: made.offset,
            bytes,
            context: context.slot,
            holders: 1,
            handles: 1,
            exportable: properties.handle_types == 1,
            number: made.number,
            imported: false,
        })?;
        put(handle, made as u64)
    }

    fn cuMemRelease(handle: u64) {
        let process = process()?;
        {
            let mut tables = process.ready()?;
            held(&mut tables, handle)?.handles -= 1;
        }
        let_go(process, handle as usize)
    }

    fn cuMemRetainAllocationHandle(handle: *mut u64, pointer: *mut c_void) {
        if handle.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let mut tables = process()?.ready()?;
        let found = tables.covering(pointer as u64, 1).map(|(_, entry)| entry.origin.clone());
        let Some(Origin::Mapped(physical)) = found else {
            return Err(code::INVALID_VALUE);
        };
        let entry = tables.physical.get_mut(physical as Handle)?;
        entry.handles += 1;
        entry.holders += 1;
        put(handle, physical as u64)
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: *mut AllocationProperties, handle: u64) {
        let mut tables = process()?.ready()?;
        let handle_types = c_int::from(held(&mut tables, handle)?.exportable);
        let found = AllocationProperties {
            kind: 1,
            handle_types,
            location: Location::DEVICE,
            win32_metadata: std::ptr::null_mut(),
            flags: [0; 8],
        };
        put(properties, found)
    }

    fn cuMemAddressReserve(
        pointer: *mut u64, bytes: usize, alignment: usize, wish: u64, flags: c_ulonglong,
    ) {
        let bytes = bytes as u64;
        let aligned = alignment == 0 || alignment.is_power_of_two();
        if pointer.is_null() || !is_whole(bytes) || !aligned || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let mut tables = process()?.ready()?;
        let alignment = (alignment as u64).max(GRANULARITY);
        let address = tables.addresses.take(bytes, alignment, wish);
        put(pointer, address.ok_or(code::OUT_OF_MEMORY)?)
    }

    fn cuMemAddressFree(pointer: u64, bytes: usize) {
        let mut tables = process()?.ready()?;
        let bytes = bytes as u64;
        if tables.is_mapped(pointer, bytes) || !tables.addresses.give_back(pointer, bytes) {
            return Err(code::INVALID_VALUE);
        }
        Ok(())
    }

    fn cuMemMap(pointer: u64, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong) {
        let process = process()?;
        let context = process.current()?;
        process.device.charge(process.device.machine().host.other_ns)?;
        let mut tables = process.ready()?;
        let physical = *held(&mut tables, handle)?;
        let bytes = bytes as u64;
        let fits = bytes <= physical.bytes && tables.addresses.holds(pointer, bytes);
        // An offset is not taken yet (cuMemMap).
        if !is_whole(bytes) || !is_whole(pointer) || !fits || offset != 0 || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        if tables.is_mapped(pointer, bytes) {
            return Err(code::ALREADY_MAPPED);
        }
        let origin = Origin::Mapped(handle as usize);
        tables.enter(pointer, bytes, context.slot, physical.offset, origin.clone());
        if let Some(entry) = tables.allocations.get_mut(&pointer) {
            (entry.readable, entry.writable) = (false, false);
            entry.open = physical.exportable;
        }
        held(&mut tables, handle)?.holders += 1;
        // What is mapped twice can be written here and read there.
        let twice = tables.allocations.values().filter(|a| a.origin == origin).count() > 1;
        if twice {
            let both = tables.allocations.values_mut().filter(|a| a.origin == origin);
            both.for_each(|entry| entry.open = true);
        }
        Ok(())
    }

    fn cuMemUnmap(pointer: u64, bytes: usize) {
        let process = process()?;
        let context = process.current()?;
        whole_maps(&*process.ready()?, pointer, bytes as u64)?;
        // Unmapping waits for the work that may still use the addresses.
        process.device.wait_context(context.slot)?;
        gpubench_virtual_gpu_driver::launch::finish_reruns(process, context.slot)?;
        process.device.charge(process.device.machine().host.other_ns)?;
        let maps = whole_maps(&*process.ready()?, pointer, bytes as u64)?;
        for (address, physical) in maps {
            process.tables().allocations.remove(&address);
            let_go(process, physical)?;
        }
        Ok(())
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

    fn cuMemGetAccess(flags: *mut c_ulonglong, location: *const Location, pointer: u64) {
        if read(location)? != Location::DEVICE {
            return Err(code::INVALID_VALUE);
        }
        let tables = process()?.ready()?;
        let (_, entry) = tables.covering(pointer, 1).ok_or(code::INVALID_VALUE)?;
        let found = c_ulonglong::from(entry.readable) | c_ulonglong::from(entry.writable) << 1;
        put(flags, found)
    }
}

fn check_properties(properties: &AllocationProperties) -> Result<(), Code> {
    // CU_MEM_ALLOCATION_TYPE_PINNED is 1; of the handle types, the file descriptor is 1 (cuda.h).
    if properties.kind != 1 || properties.location != Location::DEVICE {
        return Err(code::INVALID_VALUE);
    }
    match properties.handle_types {
        0 | 1 => Ok(()),
        2 | 4 | 8 => Err(code::NOT_SUPPORTED),
        _ => Err(code::INVALID_VALUE),
    }
}
