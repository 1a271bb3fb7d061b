//! Managed memory: one address for host and device.

use std::ffi::c_uint;

use crate::arguments::put_new;
use gpubench_virtual_gpu_driver::calls::managed;
use gpubench_virtual_gpu_driver::code;

entries! {
    fn cuMemAllocManaged(pointer: *mut u64, bytes: usize, flags: c_uint) {
        // CU_MEM_ATTACH_GLOBAL and CU_MEM_ATTACH_HOST are 1 and 2 (cuda.h).
        if bytes == 0 || !(1..=2).contains(&flags) {
            return Err(code::INVALID_VALUE);
        }
        put_new(pointer, || managed::allocate(bytes))
    }
}
