//! Execution of blocks: the public face, the block loop, barriers.

mod access;
mod alu;
mod atomic;
mod bits;
mod block;
mod call;
mod convert;
mod float;
mod frame;
mod int;
mod leap;
mod near;
mod printf;
mod run;
mod special;
mod tensor;
mod together;
mod warp_ops;

use super::cost::CycleModel;
use super::counts::Counts;
use super::fault::{FaultKind, KernelFault};
use super::footprint::Footprint;
use super::memory::DeviceMemory;
use super::program::Program;
use block::Block;
use frame::Warp;
use near::Near;
pub use together::execute_together;

/// Turns modelled active time into what `%globaltimer` shows.
pub trait Timer {
    /// The clock after `active_ns` of the launch's execution.
    fn globaltimer_ns(&mut self, active_ns: u64) -> u64;
}

/// Bounds of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Lane-instructions executed in the whole call; one more is a [`FaultKind::LaunchTimeout`].
    pub lane_instructions: u64,
    /// Once this many were executed, iterations that repeat the ones before are counted and timed
    /// without being executed: what the kernel writes means nothing then. `None` executes all.
    pub repeats_after: Option<u64>,
    /// Stack of a thread, for calls.
    pub stack_bytes: u32,
    /// Part of an L1 that a block has to itself; 0 for none.
    pub l1_bytes: u64,
    /// Pages that an SM's own TLB translates; 0 where translations are not counted.
    pub tlb_pages: u32,
    /// Printed text that is kept; the oldest lines go first, as in the device's buffer.
    pub printf_bytes: usize,
}

impl Default for Limits {
    /// CUDA's defaults for stack and printf buffer; ten billion lane-instructions, about ten
    /// seconds of a host core.
    fn default() -> Self {
        Self {
            lane_instructions: 10_000_000_000,
            repeats_after: None,
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
    /// What `%nsmid` shows.
    pub sm_count: u32,
    /// Bounds.
    pub limits: Limits,
    /// Cycles of instructions.
    pub model: &'l CycleModel,
    /// Opcodes, as written, that raise [`FaultKind::IllegalInstruction`].
    pub planted_illegal: &'l [String],
    /// Whether to keep counts of each block.
    pub keep_blocks: bool,
}

/// Counts of one executed block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockCounts {
    /// Linear index of the block.
    pub block: u64,
    /// Its counts.
    pub counts: Counts,
    /// Bytes of cache lines that no earlier block of this execution had touched.
    pub new_footprint_bytes: u64,
}

/// What an execution did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Execution {
    /// Sums over the executed blocks.
    pub counts: Counts,
    /// Lane-instructions among them that were counted and not executed.
    pub repeated_lanes: u64,
    /// Counts of each block, if asked for.
    pub blocks: Vec<BlockCounts>,
    /// Lines and ranges touched.
    pub footprint: Footprint,
    /// Printed text, one entry per call of `printf`.
    pub printed: Vec<String>,
    /// Entries that the bounded buffer lost.
    pub printed_lost: u64,
}

/// Runs `blocks` (linear indices) of a launch, one after the other.
pub fn execute(
    program: &Program,
    launch: &Launch<'_>,
    blocks: impl IntoIterator<Item = u64>,
    memory: &mut DeviceMemory<'_>,
    timer: &mut dyn Timer,
) -> Result<Execution, Box<KernelFault>> {
    let function = check(program, launch).map_err(|what| Box::new(refused(what)))?;
    let mut machine = Machine::new(program, launch, memory, timer);
    let mut warps = Vec::new();
    for block in blocks {
        machine.counts = Counts::default();
        let before = machine.footprint.bytes();
        let done = match block < grid_blocks(launch) {
            true => machine.run_block(&mut warps, function, block),
            false => Err(raised(FaultKind::BadLaunch(format!(
                "block {block} is not in the grid"
            )))),
        };
        let longest = warps.iter().map(|warp| warp.cycle).max().unwrap_or(0);
        machine.counts.longest_warp_cycles = longest;
        machine.done.counts.add(&machine.counts);
        if let Err(raised) = done {
            return Err(Box::new(machine.fault(raised, &warps)));
        }
        if launch.keep_blocks {
            let new_footprint_bytes = machine.footprint.bytes() - before;
            let counts = machine.counts.clone();
            machine.done.blocks.push(BlockCounts {
                block,
                counts,
                new_footprint_bytes,
            });
        }
    }
    let mut done = machine.done;
    done.footprint = machine.footprint;
    Ok(done)
}

/// Blocks of the grid.
pub(crate) fn grid_blocks(launch: &Launch<'_>) -> u64 {
    launch
        .grid
        .iter()
        .fold(1u64, |all, side| all.saturating_mul(u64::from(*side)))
}

/// Steps that a warp takes before the block's other warps get a turn.
const WARP_STEPS: u32 = 16 * 1024;

/// CUDA C++ Programming Guide, "Technical Specifications": threads of a block, shared memory.
const MAX_BLOCK_THREADS: u64 = 1024;
const MAX_SHARED_BYTES: u64 = 227 * 1024;

