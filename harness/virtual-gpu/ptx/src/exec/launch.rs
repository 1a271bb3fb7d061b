//! Launches: their blocks one after the other, or alternating.

use std::ops::Range;

use super::block::Block;
use super::l1_tlb::L1Tlb;
use super::machine::{Machine, Raised, raised, refused};
use super::warp::Warp;
use crate::cost::CycleModel;
use crate::counts::Counts;
use crate::fault::{FaultKind, KernelFault};
use crate::footprint::Footprint;
use crate::memory::DeviceMemory;
use crate::program::Program;

/// Maps modelled active time to `%globaltimer`.
pub trait Timer {
    /// The clock after `active_ns` of the launch's execution.
    fn globaltimer_ns(&mut self, active_ns: u64) -> u64;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum warp-instructions of the whole call; one more is a [`FaultKind::LaunchTimeout`].
    pub warp_instructions: u64,
    /// Extrapolates loops after this many lane-instructions: iterations are counted and timed, not
    /// executed, so memory contents are undefined afterwards. `None` executes all.
    pub extrapolate_after: Option<u64>,
    /// Blocks that run at the same time, if one waits for another. At 1 none does.
    pub resident_blocks: u64,
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

pub struct Launch<'l> {
    pub kernel: &'l str,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Shared memory beyond the static part.
    pub dynamic_shared_bytes: u32,
    pub params: &'l [u8],
    pub block_smid: &'l dyn Fn(u64) -> u32,
    /// Active time of the launch at which a block starts.
    pub block_start_ns: &'l dyn Fn(u64) -> u64,
    /// Value of `%nsmid`.
    pub sm_count: u32,
    pub limits: Limits,
    pub model: &'l CycleModel,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockCounts {
    pub block: u64,
    pub counts: Counts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Execution {
    /// Sums over the executed blocks.
    pub counts: Counts,
    pub extrapolated_lanes: u64,
    pub blocks: Vec<BlockCounts>,
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

/// Runs `blocks` (linear indices) of a launch, one after the other.
///
/// A block that waits for a change of memory runs on beside all blocks of the grid that follow it,
/// at most `resident_blocks` at the same time; the execution then ends with the grid.
/// Fails with the first fault; a deadlock if all live threads wait.
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
    let all = grid_blocks(launch);
    for block in blocks {
        machine.counts = Counts::default();
        let done = match block < all {
            true => machine.run_block(&mut warps, function, block),
            false => Err(raised(FaultKind::BadLaunch(format!("block {block} is not in the grid")))),
        };
        let polls = |machine: &Machine<'_, '_, '_>| {
            let changes = machine.memory.changes;
            warps.iter().any(|warp| warp.spinning(changes).is_some())
        };
        if matches!(done, Ok(false)) && launch.limits.resident_blocks > 1 && polls(&machine) {
            let mut together =
                Together::new(function, block + 1..all, launch.limits.resident_blocks);
            let idle = L1Tlb::new(launch.limits.l1_bytes, launch.limits.tlb_pages);
            together.residents.push(Resident {
                linear: block,
                block: std::mem::replace(&mut machine.block, Block::idle()),
                l1_tlb: std::mem::replace(&mut machine.l1_tlb, idle),
                counts: std::mem::take(&mut machine.counts),
                warps,
            });
            return machine.finish_together(together);
        }
        let longest = warps.iter().map(|warp| warp.cycle).max().unwrap_or(0);
        machine.counts.longest_warp_cycles = longest;
        machine.done.counts.add(&machine.counts);
        let stopped = match done {
            Ok(true) => None,
            Ok(false) => Some(machine.stuck(&warps, 0)),
            Err(raised) => Some(raised),
        };
        if let Some(raised) = stopped {
            return Err(Box::new(machine.fault(raised, &warps)));
        }
        let counts = std::mem::take(&mut machine.counts);
        machine.done.blocks.push(BlockCounts { block, counts });
    }
    Ok(machine.into_execution())
}

/// Steps that a warp runs before the next warp. A small number, because a block that polls for the
/// others executes instructions, which count.
const STEPS: u32 = 64;

/// A block that is not running.
pub(super) struct Resident {
    pub linear: u64,
    pub block: Block,
    pub l1_tlb: L1Tlb,
    pub counts: Counts,
    pub warps: Vec<Warp>,
}

impl Resident {
    fn counted(mut self) -> BlockCounts {
        let cycles = self.warps.iter().map(|warp| warp.cycle);
        self.counts.longest_warp_cycles = cycles.max().unwrap_or(0);
        BlockCounts { block: self.linear, counts: self.counts }
    }
}

