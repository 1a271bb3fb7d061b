//! The machine that runs a block: instructions, their cost, and how they end.

use super::access::{LaneFault, warp_memory};
use super::alu;
use super::block::Block;
use super::l1_tlb::L1Tlb;
use super::launch::{Execution, Launch, Timer};
use super::warp::{Fragment, Wait, Warp, meeting_point, split, table_branch};
use crate::code::{FuncCode, Info};
use crate::counts::{Class, Counts};
use crate::fault::{FaultKind, KernelFault};
use crate::footprint::Footprint;
use crate::inst::Inst;
use crate::memory::DeviceMemory;
use crate::operands::{Access, Row};
use crate::program::Program;

/// Steps that a warp runs before the block's other warps.
pub(super) const WARP_STEPS: u32 = 16 * 1024;

pub(crate) struct Machine<'m, 'a, 'l> {
    pub(super) program: &'l Program,
    pub(super) launch: &'l Launch<'l>,
    pub(super) memory: &'m mut DeviceMemory<'a>,
    pub(super) timer: &'m mut dyn Timer,
    pub(super) simd: alu::Simd,
    pub(super) counts: Counts,
    pub(super) footprint: Footprint,
    pub(super) done: Execution,
    printed_bytes: usize,
    pub(super) budget: u64,
    /// Lane-instructions executed; an instruction without active lanes counts as one.
    pub(super) executed: u64,
    /// Extrapolates loops once so many are executed; `None` executes every iteration.
    pub(super) extrapolate_after: Option<u64>,
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

/// Jumps that a diverged fragment runs before the other fragments. A large number, because lanes
/// that leave a long loop early do not reconverge with the others if they run on.
const FRAGMENT_PICKS: u32 = 1 << 16;

impl Machine<'_, '_, '_> {
    /// Runs a warp until it waits, ends or reaches its step limit. False when it made no progress.
    pub(super) fn run_warp(&mut self, warp: &mut Warp) -> Result<bool, Raised> {
        let mut left = self.warp_steps;
        let mut progressed = false;
        let changes = self.memory.changes;
        self.turn += 1;
        self.resume(warp);
        warp.loops.resume(&self.counts, self.footprint.bytes());
        while left > 0 && !warp.fragments.is_empty() {
            if warp.fragments.len() > 1 {
                warp.merge();
            }
            match warp.pick(self.memory.changes) {
                Some(at) => {
                    if warp.fragments.len() > 1 {
                        let fragment = &mut warp.fragments[at];
                        fragment.picks += 1;
                        if fragment.picks == FRAGMENT_PICKS {
                            (fragment.picks, fragment.yielded) = (0, true);
                        }
                    }
                    left = left.saturating_sub(self.run_fragment(warp, at, left)?.max(1));
                    progressed = true;
                }
                None if warp.spinning(self.memory.changes).is_some() => break,
                None if warp.force_one() => progressed = true,
                None => break,
            }
        }
        if self.memory.changes != changes {
            self.changed_cycle = self.block.start_cycle.saturating_add(warp.cycle);
        }
        warp.loops.pause(&self.counts, self.footprint.bytes());
        Ok(progressed)
    }

    /// Runs one fragment until it reconverges, diverges, waits, ends, or has run `max_steps` steps.
    /// Returns the number of steps.
    #[expect(clippy::too_many_lines, reason = "one loop, whose state is in registers")]
    fn run_fragment(&mut self, warp: &mut Warp, at: usize, max_steps: u32) -> Result<u32, Raised> {
        let program = self.program;
        let Fragment { mask, frame: frame_at, forced, .. } = warp.fragments[at];
        let function = warp.frames[frame_at].function;
        let func = &program.module().functions[function];
        let alone = warp.fragments.len() == 1;
        let meeting = meeting_point(warp, at);
        let mut pc = warp.fragments[at].pc;
        let mut steps = 0;
        warp.fragments[at].forced = false;
        loop {
            if steps == max_steps || pc == meeting {
                warp.fragments[at].pc = pc;
                return Ok(steps);
            }
            let (inst, info) = (&func.code[pc as usize], &func.info[pc as usize]);
            let active = match info.guard {
                None => mask,
                Some(guard) => mask & warp.frames[frame_at].pred(guard),
            };
            let raise = |kind, lane| Raised { kind, lane, function, line: info.line, warp: 0 };
            if let Some(members) = members(inst) {
                let named = warp.frames[frame_at].r32[usize::from(members)];
                let first = active.trailing_zeros() as usize & 31;
                let missing = named[first] & warp.live & !active;
                if active != 0 && missing != 0 && !alone && !(forced && steps == 0) {
                    warp.fragments[at].pc = pc;
                    warp.fragments[at].wait = Wait::Lanes;
                    return Ok(steps);
                }
            }
            if info.counted {
                let first = active.trailing_zeros() as usize & 31;
                self.account(info, active).map_err(|kind| raise(kind, first))?;
            }
            self.time(warp, frame_at, func, info);
            steps += 1;
            match inst {
                Inst::Bra { target } => {
                    let stay = mask & !active;
                    let spins = *target <= pc && self.branch_back(warp, at, pc, active);
                    if active == 0 {
                        pc += 1;
                    } else if stay == 0 {
                        pc = *target;
                        if spins || !alone {
                            warp.fragments[at].pc = pc;
                            return Ok(steps);
                        }
                    } else {
                        split(warp, at, stay, pc + 1);
                        warp.fragments[at].pc = *target;
                        return Ok(steps);
                    }
                    continue;
                }
                Inst::Load(access) => {
                    let done = self.load(warp, frame_at, access, active, (func, info));
                    done.map_err(|(lane, kind)| raise(kind, lane))?;
                }
                Inst::Store(access) => {
                    warp_memory!(self, warp, frame_at, memory, frame);
                    let done = memory.store(frame, access, active);
                    done.map_err(|(lane, kind)| raise(kind, lane))?;
                }
                _ if alu::step(self.simd, &mut warp.frames[frame_at], inst, active) => {}
                _ if active == 0 => {}
                Inst::Atom(atom) => {
                    warp_memory!(self, warp, frame_at, memory, frame);
                    let done = memory.atomic(frame, atom, active);
                    done.map_err(|(lane, kind)| raise(kind, lane))?;
                }
                Inst::Fetch(fetch) => {
                    warp_memory!(self, warp, frame_at, memory, frame);
                    let done = memory.fetch(frame, fetch, active);
                    done.map_err(|(lane, kind)| raise(kind, lane))?;
                }
                Inst::Bar(bar) => {
                    warp.fragments[at].pc = pc;
                    self.barrier(warp, at, bar, active).map_err(|(l, kind)| raise(kind, l))?;
                    return Ok(steps);
                }
                Inst::Call { site } => {
                    warp.fragments[at].pc = pc;
                    let done = self.call(warp, at, &func.calls[*site as usize], *site, active);
                    done.map_err(|(lane, kind)| raise(kind, lane))?;
                    return Ok(steps);
                }
                Inst::BraTable { index, table } => {
                    warp.fragments[at].pc = pc;
                    let done =
                        table_branch(warp, at, *index, &func.tables[*table as usize], active);
                    done.map_err(|(lane, kind)| raise(kind, lane))?;
                    return Ok(steps);
                }
                Inst::Ret => {
                    warp.fragments[at].pc = pc;
                    self.ret(warp, at, active);
                    return Ok(steps);
                }
                Inst::Exit => {
                    warp.fragments[at].pc = pc;
                    self.exit(warp, at, active);
                    return Ok(steps);
                }
                _ => self
                    .other(warp, frame_at, inst, active)
                    .map_err(|kind| raise(kind, active.trailing_zeros() as usize & 31))?,
            }
            pc += 1;
        }
    }
}

