//! The sixteen barriers of a block: arrival of lanes, release of waiting lanes.

use super::divergence::split;
use super::machine::Machine;
use super::warp::{Fragment, Wait, Warp};
use crate::fault::FaultKind;
use crate::inst::Inst;
use crate::operands::{Bar, NO_ROW};
use crate::ops::BarKind;

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
