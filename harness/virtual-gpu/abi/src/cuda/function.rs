//! Kernels: their attributes, names and parameters, and how many blocks of them fit.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::Ordering;

use crate::arguments::{c_text, put, put_optional};
use ::gpubench_virtual_gpu_ptx as ptx;
use gpubench_virtual_gpu_driver::calls::function::{
    CARVE_OUT, CARVE_OUTS, OCCUPANCY_FLAGS, OF_LOADED, attribute_of, fitting, kernel_of,
    set_attribute,
};
use gpubench_virtual_gpu_driver::calls::library;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::launch;
use gpubench_virtual_gpu_driver::process::process;

/// `CUoccupancyB2DSize`: dynamic shared memory for a block of so many threads.
pub type SharedForBlock = unsafe extern "C" fn(c_int) -> usize;

entries! {
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) {
        let process = process()?;
        let entry = process.ready()?.functions.get(function)?.clone();
        if OF_LOADED.contains(&attribute) && !entry.loaded.load(Ordering::Relaxed) {
            return Err(code::FUNCTION_NOT_LOADED);
        }
        let found = attribute_of(process, &entry, attribute)?;
        put(value, found)
    }

    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        let process = process()?;
        let mut tables = process.ready()?;
        let entry = tables.functions.get_mut(function)?;
        if attribute == CARVE_OUT && CARVE_OUTS.contains(&value) {
            entry.carve_out = value;
        }
        set_attribute(process, &mut entry.max_dynamic_shared, attribute, value)
    }

    fn cuFuncSetCacheConfig, cuFuncSetSharedMemConfig(function: Handle, config: c_int) {
        let _ = config;
        process()?.ready()?.functions.get(function).map(|_| ())
    }

    fn cuFuncGetModule(module: *mut Handle, function: Handle) {
        let found = process()?.ready()?.functions.get(function)?.module;
        put(module, found as Handle)
    }

    fn cuFuncGetName(name: *mut *const c_char, function: Handle) {
        let tables = process()?.ready()?;
        let text = c_text(&tables.functions.get(function)?.name);
        put(name, text)
    }

    fn cuFuncGetParamInfo(function: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        let entry = process()?.ready()?.functions.get(function)?.clone();
        param_info(kernel_of(&entry)?, index, offset, size)
    }

    fn cuFuncGetParamCount(function: Handle, count: *mut usize) {
        let entry = process()?.ready()?.functions.get(function)?.clone();
        put(count, kernel_of(&entry)?.params.len())
    }

    // CU_FUNCTION_LOADING_STATE_LOADED is 1 (cuda.h).
    fn cuFuncIsLoaded(state: *mut c_int, function: Handle) {
        let tables = process()?.ready()?;
        let loaded = tables.functions.get(function)?.loaded.load(Ordering::Relaxed);
        put(state, c_int::from(loaded))
    }

    fn cuFuncLoad(function: Handle) {
        let tables = process()?.ready()?;
        tables.functions.get(function)?.loaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: Handle, threads: c_int, shared_bytes: usize,
    ) {
        occupancy(blocks, function, threads, shared_bytes, 0)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: Handle, threads: c_int, shared_bytes: usize, flags: c_uint,
    ) {
        occupancy(blocks, function, threads, shared_bytes, flags)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, function: Handle,
        shared_for_block: Option<SharedForBlock>, shared_bytes: usize, limit: c_int,
    ) {
        best_block(grid, block, function, (shared_for_block, shared_bytes), limit, 0)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut c_int, block: *mut c_int, function: Handle,
        shared_for_block: Option<SharedForBlock>, shared_bytes: usize, limit: c_int, flags: c_uint,
    ) {
        best_block(grid, block, function, (shared_for_block, shared_bytes), limit, flags)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        shared_bytes: *mut usize, function: Handle, blocks: c_int, threads: c_int,
    ) {
        let process = process()?;
        let entry = library::function(process, function)?;
        let kernel = kernel_of(&entry)?;
        let machine = process.device.machine();
        let (Ok(blocks), Ok(threads)) = (u32::try_from(blocks), u32::try_from(threads)) else {
            return Err(code::INVALID_VALUE);
        };
        let most = launch::blocks_per_sm(machine, kernel, threads, 0);
        if blocks == 0 || threads == 0 || blocks > most {
            return Err(code::INVALID_VALUE);
        }
        let each = (machine.gpu.shared_per_sm_kib << 10) / blocks;
        let taken = kernel.static_shared_bytes + machine.shared_reserved_bytes();
        let found = each.saturating_sub(taken);
        put(shared_bytes, found as usize)
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
    flags: c_uint,
) -> Result<(), Code> {
    let process = process()?;
    let entry = library::function(process, function)?;
    let kernel = kernel_of(&entry)?;
    let threads = u32::try_from(threads)
        .ok()
        .filter(|&t| t > 0 && flags <= OCCUPANCY_FLAGS);
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
    flags: c_uint,
) -> Result<(), Code> {
    let process = process()?;
    let entry = library::function(process, function)?;
    let kernel = kernel_of(&entry)?;
    let gpu = &process.device.machine().gpu;
    let most = attribute_of(process, &entry, 0)?;
    let most = if limit > 0 { most.min(limit) } else { most };
    if limit < 0 || flags > OCCUPANCY_FLAGS {
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
