//! The state of one running launch, and the faults that end it.

use super::alu;
use super::block::Block;
use super::l1_tlb::L1Tlb;
use super::launch::{Execution, Launch, Timer};
use super::warp::Warp;
use crate::counts::Counts;
use crate::fault::{FaultKind, KernelFault};
use crate::footprint::Footprint;
use crate::memory::DeviceMemory;
use crate::program::Program;

/// Steps that a warp runs before the block's other warps.
pub(super) const WARP_STEPS: u32 = 16 * 1024;

/// The executor of one launch.
pub(crate) struct Machine<'m, 'a, 'l> {
    pub(super) program: &'l Program,
    pub(super) launch: &'l Launch<'l>,
    pub(super) memory: &'m mut DeviceMemory<'a>,
    pub(super) timer: &'m mut dyn Timer,
    pub(super) simd: alu::Simd,
    /// Counts of the running block.
    pub(super) counts: Counts,
    pub(super) footprint: Footprint,
    pub(super) done: Execution,
    printed_bytes: usize,
    /// Warp-instructions left.
    pub(super) budget: u64,
    /// Lane-instructions executed; an instruction without active lanes counts as one.
    pub(super) executed: u64,
    /// Extrapolates loops once so many are executed; `None` executes every iteration.
    pub(super) extrapolate_after: Option<u64>,
    /// Number of the turn of a warp.
    pub(super) turn: u64,
    /// Cycle of the launch until which the last turn that changed memory took.
    pub(super) changed_cycle: u64,
    pub(super) block: Block,
    pub(super) l1_tlb: L1Tlb,
    /// Steps that a warp runs before the next warp.
    pub(super) warp_steps: u32,
}

impl<'m, 'a, 'l> Machine<'m, 'a, 'l> {
    pub(super) fn new(
        program: &'l Program,
        launch: &'l Launch<'l>,
        memory: &'m mut DeviceMemory<'a>,
        timer: &'m mut dyn Timer,
    ) -> Self {
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
            budget: launch.limits.warp_instructions,
            executed: 0,
            extrapolate_after: launch.limits.extrapolate_after,
            turn: 0,
            changed_cycle: 0,
            block: Block::idle(),
            l1_tlb: L1Tlb::new(launch.limits.l1_bytes, launch.limits.tlb_pages),
            warp_steps: WARP_STEPS,
        }
    }

    /// Adds printed text, within its limit.
    pub(crate) fn print(&mut self, text: String) {
        self.memory.changes += 1;
        self.printed_bytes += text.len();
        self.done.printed.push(text);
        let mut drop = 0;
        while self.printed_bytes > self.launch.limits.printf_bytes && drop < self.done.printed.len()
        {
            self.printed_bytes -= self.done.printed[drop].len();
            drop += 1;
        }
        self.done.printed.drain(..drop);
    }

    /// The result of blocks that have all ended.
    pub(super) fn into_execution(self) -> Execution {
        Execution { footprint: self.footprint, ..self.done }
    }

    pub(super) fn fault(self, raised: Raised, warps: &[Warp]) -> KernelFault {
        let functions = &self.program.module().functions;
        let thread = match warps.get(raised.warp) {
            Some(warp) => warp.tid.map(|axis| axis[raised.lane & 31]),
            None => [0; 3],
        };
        KernelFault {
            kind: raised.kind,
            function: functions.get(raised.function).map_or(String::new(), |f| f.name.clone()),
            line: raised.line,
            block: self.block.index,
            thread,
            counts: self.done.counts,
            printed: self.done.printed,
        }
    }
}

/// A fault with the lane, function, line and warp that raised it.
pub(crate) struct Raised {
    pub(super) kind: FaultKind,
    pub(super) lane: usize,
    pub(super) function: usize,
    pub(super) line: u32,
    pub(super) warp: usize,
}

pub(super) fn raised(kind: FaultKind) -> Raised {
    Raised { kind, lane: 0, function: usize::MAX, line: 0, warp: usize::MAX }
}

pub(super) fn refused(what: String) -> KernelFault {
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
