//! Fills: the device writes one value over and over, in one row or in several.

use std::ffi::c_uint;

use gpubench_virtual_gpu_driver::calls::fills::{queue, row, rows};
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuMemsetD8_v2, cuMemsetD8_v2_ptds(pointer: u64, value: u8, count: usize) {
        queue(row(pointer, value.into(), 1, count), None)
    }

    fn cuMemsetD8Async, cuMemsetD8Async_ptsz(
        pointer: u64, value: u8, count: usize, stream: Handle,
    ) {
        queue(row(pointer, value.into(), 1, count), Some(stream))
    }

    fn cuMemsetD16_v2, cuMemsetD16_v2_ptds(pointer: u64, value: u16, count: usize) {
        queue(row(pointer, value.into(), 2, count), None)
    }

    fn cuMemsetD16Async, cuMemsetD16Async_ptsz(
        pointer: u64, value: u16, count: usize, stream: Handle,
    ) {
        queue(row(pointer, value.into(), 2, count), Some(stream))
    }

    fn cuMemsetD32_v2, cuMemsetD32_v2_ptds(pointer: u64, value: c_uint, count: usize) {
        queue(row(pointer, value, 4, count), None)
    }

    fn cuMemsetD32Async, cuMemsetD32Async_ptsz(
        pointer: u64, value: c_uint, count: usize, stream: Handle,
    ) {
        queue(row(pointer, value, 4, count), Some(stream))
    }

    fn cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds(
        pointer: u64, pitch: usize, value: u8, width: usize, height: usize,
    ) {
        queue(rows((pointer, pitch), (value.into(), 1), (width, height)), None)
    }

    fn cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz(
        pointer: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle,
    ) {
        queue(rows((pointer, pitch), (value.into(), 1), (width, height)), Some(stream))
    }

    fn cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds(
        pointer: u64, pitch: usize, value: u16, width: usize, height: usize,
    ) {
        queue(rows((pointer, pitch), (value.into(), 2), (width, height)), None)
    }

    fn cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz(
        pointer: u64, pitch: usize, value: u16, width: usize, height: usize, stream: Handle,
    ) {
        queue(rows((pointer, pitch), (value.into(), 2), (width, height)), Some(stream))
    }

    fn cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds(
        pointer: u64, pitch: usize, value: c_uint, width: usize, height: usize,
    ) {
        queue(rows((pointer, pitch), (value, 4), (width, height)), None)
    }

    fn cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz(
        pointer: u64, pitch: usize, value: c_uint, width: usize, height: usize, stream: Handle,
    ) {
        queue(rows((pointer, pitch), (value, 4), (width, height)), Some(stream))
    }
}
