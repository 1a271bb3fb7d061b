//! The entry points that copy: plain, between contexts, and of rectangles and boxes.

use std::ffi::c_void;

use crate::arguments::read;
use crate::cuda::layout::{Copy2d, Copy3d};
use gpubench_virtual_gpu_driver::calls::copies::{
    anywhere, device, host, in_array, known_contexts, plain, queue,
};
use gpubench_virtual_gpu_driver::code::Code;
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds(to: u64, from: *const c_void, bytes: usize) {
        plain(device(to), host(from), bytes, None)
    }

    fn cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz(
        to: u64, from: *const c_void, bytes: usize, stream: Handle,
    ) {
        plain(device(to), host(from), bytes, Some(stream))
    }

    fn cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: u64, bytes: usize) {
        plain(host(to), device(from), bytes, None)
    }

    fn cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz(
        to: *mut c_void, from: u64, bytes: usize, stream: Handle,
    ) {
        plain(host(to), device(from), bytes, Some(stream))
    }

    fn cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: usize) {
        plain(device(to), device(from), bytes, None)
    }

    fn cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz(
        to: u64, from: u64, bytes: usize, stream: Handle,
    ) {
        plain(device(to), device(from), bytes, Some(stream))
    }

    fn cuMemcpy, cuMemcpy_ptds(to: u64, from: u64, bytes: usize) {
        plain(anywhere(to), anywhere(from), bytes, None)
    }

    fn cuMemcpyAsync, cuMemcpyAsync_ptsz(to: u64, from: u64, bytes: usize, stream: Handle) {
        plain(anywhere(to), anywhere(from), bytes, Some(stream))
    }

    fn cuMemcpyPeer, cuMemcpyPeer_ptds(
        to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize,
    ) {
        known_contexts(&[to_context, from_context])?;
        plain(device(to), device(from), bytes, None)
    }

    fn cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz(
        to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize, stream: Handle,
    ) {
        known_contexts(&[to_context, from_context])?;
        plain(device(to), device(from), bytes, Some(stream))
    }

    fn cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds(
        array: Handle, offset: usize, from: *const c_void, bytes: usize,
    ) {
        plain(in_array(array, offset, bytes), host(from), bytes, None)
    }

    fn cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds(
        to: *mut c_void, array: Handle, offset: usize, bytes: usize,
    ) {
        plain(host(to), in_array(array, offset, bytes), bytes, None)
    }

    fn cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds(
        copy: *const Copy2d,
    ) {
        shaped(two_sides(copy)?, None)
    }

    fn cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz(copy: *const Copy2d, stream: Handle) {
        shaped(two_sides(copy)?, Some(stream))
    }

    fn cuMemcpy3D_v2, cuMemcpy3D_v2_ptds(copy: *const Copy3d) {
        shaped(read(copy)?, None)
    }

    fn cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz(copy: *const Copy3d, stream: Handle) {
        shaped(read(copy)?, Some(stream))
    }
}

unsafe fn two_sides(copy: *const Copy2d) -> Result<Copy3d, Code> {
    read(copy).map(Into::into)
}

fn shaped(copy: Copy3d, stream: Option<Handle>) -> Result<(), Code> {
    queue(|process| copy.resolve(process), stream)
}