/// The blocks of a launch that have not ended.
pub(super) struct Together {
    pub function: usize,
    pub residents: Vec<Resident>,
    /// Blocks that start as soon as there is room for them.
    pub waiting: Range<u64>,
    /// Most blocks at the same time.
    pub limit: u64,
    ended: Vec<BlockCounts>,
}

impl Together {
    pub fn new(function: usize, waiting: Range<u64>, limit: u64) -> Self {
        Self { function, residents: Vec::new(), waiting, limit, ended: Vec::new() }
    }
}

/// Runs all blocks of a launch concurrently.
/// Fails with the first fault; a deadlock if all live blocks wait.
pub fn execute_cooperative(
    program: &Program,
    launch: &Launch<'_>,
    memory: &mut DeviceMemory<'_>,
    timer: &mut dyn Timer,
) -> Result<Execution, Box<KernelFault>> {
    let function = check(program, launch).map_err(|what| Box::new(refused(what)))?;
    let machine = Machine::new(program, launch, memory, timer);
    let blocks = grid_blocks(launch);
    machine.finish_together(Together::new(function, 0..blocks, blocks))
}

impl Machine<'_, '_, '_> {
    /// Runs blocks at the same time until all have ended, and returns the whole execution.
    pub(super) fn finish_together(
        mut self,
        mut together: Together,
    ) -> Result<Execution, Box<KernelFault>> {
        self.warp_steps = STEPS;
        let done = self.alternate(&mut together);
        let Together { mut residents, mut ended, .. } = together;
        let failed = done.err().map(|(raised, at)| {
            self.block = std::mem::replace(&mut residents[at].block, Block::idle());
            (raised, residents[at].warps.clone())
        });
        ended.extend(residents.into_iter().map(Resident::counted));
        ended.sort_unstable_by_key(|one| one.block);
        for one in ended {
            self.done.counts.add(&one.counts);
            self.done.blocks.push(one);
        }
        match failed {
            Some((raised, warps)) => Err(Box::new(self.fault(raised, &warps))),
            None => Ok(self.into_execution()),
        }
    }

    /// Alternates between the blocks until all have ended. A fault comes with the place of its
    /// block among the residents.
    fn alternate(&mut self, together: &mut Together) -> Result<(), (Raised, usize)> {
        loop {
            while (together.residents.len() as u64) < together.limit
                && let Some(linear) = together.waiting.next()
            {
                let resident = self.enter_block(together.function, linear);
                together.residents.push(resident);
            }
            if together.residents.is_empty() {
                return Ok(());
            }
            let mut progressed = false;
            for (at, resident) in together.residents.iter_mut().enumerate() {
                self.exchange(resident);
                let ran = self.round(&mut resident.warps);
                self.exchange(resident);
                progressed |= ran.map_err(|raised| (raised, at))?;
            }
            let (live, ended): (Vec<_>, Vec<_>) = std::mem::take(&mut together.residents)
                .into_iter()
                .partition(|resident| resident.block.live_threads > 0);
            together.residents = live;
            progressed |= !ended.is_empty();
            (together.ended).extend(ended.into_iter().map(Resident::counted));
            if !progressed {
                return Err(self.none_goes_on(together));
            }
        }
    }

    /// The fault of blocks that all wait: of one that polls, where one does.
    fn none_goes_on(&self, together: &Together) -> (Raised, usize) {
        let changes = self.memory.changes;
        let polls = |resident: &Resident| {
            let mut warps = resident.warps.iter();
            warps.any(|warp| warp.spinning(changes).is_some())
        };
        let at = together.residents.iter().position(polls).unwrap_or(0);
        let not_started = together.waiting.end.saturating_sub(together.waiting.start);
        let warps = together.residents[at].warps.as_slice();
        (self.stuck(warps, not_started), at)
    }

    /// A block that has not run yet.
    fn enter_block(&mut self, function: usize, linear: u64) -> Resident {
        let mut warps = Vec::new();
        self.counts = Counts::default();
        self.start_block(&mut warps, function, linear);
        let limits = &self.launch.limits;
        Resident {
            linear,
            block: std::mem::replace(&mut self.block, Block::idle()),
            l1_tlb: L1Tlb::new(limits.l1_bytes, limits.tlb_pages),
            counts: std::mem::take(&mut self.counts),
            warps,
        }
    }

    /// Swaps a block in or out of the machine.
    fn exchange(&mut self, resident: &mut Resident) {
        std::mem::swap(&mut self.block, &mut resident.block);
        std::mem::swap(&mut self.l1_tlb, &mut resident.l1_tlb);
        std::mem::swap(&mut self.counts, &mut resident.counts);
    }
}
