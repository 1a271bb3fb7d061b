//! A block: its setup, the rounds of its warps, and its barriers.

use super::barrier::{Barrier, IDLE};
use super::machine::{Machine, Raised, raised};
use super::warp::Warp;
use crate::fault::FaultKind;

/// The running block.
pub(super) struct Block {
    pub index: [u32; 3],
    pub threads: u32,
    pub live_threads: u32,
    pub smid: u32,
    pub start_ns: u64,
    pub start_cycle: u64,
    pub shared: Vec<u8>,
    pub dynamic_shared_at: u32,
    pub barriers: [Barrier; 16],
}

impl Block {
    /// No block yet.
    pub(super) fn idle() -> Self {
        Self {
            index: [0; 3],
            threads: 0,
            live_threads: 0,
            smid: 0,
            start_ns: 0,
            start_cycle: 0,
            shared: Vec::new(),
            dynamic_shared_at: 0,
            barriers: [IDLE; 16],
        }
    }
}

impl Machine<'_, '_, '_> {
    /// Initialises a block and its warps and runs them until all have ended or wait. False if they
    /// wait.
    pub(super) fn run_block(
        &mut self,
        warps: &mut Vec<Warp>,
        function: usize,
        linear: u64,
    ) -> Result<bool, Raised> {
        self.start_block(warps, function, linear);
        while self.block.live_threads > 0 {
            if !self.round(warps)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs every warp of the block once, up to its step limit. False when no warp made progress.
    pub(super) fn round(&mut self, warps: &mut [Warp]) -> Result<bool, Raised> {
        let mut progressed = false;
        for (index, warp) in warps.iter_mut().enumerate() {
            let ran = self.run_warp(warp);
            progressed |= ran.map_err(|raised| Raised { warp: index, ..raised })?;
        }
        for id in 0..self.block.barriers.len() {
            progressed |= self.release(warps, id);
        }
        Ok(progressed)
    }

    /// The fault of a block in which every live warp waits, with the number of blocks that cannot
    /// start.
    pub(super) fn stuck(&self, warps: &[Warp], not_started: u64) -> Raised {
        let spinning = |warp: &Warp| warp.spinning(self.memory.changes).copied();
        if let Some((warp, fragment)) =
            (warps.iter().enumerate()).find_map(|(at, warp)| Some((at, spinning(warp)?)))
        {
            let polled = warps[warp].spin.polled;
            return Raised {
                kind: FaultKind::Endless { polled, not_started },
                lane: fragment.mask.trailing_zeros() as usize & 31,
                function: warps[warp].frames[fragment.frame].function,
                line: warps[warp].spin.line,
                warp,
            };
        }
        let stuck = warps.iter().position(|warp| warp.live != 0).unwrap_or(0);
        let lane = warps[stuck].live.trailing_zeros() as usize & 31;
        let Some(fragment) = warps[stuck].fragments.first() else {
            return raised(FaultKind::Deadlock);
        };
        let function = warps[stuck].frames[fragment.frame].function;
        let info = &self.program.module().functions[function].info;
        Raised {
            kind: FaultKind::Deadlock,
            lane,
            function,
            line: info.get(fragment.pc as usize).map_or(0, |info| info.line),
            warp: stuck,
        }
    }

    pub(super) fn start_block(&mut self, warps: &mut Vec<Warp>, function: usize, linear: u64) {
        let launch = self.launch;
        let [x, y, _] = launch.grid.map(u64::from);
        let threads = launch.block.iter().product::<u32>();
        let kernel = self.program.module().kernel(launch.kernel);
        let static_shared = kernel.map_or(0, |kernel| kernel.static_shared_bytes);
        let block = &mut self.block;
        block.index = [(linear % x) as u32, (linear / x % y) as u32, (linear / x / y) as u32];
        (block.threads, block.live_threads) = (threads, threads);
        block.smid = (launch.block_smid)(linear);
        block.start_ns = (launch.block_start_ns)(linear);
        block.start_cycle = launch.model.ns_to_cycles(block.start_ns);
        block.dynamic_shared_at = static_shared.next_multiple_of(16);
        let dynamic = launch.dynamic_shared_bytes;
        let end = if dynamic == 0 { static_shared } else { block.dynamic_shared_at + dynamic };
        block.shared.clear();
        block.shared.resize(end as usize, 0);
        block.barriers = [IDLE; 16];
        self.l1_tlb.reset();
        let func = &self.program.module().functions[function];
        warps.resize_with(threads.div_ceil(32) as usize, Warp::default);
        for (index, warp) in warps.iter_mut().enumerate() {
            let first = index as u32 * 32;
            let live = u32::MAX >> (32 - (threads - first).min(32));
            warp.reset(index as u32, live, func.local_bytes);
            let template = &self.program.templates[function];
            warp.frames[0].reset(function, template, func.preds, func.flat_rows());
            warp.frames[0].live = live;
            for lane in 0..32 {
                let [wide, high, _] = launch.block;
                let thread = first + lane as u32;
                warp.tid[0][lane] = thread % wide;
                warp.tid[1][lane] = thread / wide % high;
                warp.tid[2][lane] = thread / wide / high;
            }
        }
        self.counts.blocks = 1;
        self.counts.warps = warps.len() as u64;
    }
}
