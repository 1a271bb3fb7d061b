//! Memory pools and stream-ordered allocation.

use std::ffi::{c_int, c_void};

use crate::arguments::{put, put_new, read};
use crate::cuda::layout::{AccessDescriptor, Location, PoolProperties};
use gpubench_virtual_gpu_driver::calls::pool;
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::pool::default_of;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuMemAllocAsync, cuMemAllocAsync_ptsz(pointer: *mut u64, bytes: usize, stream: Handle) {
        put_new(pointer, || pool::allocate(None, bytes, stream))
    }

    fn cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz(
        pointer: *mut u64, bytes: usize, pool: Handle, stream: Handle,
    ) {
        put_new(pointer, || pool::allocate(Some(pool), bytes, stream))
    }

    fn cuMemFreeAsync, cuMemFreeAsync_ptsz(pointer: u64, stream: Handle) {
        pool::free(pointer, stream)
    }

    fn cuMemPoolCreate(pool: *mut Handle, properties: *const PoolProperties) {
        let properties = read(properties)?;
        // CU_MEM_ALLOCATION_TYPE_PINNED is 1 (cuda.h). Pools cannot be exported.
        if properties.kind != 1 || properties.location != Location::DEVICE {
            return Err(code::INVALID_VALUE);
        }
        if properties.handle_types != 0 {
            return Err(code::NOT_SUPPORTED);
        }
        put_new(pool, || pool::create(properties.max_bytes as u64))
    }

    fn cuMemPoolDestroy(pool: Handle) {
        pool::destroy(pool)
    }

    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        // The first three attributes are of type int, the others are 64-bit numbers (cuda.h).
        let value = match attribute {
            1..=3 => read(value.cast::<c_int>())? as u64,
            4 | 6 | 8 => read(value.cast::<u64>())?,
            _ => return Err(code::INVALID_VALUE),
        };
        pool::set_attribute(process()?.ready()?.pools.get_mut(pool)?, attribute, value)
    }

    fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        let process = process()?;
        let tables = process.ready()?;
        let entry = tables.pools.get(pool)?;
        // An H100 80GB HBM3 refused them (driver 580.159.04 of CUDA 13.0, 2026-11-22).
        if attribute > 8 && !process.device.machine().is_after_cuda_13_0() {
            return Err(code::INVALID_VALUE);
        }
        match pool::attribute_of(entry, attribute)? {
            (found, true) => put(value.cast(), found),
            (found, false) => put(value.cast(), found as c_int),
        }
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

    // Programs cannot replace the default pool of the device.
    fn cuDeviceGetDefaultMemPool, cuDeviceGetMemPool(pool: *mut Handle, device: c_int) {
        put(pool, default_of(device)? as Handle)
    }
}
