//! Host memory that the device may use.

use std::ffi::{c_uint, c_void};

use crate::arguments::{put, put_new};
use gpubench_virtual_gpu_driver::calls::pinned;

entries! {
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        put_new(pointer, || pinned::allocate(bytes, flags))
    }

    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) {
        put_new(pointer, || pinned::allocate(bytes, 0))
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        pinned::free(pointer as usize)
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) {
        pinned::register(pointer, bytes, flags)
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        pinned::unregister(pointer)
    }

    fn cuMemHostGetDevicePointer_v2(
        device_pointer: *mut u64, pointer: *mut c_void, flags: c_uint,
    ) {
        put(device_pointer, pinned::device_pointer(pointer, flags)?)
    }
}
