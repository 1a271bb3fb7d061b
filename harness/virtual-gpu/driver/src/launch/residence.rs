//! Whether a kernel can be launched in a shape, and how many of its blocks are resident at once.

use super::request::{Shape, kernel_of};
use crate::code::{self, Code, refuse};
use crate::entries::ContextPlacement;
use crate::process::{FunctionEntry, Process};
use gpubench_virtual_gpu_model::machine::{Gpu, Machine};
use gpubench_virtual_gpu_ptx as ptx;

/// Maximum sides of block and grid (CUDA C++ Programming Guide, technical specifications).
const MAX_SIDES: [[u32; 3]; 2] = [[1024, 1024, 64], [i32::MAX as u32, 65_535, 65_535]];

impl FunctionEntry {
    /// Shared memory that a block of it may have: more than usual if the program allowed it.
    pub fn dynamic_shared(&self, gpu: &Gpu) -> u32 {
        self.settings.dynamic_shared.max(gpu.shared_per_block_kib << 10)
    }
}

fn product(dims: [u32; 3]) -> u64 {
    dims.iter().map(|&side| u64::from(side)).product()
}

/// Blocks of a kernel that fit on one SM at the same time; 0 if none fits.
pub fn blocks_per_sm(
    machine: &Machine,
    kernel: &ptx::Kernel,
    threads: u32,
    shared_bytes: u64,
) -> u32 {
    let gpu = &machine.gpu;
    let by_threads = gpu.max_threads_per_sm / threads.max(1);
    let by_registers =
        gpu.registers_per_sm / kernel.registers.max(1).saturating_mul(threads.max(1));
    let all = u64::from(gpu.shared_per_sm_kib) << 10;
    let by_shared = match shared_bytes + u64::from(machine.shared_reserved_bytes()) {
        0 => u32::MAX,
        bytes => (all / bytes) as u32,
    };
    gpu.max_blocks_per_sm.min(by_threads).min(by_registers).min(by_shared)
}

/// Whether a kernel can be launched in a shape. Checked when it is launched, captured, or added to
/// a graph.
pub fn check(machine: &Machine, function: &FunctionEntry, shape: &Shape) -> Result<(), Code> {
    let kernel = kernel_of(function)?;
    for (dims, limits) in [shape.block, shape.grid].iter().zip(MAX_SIDES) {
        if dims.iter().zip(limits).any(|(&side, limit)| side == 0 || side > limit) {
            return Err(code::INVALID_VALUE);
        }
    }
    let threads = product(shape.block);
    refuse(threads > u64::from(machine.gpu.max_threads_per_block), code::INVALID_VALUE)?;
    if let Some(limit) = kernel.max_threads.map(product)
        && threads > limit
    {
        return Err(code::LAUNCH_OUT_OF_RESOURCES);
    }
    let allowed = function.dynamic_shared(&machine.gpu);
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(shape.shared_bytes);
    refuse(shared > u64::from(allowed), code::INVALID_VALUE)?;
    if blocks_per_sm(machine, kernel, threads as u32, shared) == 0 {
        return Err(code::LAUNCH_OUT_OF_RESOURCES);
    }
    Ok(())
}

/// Refuses a cooperative launch with more blocks than a placement holds at the same time. Other
/// launches always fit.
pub fn check_residence(
    process: &Process,
    function: &FunctionEntry,
    shape: &Shape,
    placement: &ContextPlacement,
) -> Result<(), Code> {
    if !shape.cooperative {
        return Ok(());
    }
    let kernel = kernel_of(function)?;
    let threads = product(shape.block) as u32;
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(shape.shared_bytes);
    let part = process.part(function.context, placement)?;
    let on_one = blocks_per_sm(process.device.machine(), kernel, threads, shared);
    if product(shape.grid) > u64::from(on_one) * u64::from(part.sm_count) {
        return Err(code::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}
