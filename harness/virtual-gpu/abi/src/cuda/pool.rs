//! Stream-ordered allocation, and the pools that it takes memory from.
//!
//! A pool keeps what is freed until somebody waits, and then as much as its release threshold
//! says. Memory is given out and freed in the order of the calls: their effects on bytes happen
//! when they are made, so that no two uses of a page can meet.

use std::ffi::{c_int, c_void};

use crate::arguments::{put, read};
use crate::cuda::layout::{AccessDescriptor, Location, PoolProperties};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::PoolEntry;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::issue::perform;
use gpubench_virtual_gpu_driver::operation::{Action, WaitPolicy};
use gpubench_virtual_gpu_driver::pool::{
    device_pools, from_pool, pools_of, release, reserve, trim,
};
use gpubench_virtual_gpu_driver::process::{Process, process};
use gpubench_virtual_gpu_driver::submit::mark;

entries! {
    fn cuMemAllocAsync, cuMemAllocAsync_ptsz(pointer: *mut u64, bytes: usize, stream: Handle) {
        let process = process()?;
        let pool = device_pools(&mut *process.ready()?)?.1;
        allocate(process, pointer, bytes, pool, stream)
    }

    fn cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz(
        pointer: *mut u64, bytes: usize, pool: Handle, stream: Handle,
    ) {
        let process = process()?;
        process.ready()?.pools.get(pool)?;
        allocate(process, pointer, bytes, pool as usize, stream)
    }

    fn cuMemFreeAsync, cuMemFreeAsync_ptsz(pointer: u64, stream: Handle) {
        let process = process()?;
        let stream = process.stream(stream)?;
        if pointer == 0 {
            return Ok(());
        }
        perform(process, &stream, Action::Free(pointer), WaitPolicy::Later)
    }

    fn cuMemPoolCreate(pool: *mut Handle, properties: *const PoolProperties) {
        let properties = read(properties)?;
        // CU_MEM_ALLOCATION_TYPE_PINNED is 1 (cuda.h); pools for export are not there.
        if pool.is_null() || properties.kind != 1 || properties.location != Location::DEVICE {
            return Err(code::INVALID_VALUE);
        }
        if properties.handle_types != 0 {
            return Err(code::NOT_SUPPORTED);
        }
        let process = process()?;
        process.device.charge(process.device.machine().host.other_ns)?;
        let made = PoolEntry {
            max_bytes: properties.max_bytes as u64,
            reuse: [1; 3],
            ..PoolEntry::default()
        };
        let handle = process.ready()?.pools.insert(made)?;
        put(pool, handle)
    }

    fn cuMemPoolDestroy(pool: Handle) {
        let process = process()?;
        if process.ready()?.pools.get(pool)?.is_default {
            return Err(code::INVALID_VALUE);
        }
        let kept = {
            let mut tables = process.tables();
            let entry = tables.pools.remove(pool)?;
            if let Some((default, present)) = &mut tables.device_pools
                && *present == pool as usize
            {
                *present = *default;
            }
            entry.kept
        };
        release(process, &kept)
    }

    fn cuMemPoolTrimTo(pool: Handle, keep_bytes: usize) {
        trim(process()?, pool as usize, keep_bytes as u64)
    }

    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        if value.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let mut tables = process.ready()?;
        let entry = tables.pools.get_mut(pool)?;
        set_attribute(entry, attribute, value)
    }

    fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        let process = process()?;
        let tables = process.ready()?;
        let entry = tables.pools.get(pool)?;
        // An H100 80GB HBM3 refused them (driver 580.159.04 of CUDA 13.0, 2026-11-22).
        if attribute > 8 && !process.device.machine().is_after_cuda_13_0() {
            return Err(code::INVALID_VALUE);
        }
        get_attribute(entry, attribute, value)
    }

    fn cuMemPoolSetAccess(pool: Handle, access: *const AccessDescriptor, count: usize) {
        let process = process()?;
        process.ready()?.pools.get(pool)?;
        // The device that owns the pool cannot be locked out of it, and there is no other.
        for index in 0..count.min(64) {
            let access = read(access.wrapping_add(index))?;
            if access.location != Location::DEVICE || access.flags != 3 {
                return Err(code::INVALID_VALUE);
            }
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(flags: *mut c_int, pool: Handle, location: *const Location) {
        let process = process()?;
        process.ready()?.pools.get(pool)?;
        let known = read(location)? == Location::DEVICE;
        put(flags, if known { 3 } else { 0 })
    }

    fn cuDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int) {
        put(pool, pools_of(device)?.0 as Handle)
    }

    fn cuDeviceGetMemPool(pool: *mut Handle, device: c_int) {
        put(pool, pools_of(device)?.1 as Handle)
    }

    fn cuDeviceSetMemPool(device: c_int, pool: Handle) {
        let pools = pools_of(device)?;
        let mut tables = process()?.ready()?;
        tables.pools.get(pool)?;
        tables.device_pools = Some((pools.0, pool as usize));
        Ok(())
    }
}

/// # Safety
/// `value` points at a value of the attribute's type.
unsafe fn set_attribute(
    pool: &mut PoolEntry,
    attribute: c_int,
    value: *mut c_void,
) -> Result<(), Code> {
    match attribute {
        1..=3 => pool.reuse[attribute as usize - 1] = value.cast::<c_int>().read(),
        4 => pool.release_threshold = value.cast::<u64>().read(),
        6 | 8 => {
            // High watermarks can be set back to the present only, by a 0.
            if value.cast::<u64>().read() != 0 {
                return Err(code::INVALID_VALUE);
            }
            let mark = if attribute == 6 {
                &mut pool.reserved
            } else {
                &mut pool.used
            };
            mark.1 = mark.0;
        }
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}

/// # Safety
/// `value` is null or valid for a value of the attribute's type.
unsafe fn get_attribute(
    pool: &PoolEntry,
    attribute: c_int,
    value: *mut c_void,
) -> Result<(), Code> {
    let wide = match attribute {
        4 => Some(pool.release_threshold),
        5 => Some(pool.reserved.0),
        6 => Some(pool.reserved.1),
        7 => Some(pool.used.0),
        8 => Some(pool.used.1),
        13 => Some(pool.max_bytes),
        _ => None,
    };
    if let Some(wide) = wide {
        return put(value.cast(), wide);
    }
    let narrow: c_int = match attribute {
        1..=3 => pool.reuse[attribute as usize - 1],
        // Allocation type, export handle types, location id, location type, decompression.
        9 => 1,
        10 | 11 | 14 => 0,
        12 => 1,
        _ => return Err(code::INVALID_VALUE),
    };
    put(value.cast(), narrow)
}

unsafe fn allocate(
    process: &Process,
    pointer: *mut u64,
    bytes: usize,
    pool: usize,
    stream: Handle,
) -> Result<(), Code> {
    let stream = process.stream(stream)?;
    if pointer.is_null() || bytes == 0 {
        return Err(code::INVALID_VALUE);
    }
    let bytes = bytes as u64;
    let address = if process.tables().captures.contains_key(&stream.slot) {
        let reserved = reserve(process, bytes)?;
        perform(
            process,
            &stream,
            Action::Allocate(reserved),
            WaitPolicy::Later,
        )?;
        reserved.address
    } else {
        let address = from_pool(process, &stream, pool, bytes)?;
        // The place at which the memory changes hands.
        mark(process, &stream)?;
        address
    };
    put(pointer, address)
}
