//! Kernels: their attributes, and how many blocks of them fit.

use std::ffi::{c_int, c_uint};

use crate::code::{self, Code};
use crate::entries::FunctionEntry;
use crate::launch;
pub use crate::launch::kernel_of;
use crate::process::Process;
use ::gpubench_virtual_gpu_ptx as ptx;

/// Attributes (`CUfunction_attribute`, cuda.h) that a function has only once it is loaded: threads,
/// constant memory, dynamic shared memory. Measured on an H100 80GB HBM3, driver 580.159.04,
/// 2026-11-22.
pub const OF_LOADED: [c_int; 3] = [0, 2, 8];

/// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT` (cuda.h).
pub const CARVE_OUT: c_int = 9;

/// What it can be: -1 for the default, else a percentage.
pub const CARVE_OUTS: std::ops::RangeInclusive<c_int> = -1..=100;

/// An attribute of a kernel, by its number in `CUfunction_attribute` (cuda.h).
pub fn attribute_of(
    process: &Process,
    function: &FunctionEntry,
    attribute: c_int,
) -> Result<c_int, Code> {
    let kernel = kernel_of(function)?;
    let gpu = &process.device.machine().gpu;
    let (major, minor) = process.device.machine().compute_capability();
    let declared = kernel.max_threads.or(kernel.required_threads);
    let threads = declared.map_or(gpu.max_threads_per_block, |sides| sides.iter().product());
    // Of `.target sm_70`, the 70.
    let target = function
        .program
        .module()
        .target
        .trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = target.chars().take_while(char::is_ascii_digit);
    let found = match attribute {
        0 => threads,
        1 => kernel.static_shared_bytes,
        CARVE_OUT => return Ok(function.carve_out),
        2 | 7 | 10..=14 => 0,
        3 => kernel.local_bytes,
        4 => kernel.registers,
        5 => digits
            .collect::<String>()
            .parse()
            .unwrap_or(major * 10 + minor),
        6 => major * 10 + minor,
        8 => function
            .max_dynamic_shared
            .max(gpu.shared_per_block_kib << 10),
        _ => return Err(code::INVALID_VALUE),
    };
    c_int::try_from(found).map_err(|_| code::INVALID_VALUE)
}

/// Sets an attribute, of which only dynamic shared memory has an effect.
pub fn set_attribute(
    process: &Process,
    max_dynamic_shared: &mut u32,
    attribute: c_int,
    value: c_int,
) -> Result<(), Code> {
    match attribute {
        8 => {
            let limit = process.device.machine().shared_opt_in_bytes();
            let bytes = u32::try_from(value).map_err(|_| code::INVALID_VALUE)?;
            if bytes > limit {
                return Err(code::INVALID_VALUE);
            }
            *max_dynamic_shared = bytes;
            Ok(())
        }
        // A hint.
        CARVE_OUT if CARVE_OUTS.contains(&value) => Ok(()),
        _ => Err(code::INVALID_VALUE),
    }
}

/// `CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE` (cuda.h) is the only flag, and concerns caches.
pub const OCCUPANCY_FLAGS: c_uint = 1;

/// Blocks of a kernel on one SM.
pub fn fitting(process: &Process, kernel: &ptx::Kernel, threads: u32, shared_bytes: usize) -> u32 {
    let shared = u64::from(kernel.static_shared_bytes).saturating_add(shared_bytes as u64);
    launch::blocks_per_sm(process.device.machine(), kernel, threads, shared)
}