/// Checks a launch; gives the kernel's function.
fn check(program: &Program, launch: &Launch<'_>) -> Result<usize, String> {
    let Some(kernel) = program.module().kernel(launch.kernel) else {
        return Err(format!("the module has no kernel `{}`", launch.kernel));
    };
    let threads = launch
        .block
        .iter()
        .map(|side| u64::from(*side))
        .product::<u64>();
    let product = launch
        .block
        .iter()
        .try_fold(1u64, |all, side| all.checked_mul(u64::from(*side)));
    if product.is_none_or(|all| all == 0 || all > MAX_BLOCK_THREADS) {
        return Err(format!(
            "a block has 1 to {MAX_BLOCK_THREADS} threads, not {threads}"
        ));
    }
    let most = kernel
        .max_threads
        .map(|all| all.iter().map(|n| u64::from(*n)).product::<u64>());
    if most.is_some_and(|most| threads > most) {
        return Err(format!(
            "a block of {threads} threads exceeds the kernel's .maxntid"
        ));
    }
    if kernel
        .required_threads
        .is_some_and(|required| required != launch.block)
    {
        return Err("the block differs from the kernel's .reqntid".into());
    }
    if launch.grid.contains(&0) {
        return Err("a grid has at least one block in each dimension".into());
    }
    if launch.params.len() < kernel.param_bytes as usize {
        let (have, want) = (launch.params.len(), kernel.param_bytes);
        return Err(format!(
            "arguments have {have} bytes, the kernel takes {want}"
        ));
    }
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(launch.dynamic_shared_bytes);
    if shared > MAX_SHARED_BYTES {
        return Err(format!(
            "{shared} bytes of shared memory exceed {MAX_SHARED_BYTES}"
        ));
    }
    Ok(kernel.function)
}

/// A fault on its way up.
pub(crate) struct Raised {
    kind: FaultKind,
    lane: usize,
    function: usize,
    line: u32,
    warp: usize,
}

fn raised(kind: FaultKind) -> Raised {
    Raised {
        kind,
        lane: 0,
        function: usize::MAX,
        line: 0,
        warp: usize::MAX,
    }
}

fn refused(what: String) -> KernelFault {
    KernelFault {
        kind: FaultKind::BadLaunch(what),
        function: String::new(),
        line: 0,
        block: [0; 3],
        thread: [0; 3],
        counts: Counts::default(),
        printed: Vec::new(),
    }
}

/// The executor of one launch.
pub(crate) struct Machine<'m, 'a, 'l> {
    program: &'l Program,
    launch: &'l Launch<'l>,
    memory: &'m mut DeviceMemory<'a>,
    timer: &'m mut dyn Timer,
    simd: alu::Simd,
    /// Counts of the running block.
    counts: Counts,
    footprint: Footprint,
    done: Execution,
    printed_bytes: usize,
    budget: u64,
    /// With this much of it left, or less, repeating iterations are not executed.
    leap_below: Option<u64>,
    /// By opcode; empty when nothing is planted.
    planted: Vec<bool>,
    block: Block,
    near: Near,
    /// Steps that a warp takes before others get a turn.
    warp_steps: u32,
}

impl<'m, 'a, 'l> Machine<'m, 'a, 'l> {
    fn new(
        program: &'l Program,
        launch: &'l Launch<'l>,
        memory: &'m mut DeviceMemory<'a>,
        timer: &'m mut dyn Timer,
    ) -> Self {
        let opcodes = &program.module().opcodes;
        let planted = match launch.planted_illegal {
            [] => Vec::new(),
            planted => opcodes
                .iter()
                .map(|opcode| planted.contains(opcode))
                .collect(),
        };
        Self {
            program,
            launch,
            memory,
            timer,
            simd: alu::Simd::detect(),
            counts: Counts::default(),
            footprint: Footprint::default(),
            done: Execution::default(),
            printed_bytes: 0,
            budget: launch.limits.lane_instructions,
            leap_below: (launch.limits.repeats_after)
                .map(|after| launch.limits.lane_instructions.saturating_sub(after)),
            planted,
            block: Block::idle(),
            near: Near::new(launch.limits.l1_bytes, launch.limits.tlb_pages),
            warp_steps: WARP_STEPS,
        }
    }

    /// Keeps printed text within its bound.
    pub(crate) fn print(&mut self, text: String) {
        self.printed_bytes += text.len();
        self.done.printed.push(text);
        let mut drop = 0;
        while self.printed_bytes > self.launch.limits.printf_bytes && drop < self.done.printed.len()
        {
            self.printed_bytes -= self.done.printed[drop].len();
            drop += 1;
        }
        self.done.printed.drain(..drop);
        self.done.printed_lost += drop as u64;
    }

    fn fault(self, raised: Raised, warps: &[Warp]) -> KernelFault {
        let functions = &self.program.module().functions;
        let thread = match warps.get(raised.warp) {
            Some(warp) => warp.tid.map(|axis| axis[raised.lane & 31]),
            None => [0; 3],
        };
        KernelFault {
            kind: raised.kind,
            function: functions
                .get(raised.function)
                .map_or(String::new(), |f| f.name.clone()),
            line: raised.line,
            block: self.block.index,
            thread,
            counts: self.done.counts,
            printed: self.done.printed,
        }
    }
}
