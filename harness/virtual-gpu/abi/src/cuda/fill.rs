//! Fills: the device writes one value over and over.

use std::ffi::c_uint;

use gpubench_virtual_gpu_driver::calls::fills::queue;
use gpubench_virtual_gpu_driver::fill_shape::Fill;
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuMemsetD8_v2, cuMemsetD8_v2_ptds(pointer: u64, value: u8, count: usize) {
        queue(Fill::of(pointer, value.into(), 1, count), None)
    }

    fn cuMemsetD8Async, cuMemsetD8Async_ptsz(
        pointer: u64, value: u8, count: usize, stream: Handle,
    ) {
        queue(Fill::of(pointer, value.into(), 1, count), Some(stream))
    }

    fn cuMemsetD16Async, cuMemsetD16Async_ptsz(
        pointer: u64, value: u16, count: usize, stream: Handle,
    ) {
        queue(Fill::of(pointer, value.into(), 2, count), Some(stream))
    }

    fn cuMemsetD32_v2, cuMemsetD32_v2_ptds(pointer: u64, value: c_uint, count: usize) {
        queue(Fill::of(pointer, value, 4, count), None)
    }

    fn cuMemsetD32Async, cuMemsetD32Async_ptsz(
        pointer: u64, value: c_uint, count: usize, stream: Handle,
    ) {
        queue(Fill::of(pointer, value, 4, count), Some(stream))
    }
}
