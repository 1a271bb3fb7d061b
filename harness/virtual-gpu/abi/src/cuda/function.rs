//! Kernels: their attributes and parameters, and how many blocks of them fit.

use std::ffi::c_int;

use crate::arguments::{put, put_optional};
use ::gpubench_virtual_gpu_ptx as ptx;
use gpubench_virtual_gpu_driver::calls::function::{attribute_of, fitting, kernel_of};
use gpubench_virtual_gpu_driver::calls::library;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

/// `CUoccupancyB2DSize`: dynamic shared memory for a block of so many threads.
pub type SharedForBlock = unsafe extern "C" fn(c_int) -> usize;

entries! {
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) {
        let process = process()?;
        let entry = process.ready()?.functions.get(function)?.clone();
        let found = attribute_of(process, &entry, attribute)?;
        put(value, found)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: Handle, threads: c_int, shared_bytes: usize,
    ) {
        occupancy(blocks, function, threads, shared_bytes)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, function: Handle,
        shared_for_block: Option<SharedForBlock>, shared_bytes: usize, limit: c_int,
    ) {
        best_block(grid, block, function, (shared_for_block, shared_bytes), limit)
    }
}

/// Where a parameter lies in the argument buffer.
pub unsafe fn param_info(
    kernel: &ptx::Kernel,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> Result<(), Code> {
    let param = kernel.params.get(index).ok_or(code::INVALID_VALUE)?;
    put(offset, param.offset as usize)?;
    put_optional(size, param.bytes as usize);
    Ok(())
}

unsafe fn occupancy(
    blocks: *mut c_int,
    function: Handle,
    threads: c_int,
    shared_bytes: usize,
) -> Result<(), Code> {
    let process = process()?;
    let entry = library::function(process, function)?;
    let kernel = kernel_of(&entry)?;
    let threads = u32::try_from(threads).ok().filter(|&t| t > 0);
    let threads = threads.ok_or(code::INVALID_VALUE)?;
    let fit = fitting(process, kernel, threads, shared_bytes);
    put(blocks, fit as c_int)
}

/// The block size at which most threads fit on an SM; of several, the largest.
unsafe fn best_block(
    grid: *mut c_int,
    block: *mut c_int,
    function: Handle,
    (shared_for_block, shared_bytes): (Option<SharedForBlock>, usize),
    limit: c_int,
) -> Result<(), Code> {
    let process = process()?;
    let entry = library::function(process, function)?;
    let kernel = kernel_of(&entry)?;
    let gpu = &process.device.machine().gpu;
    let most = attribute_of(process, &entry, 0)?;
    let most = if limit > 0 { most.min(limit) } else { most };
    if limit < 0 {
        return Err(code::INVALID_VALUE);
    }
    let mut best = (0, 0, 0);
    let whole_warps = (1..=most / 32).rev().map(|warps| warps * 32);
    for threads in whole_warps.chain((most < 32).then_some(most)) {
        let shared = match shared_for_block {
            Some(call) => call(threads),
            None => shared_bytes,
        };
        let fit = fitting(process, kernel, threads.unsigned_abs(), shared) as c_int;
        if fit * threads > best.0 {
            best = (fit * threads, fit, threads);
        }
    }
    let sms = c_int::try_from(gpu.sm_count).map_err(|_| code::INVALID_VALUE)?;
    put(grid, best.1 * sms)?;
    put(block, best.2)
}
