//! Kernels: their attributes, and how many blocks of them fit.

use std::ffi::c_int;

use crate::code::{self, Code};
use crate::entries::FunctionEntry;
use crate::launch;
pub use crate::launch::kernel_of;
use crate::process::Process;
use ::gpubench_virtual_gpu_ptx as ptx;

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
    let target = function.program.module().target.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = target.chars().take_while(char::is_ascii_digit);
    let found = match attribute {
        0 => threads,
        1 => kernel.static_shared_bytes,
        // PREFERRED_SHARED_MEMORY_CARVEOUT: the default.
        9 => return Ok(-1),
        2 | 7 | 10..=14 => 0,
        3 => kernel.local_bytes,
        4 => kernel.registers,
        5 => digits.collect::<String>().parse().unwrap_or(major * 10 + minor),
        6 => major * 10 + minor,
        8 => gpu.shared_per_block_kib << 10,
        _ => return Err(code::INVALID_VALUE),
    };
    c_int::try_from(found).map_err(|_| code::INVALID_VALUE)
}

/// Blocks of a kernel on one SM.
pub fn fitting(process: &Process, kernel: &ptx::Kernel, threads: u32, shared_bytes: usize) -> u32 {
    let shared = u64::from(kernel.static_shared_bytes).saturating_add(shared_bytes as u64);
    launch::blocks_per_sm(process.device.machine(), kernel, threads, shared)
}
