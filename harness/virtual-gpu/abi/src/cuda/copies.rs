//! The entry points that copy.

use std::ffi::c_void;

use gpubench_virtual_gpu_driver::calls::copies::{anywhere, device, host, queue};
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds(to: u64, from: *const c_void, bytes: usize) {
        queue(device(to), host(from), bytes, None)
    }

    fn cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz(
        to: u64, from: *const c_void, bytes: usize, stream: Handle,
    ) {
        queue(device(to), host(from), bytes, Some(stream))
    }

    fn cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: u64, bytes: usize) {
        queue(host(to), device(from), bytes, None)
    }

    fn cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz(
        to: *mut c_void, from: u64, bytes: usize, stream: Handle,
    ) {
        queue(host(to), device(from), bytes, Some(stream))
    }

    fn cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz(
        to: u64, from: u64, bytes: usize, stream: Handle,
    ) {
        queue(device(to), device(from), bytes, Some(stream))
    }

    fn cuMemcpyAsync, cuMemcpyAsync_ptsz(to: u64, from: u64, bytes: usize, stream: Handle) {
        queue(anywhere(to), anywhere(from), bytes, Some(stream))
    }
}
