//! A block, and the barriers of its warps.

use super::machine::{Machine, Raised, raised};
use super::warp::{Fragment, Wait, Warp, split};
use crate::fault::FaultKind;
use crate::inst::Inst;
use crate::operands::{Bar, NO_ROW};
use crate::ops::BarKind;

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

impl Machine<'_, '_, '_> {
    /// Makes the active lanes arrive at a block-wide barrier, and wait unless they only arrive.
    pub(super) fn barrier(
        &mut self,
        warp: &mut Warp,
        at: usize,
        bar: &Bar,
        active: u32,
    ) -> Result<(), (usize, FaultKind)> {
        let Fragment { mask, pc, frame, .. } = warp.fragments[at];
        let first = active.trailing_zeros() as usize & 31;
        let registers = &warp.frames[frame];
        let id = registers.r32[usize::from(bar.id)][first];
        let Some(state) = self.block.barriers.get_mut(id as usize) else {
            // PTX ISA, "bar": a block has 16 barriers.
            return Err((first, FaultKind::InvalidPc { addr: u64::from(id) }));
        };
        // With a thread count, a partial last warp counts as 32 threads.
        let mut arriving = active.count_ones();
        if bar.threads != NO_ROW {
            state.needed = Some(registers.r32[usize::from(bar.threads)][first]);
            if active == warp.live {
                arriving = 32;
            }
        }
        state.arrived += arriving;
        self.memory.changes += 1;
        if let Some(p) = bar.p {
            let yes = registers.pred(p) & active;
            state.yes += yes.count_ones();
            state.all &= yes == active;
        }
        self.counts.barriers += 1;
        if mask != active {
            split(warp, at, mask & !active, pc + 1);
        }
        match bar.kind {
            BarKind::Arrive => warp.fragments[at].pc = pc + 1,
            _ => warp.fragments[at].wait = Wait::Barrier(id as u8),
        }
        Ok(())
    }
}

/// One of a block's sixteen barriers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Barrier {
    pub arrived: u32,
    pub needed: Option<u32>,
    pub yes: u32,
    pub all: bool,
}

pub(super) const IDLE: Barrier = Barrier { arrived: 0, needed: None, yes: 0, all: true };

impl Machine<'_, '_, '_> {
    /// Releases all fragments that wait at barrier `id`, once all have arrived.
    pub(super) fn release(&mut self, warps: &mut [Warp], id: usize) -> bool {
        let state = self.block.barriers[id];
        let needed = state.needed.unwrap_or(self.block.live_threads);
        if state.arrived == 0 || state.arrived < needed {
            return false;
        }
        let wait = Wait::Barrier(id as u8);
        let waits = |warp: &&mut Warp| warp.fragments.iter().any(|f| f.wait == wait);
        let latest = warps.iter_mut().filter(waits).map(|warp| warp.cycle).max().unwrap_or(0);
        for warp in warps.iter_mut().filter(waits) {
            warp.cycle = latest;
            for at in 0..warp.fragments.len() {
                let fragment = warp.fragments[at];
                if fragment.wait != wait {
                    continue;
                }
                let frame = &mut warp.frames[fragment.frame];
                let func = &self.program.module().functions[frame.function];
                if let Inst::Bar(bar) = &func.code[fragment.pc as usize] {
                    let predicate = |holds: bool| if holds { u32::MAX } else { 0 };
                    match bar.kind {
                        BarKind::Popc => frame.set32(bar.d, fragment.mask, &[state.yes; 32]),
                        BarKind::And => frame.set_pred(bar.d, fragment.mask, predicate(state.all)),
                        BarKind::Or => {
                            frame.set_pred(bar.d, fragment.mask, predicate(state.yes != 0));
                        }
                        BarKind::Sync | BarKind::Arrive => {}
                    }
                }
                let fragment = &mut warp.fragments[at];
                (fragment.wait, fragment.pc) = (Wait::Ready, fragment.pc + 1);
            }
        }
        self.block.barriers[id] = IDLE;
        true
    }
}