impl Machine<'_, '_, '_> {
    /// Counts an instruction and charges the budget.
    #[inline(always)]
    pub(super) fn account(&mut self, info: &Info, active: u32) -> Result<(), FaultKind> {
        let (class, lanes) = (info.class as usize, u64::from(active.count_ones()));
        self.counts.warp_instructions[class] += 1;
        self.counts.lane_instructions[class] += lanes;
        self.executed += lanes.max(1);
        // Warps are charged and not lanes: the host's time for both is the same.
        match self.budget.checked_sub(1) {
            Some(left) => self.budget = left,
            None => {
                let warp_instructions = self.launch.limits.warp_instructions;
                return Err(FaultKind::LaunchTimeout { warp_instructions });
            }
        }
        Ok(())
    }

    /// Advances the warp's clock past the issue of an instruction and sets when its results are
    /// ready. Further steps of an instruction only pass readiness on. A stall until the first load
    /// since the last wait has returned is a wait for loads.
    #[inline(always)]
    pub(super) fn time(&mut self, warp: &mut Warp, frame: usize, func: &FuncCode, info: &Info) {
        let ready = &mut warp.frames[frame].ready;
        let rows = |(from, to): (u32, u32)| &func.deps[from as usize..to as usize];
        let mut now = if info.counted { warp.cycle } else { 0 };
        for row in rows(info.reads) {
            now = now.max(ready[*row as usize]);
        }
        let mut done = now;
        if info.counted {
            if now > warp.cycle && now >= warp.load_returns {
                let most = &mut self.counts.most_loading_bytes;
                *most = (*most).max(std::mem::take(&mut warp.loading_bytes));
                warp.load_returns = u64::MAX;
            }
            let model = self.launch.model;
            let class = info.class as usize;
            warp.cycle = now.saturating_add(u64::from(model.issue_cycles[class]));
            done = now.saturating_add(u64::from(model.latency_cycles[class]));
        }
        for row in rows(info.writes) {
            ready[*row as usize] = done;
        }
    }

    /// Runs a load. `time` assumed L2 latency; results are ready earlier after an L1 hit.
    #[inline(always)]
    pub(super) fn load(
        &mut self,
        warp: &mut Warp,
        frame: usize,
        access: &Access,
        active: u32,
        (func, info): (&FuncCode, &Info),
    ) -> Result<(), LaneFault> {
        let before = self.counts.load_sector_bytes;
        warp_memory!(self, warp, frame, memory, registers);
        memory.load(registers, access, active)?;
        let (from, to) = info.writes;
        let rows = &func.deps[from as usize..to as usize];
        if !std::mem::take(&mut self.l1_tlb.hit) {
            if info.class == Class::LoadGlobal
                && let Some(row) = rows.first()
            {
                let returns = warp.frames[frame].ready[*row as usize];
                warp.load_returns = warp.load_returns.min(returns);
                warp.loading_bytes += self.counts.load_sector_bytes - before;
            }
            return Ok(());
        }
        let model = self.launch.model;
        let l2_cycles = model.latency_cycles[info.class as usize];
        let less = u64::from(l2_cycles.saturating_sub(model.l1_hit_cycles));
        for row in rows {
            let ready = &mut warp.frames[frame].ready[*row as usize];
            *ready = ready.saturating_sub(less);
        }
        Ok(())
    }
}

/// The row with the member mask, for instructions that have one.
fn members(inst: &Inst) -> Option<Row> {
    match inst {
        Inst::Shfl(shfl) => Some(shfl.members),
        Inst::Vote { members, .. } | Inst::Match { members, .. } => Some(*members),
        Inst::BarWarp { members } | Inst::Wmma { members, .. } => Some(*members),
        _ => None,
    }
}
