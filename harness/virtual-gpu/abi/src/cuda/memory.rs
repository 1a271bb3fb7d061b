//! Device memory.

use std::ffi::c_uint;

use crate::arguments::{put, put_new, put_optional};
use gpubench_virtual_gpu_driver::calls::memory;
use gpubench_virtual_gpu_driver::code;

entries! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let (left, all) = memory::info()?;
        put(free, left as usize)?;
        put(total, all as usize)
    }

    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) {
        put_new(pointer, || memory::allocate(bytes))
    }

    fn cuMemAllocPitch_v2(
        pointer: *mut u64, pitch: *mut usize, width_bytes: usize, height: usize,
        element_bytes: c_uint,
    ) {
        let row = memory::pitch(width_bytes, element_bytes)?;
        put_new(pitch, || {
            let bytes = row.checked_mul(height).ok_or(code::OUT_OF_MEMORY)?;
            put_new(pointer, || memory::allocate(bytes))?;
            Ok(row)
        })
    }

    fn cuMemFree_v2(pointer: u64) {
        memory::free(pointer)
    }

    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, pointer: u64) {
        let (start, bytes) = memory::range_of(pointer)?;
        put_optional(base, start);
        put_optional(size, bytes);
        Ok(())
    }
}
