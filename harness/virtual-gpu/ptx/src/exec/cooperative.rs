//! Blocks that run at the same time and can wait for each other, so they alternate.

use std::ops::Range;

use super::block::Block;
use super::l1_tlb::L1Tlb;
use super::launch::{BlockCounts, Execution, Launch, Timer, check, grid_blocks};
use super::machine::{Machine, Raised, refused};
use super::warp::Warp;
use crate::counts::Counts;
use crate::fault::KernelFault;
use crate::memory::DeviceMemory;
use crate::program::Program;

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
///
/// # Errors
/// The first fault; a deadlock if all live blocks wait.
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
