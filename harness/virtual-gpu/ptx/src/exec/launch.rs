//! A launch: its arguments, its limits, its result.

use crate::cost::CycleModel;
use crate::counts::Counts;
use crate::footprint::Footprint;
use crate::program::Program;

/// Maps modelled active time to `%globaltimer`.
pub trait Timer {
    /// The clock after `active_ns` of the launch's execution.
    fn globaltimer_ns(&mut self, active_ns: u64) -> u64;
}

/// Bounds of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum warp-instructions of the whole call; one more is a [`FaultKind::LaunchTimeout`].
    pub warp_instructions: u64,
    /// Extrapolates loops after this many lane-instructions: iterations are counted and timed, not
    /// executed, so memory contents are undefined afterwards. `None` executes all.
    pub extrapolate_after: Option<u64>,
    /// Blocks that run at the same time, if one waits for another. At 1 none does.
    pub resident_blocks: u64,
    /// Stack of a thread, for calls.
    pub stack_bytes: u32,
    /// Share of an L1 that a block has; 0 for none.
    pub l1_bytes: u64,
    /// Pages that the TLB of an SM covers; 0 where translations are not counted.
    pub tlb_pages: u32,
    /// Printed text to keep; the oldest entries are dropped first, as in the device's buffer.
    pub printf_bytes: usize,
}

impl Default for Limits {
    /// CUDA's defaults for stack and printf buffer; one block at a time; the instructions of ten
    /// billion lanes in full warps, about ten seconds of a host core.
    fn default() -> Self {
        Self {
            warp_instructions: 312_500_000,
            extrapolate_after: None,
            resident_blocks: 1,
            stack_bytes: 1024,
            l1_bytes: 0,
            tlb_pages: 0,
            printf_bytes: 1 << 20,
        }
    }
}

/// One launch of a kernel.
pub struct Launch<'l> {
    /// Name of the kernel.
    pub kernel: &'l str,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Shared memory beyond the static part.
    pub dynamic_shared_bytes: u32,
    /// The argument buffer.
    pub params: &'l [u8],
    /// SM that runs a block.
    pub block_smid: &'l dyn Fn(u64) -> u32,
    /// Active time of the launch at which a block starts.
    pub block_start_ns: &'l dyn Fn(u64) -> u64,
    /// Value of `%nsmid`.
    pub sm_count: u32,
    /// Bounds.
    pub limits: Limits,
    /// Timing of instructions.
    pub model: &'l CycleModel,
}

/// Counts of one executed block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockCounts {
    /// Linear index of the block.
    pub block: u64,
    pub counts: Counts,
}

/// The result of an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Execution {
    /// Sums over the executed blocks.
    pub counts: Counts,
    /// Lane-instructions among them that were extrapolated.
    pub extrapolated_lanes: u64,
    pub blocks: Vec<BlockCounts>,
    /// Lines and ranges touched.
    pub footprint: Footprint,
    /// Printed text, one entry per call of `printf`.
    pub printed: Vec<String>,
}

pub(crate) fn grid_blocks(launch: &Launch<'_>) -> u64 {
    launch.grid.iter().fold(1u64, |all, side| all.saturating_mul(u64::from(*side)))
}

/// CUDA C++ Programming Guide, "Technical Specifications": threads of a block, shared memory.
pub(super) const MAX_BLOCK_THREADS: u64 = 1024;

pub(super) const MAX_SHARED_BYTES: u64 = 227 * 1024;

/// Checks a launch; returns the kernel's function.
pub(super) fn check(program: &Program, launch: &Launch<'_>) -> Result<usize, String> {
    let Some(kernel) = program.module().kernel(launch.kernel) else {
        return Err(format!("the module has no kernel `{}`", launch.kernel));
    };
    let threads = launch.block.iter().map(|side| u64::from(*side)).product::<u64>();
    let product = launch.block.iter().try_fold(1u64, |all, side| all.checked_mul(u64::from(*side)));
    if product.is_none_or(|all| all == 0 || all > MAX_BLOCK_THREADS) {
        return Err(format!("a block has 1 to {MAX_BLOCK_THREADS} threads, not {threads}"));
    }
    let max_threads =
        kernel.max_threads.map(|all| all.iter().map(|n| u64::from(*n)).product::<u64>());
    if max_threads.is_some_and(|max| threads > max) {
        return Err(format!("a block of {threads} threads exceeds the kernel's .maxntid"));
    }
    if kernel.required_threads.is_some_and(|required| required != launch.block) {
        return Err("the block differs from the kernel's .reqntid".into());
    }
    if launch.grid.contains(&0) {
        return Err("a grid has at least one block in each dimension".into());
    }
    if launch.params.len() < kernel.param_bytes as usize {
        let (have, want) = (launch.params.len(), kernel.param_bytes);
        return Err(format!("arguments have {have} bytes, the kernel takes {want}"));
    }
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(launch.dynamic_shared_bytes);
    if shared > MAX_SHARED_BYTES {
        return Err(format!("{shared} bytes of shared memory exceed {MAX_SHARED_BYTES}"));
    }
    Ok(kernel.function)
}
