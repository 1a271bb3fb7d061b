//! Runs the lanes of a warp: fetch, guard, account, time, execute.

use super::super::fault::FaultKind;
use super::super::inst::{Access, Bar, BarKind, Inst, NO_ROW, Special};
use super::super::module::{FuncCode, Info};
use super::access::{LaneFault, Reach};
use super::frame::{Fragment, Wait, Warp};
use super::{Machine, Raised, alu, tensor, warp_ops};

/// Turns, each up to a jump, that a diverged fragment gets before the others do. Large, because
/// lanes that run on instead of waiting at the end of a long loop do not meet the others again.
const FRAGMENT_PICKS: u32 = 1 << 16;

/// Splits a warp and the machine into what memory instructions reach and the frame they work on.
macro_rules! reach {
    ($machine:expr, $warp:expr, $frame_at:expr, $reach:ident, $frame:ident) => {
        let mut $reach = Reach {
            memory: &mut *$machine.memory,
            footprint: &mut $machine.footprint,
            counts: &mut $machine.counts,
            shared: &mut $machine.block.shared,
            near: &mut $machine.near,
            local: &mut $warp.local,
            local_stride: $warp.local_stride,
            params: $machine.launch.params,
        };
        let $frame = &mut $warp.frames[$frame_at];
    };
}
pub(super) use reach;

impl Machine<'_, '_, '_> {
    /// Runs a warp until it waits, ends or had its turn. False when it could do nothing.
    pub(super) fn run_warp(&mut self, warp: &mut Warp) -> Result<bool, Raised> {
        let mut left = self.warp_steps;
        let mut progressed = false;
        warp.watches.back(&self.counts, self.footprint.bytes());
        while left > 0 && !warp.fragments.is_empty() {
            if warp.fragments.len() > 1 {
                warp.merge();
            }
            match warp.pick() {
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
                None if warp.force_one() => progressed = true,
                None => break,
            }
        }
        warp.watches.away(&self.counts, self.footprint.bytes());
        Ok(progressed)
    }

    /// Counts an instruction and charges the budget.
    #[inline(always)]
    fn account(&mut self, info: &Info, active: u32) -> Result<(), FaultKind> {
        let (class, lanes) = (info.class as usize, u64::from(active.count_ones()));
        self.counts.warp_instructions[class] += 1;
        self.counts.lane_instructions[class] += lanes;
        // An instruction without lanes is charged too, or a loop of them would never end.
        match self.budget.checked_sub(lanes.max(1)) {
            Some(left) => self.budget = left,
            None => {
                let lane_instructions = self.launch.limits.lane_instructions;
                return Err(FaultKind::LaunchTimeout { lane_instructions });
            }
        }
        if !self.planted.is_empty() && self.planted[info.opcode as usize] {
            let opcode = self.program.module().opcodes[info.opcode as usize].clone();
            return Err(FaultKind::IllegalInstruction { opcode });
        }
        Ok(())
    }

    /// Advances the warp's clock past the issue of an instruction and notes when its results are
    /// ready. The further steps of an instruction only pass readiness on.
    #[inline(always)]
    fn time(&self, warp: &mut Warp, frame: usize, func: &FuncCode, info: &Info) {
        let ready = &mut warp.frames[frame].ready;
        let rows = |(from, to): (u32, u32)| &func.deps[from as usize..to as usize];
        let mut now = if info.counted { warp.cycle } else { 0 };
        for row in rows(info.reads) {
            now = now.max(ready[*row as usize]);
        }
        let mut done = now;
        if info.counted {
            let model = self.launch.model;
            let class = info.class as usize;
            warp.cycle = now.saturating_add(u64::from(model.issue_cycles[class]));
            done = now.saturating_add(u64::from(model.latency_cycles[class]));
        }
        for row in rows(info.writes) {
            ready[*row as usize] = done;
        }
    }

    /// Runs a load. Its results were timed as coming from L2: they are there sooner if L1 had them.
    #[inline(always)]
    fn load(
        &mut self,
        warp: &mut Warp,
        frame: usize,
        access: &Access,
        active: u32,
        (func, info): (&FuncCode, &Info),
    ) -> Result<(), LaneFault> {
        reach!(self, warp, frame, reach, registers);
        reach.load(registers, access, active)?;
        if !std::mem::take(&mut self.near.hit) {
            return Ok(());
        }
        let model = self.launch.model;
        let l2_cycles = model.latency_cycles[info.class as usize];
        let less = u64::from(l2_cycles.saturating_sub(model.l1_hit_cycles));
        let (from, to) = info.writes;
        for row in &func.deps[from as usize..to as usize] {
            let ready = &mut warp.frames[frame].ready[*row as usize];
            *ready = ready.saturating_sub(less);
        }
        Ok(())
    }

    /// Runs one fragment until it meets another one, diverges, waits, ends, or took `turn` steps.
    /// Gives the steps taken.
    fn run_fragment(&mut self, warp: &mut Warp, at: usize, turn: u32) -> Result<u32, Raised> {
        let program = self.program;
        let Fragment {
            mask,
            frame: frame_at,
            forced,
            ..
        } = warp.fragments[at];
        let function = warp.frames[frame_at].function;
        let func = &program.module().functions[function];
        let alone = warp.fragments.len() == 1;
        let meeting = meeting_point(warp, at);
        let mut pc = warp.fragments[at].pc;
        let mut steps = 0;
        warp.fragments[at].forced = false;
        loop {
            if steps == turn || pc == meeting {
                warp.fragments[at].pc = pc;
                return Ok(steps);
            }
            let (inst, info) = (&func.code[pc as usize], &func.info[pc as usize]);
            let active = match info.guard {
                None => mask,
                Some(guard) => mask & warp.frames[frame_at].pred(guard),
            };
            let raise = |kind, lane| Raised {
                kind,
                lane,
                function,
                line: info.line,
                warp: 0,
            };
            if let Some(members) = warp_ops::members(inst) {
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
                self.account(info, active)
                    .map_err(|kind| raise(kind, first))?;
            }
            self.time(warp, frame_at, func, info);
            steps += 1;
            match inst {
                Inst::Bra { target } => {
                    let stay = mask & !active;
                    if *target <= pc && self.leap_below.is_some() {
                        let goes_on = stay == 0 && alone;
                        self.goes_round(warp, frame_at, pc, goes_on.then_some(mask));
                    }
                    if active == 0 {
                        pc += 1;
                    } else if stay == 0 {
                        pc = *target;
                        if !alone {
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
                    reach!(self, warp, frame_at, reach, frame);
                    let done = reach.store(frame, access, active);
                    done.map_err(|(lane, kind)| raise(kind, lane))?;
                }
                _ if alu::step(self.simd, &mut warp.frames[frame_at], inst, active) => {}
                _ if active == 0 => {}
                Inst::Atom(atom) => {
                    reach!(self, warp, frame_at, reach, frame);
                    let done = reach.atomic(frame, atom, active);
                    done.map_err(|(lane, kind)| raise(kind, lane))?;
                }
                Inst::Bar(bar) => {
                    warp.fragments[at].pc = pc;
                    self.barrier(warp, at, bar, active)
                        .map_err(|(l, kind)| raise(kind, l))?;
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

    /// The instructions that are neither arithmetic nor memory nor control.
    fn other(
        &mut self,
        warp: &mut Warp,
        frame_at: usize,
        inst: &Inst,
        active: u32,
    ) -> Result<(), FaultKind> {
        match *inst {
            Inst::Trap => return Err(FaultKind::Trap),
            Inst::Brkpt => return Err(FaultKind::Breakpoint),
            Inst::Special32 { d, which } => {
                let values = self.special32(warp, which);
                warp.frames[frame_at].set32(d, active, &values);
            }
            Inst::Special64 { d, which } => {
                let value = match which {
                    Special::Globaltimer => self.globaltimer(warp),
                    Special::Clock64 => self.clock(warp),
                    _ => 0, // `%gridid` numbers launches of a context; one launch is all there is.
                };
                warp.frames[frame_at].set64(d, active, &[value; 32]);
            }
            Inst::LocalAddr { d, offset } => {
                let frame = &mut warp.frames[frame_at];
                let addr = u64::from(frame.local_base) + u64::from(offset);
                frame.set64(d, active, &[addr; 32]);
            }
            Inst::DynSharedAddr { d } => {
                let addr = u64::from(self.block.dynamic_shared_at);
                warp.frames[frame_at].set64(d, active, &[addr; 32]);
            }
            Inst::IsSpace { space, d, a } => {
                let frame = &mut warp.frames[frame_at];
                let addresses = frame.r64[usize::from(a)];
                let mut mask = 0;
                for (lane, addr) in addresses.into_iter().enumerate() {
                    mask |= u32::from(super::special::is_in(space, addr)) << lane;
                }
                frame.set_pred(d, active, mask);
            }
            Inst::ActiveMask { d } => warp.frames[frame_at].set32(d, active, &[active; 32]),
            Inst::Nanosleep { a } => {
                let asked = warp.frames[frame_at].r32[usize::from(a)];
                let most = super::access::lanes(active).map(|lane| asked[lane]).max();
                // PTX ISA, "nanosleep": at most 1 ms.
                let ns = u64::from(most.unwrap_or(0).min(1_000_000));
                warp.cycle = warp
                    .cycle
                    .saturating_add(self.launch.model.ns_to_cycles(ns));
            }
            Inst::Wmma { product, .. } => {
                let frame = &mut warp.frames[frame_at];
                let module = self.program.module();
                let product = &module.functions[frame.function].products[product as usize];
                if !tensor::multiply_add(frame, product, active) {
                    // The PTX ISA leaves open what happens; a device that computes with lanes that
                    // are not there would be the worst answer.
                    let opcode = "wmma.mma of a warp whose lanes are not all there".to_owned();
                    return Err(FaultKind::IllegalInstruction { opcode });
                }
            }
            _ => warp_ops::run(&mut warp.frames[frame_at], inst, active),
        }
        Ok(())
    }

    /// Makes the active lanes arrive at a block-wide barrier, and wait unless they only arrive.
    fn barrier(
        &mut self,
        warp: &mut Warp,
        at: usize,
        bar: &Bar,
        active: u32,
    ) -> Result<(), (usize, FaultKind)> {
        let Fragment {
            mask, pc, frame, ..
        } = warp.fragments[at];
        let first = active.trailing_zeros() as usize & 31;
        let registers = &warp.frames[frame];
        let id = registers.r32[usize::from(bar.id)][first];
        let Some(state) = self.block.barriers.get_mut(id as usize) else {
            // PTX ISA, "bar": there are 16 of them.
            return Err((
                first,
                FaultKind::InvalidPc {
                    addr: u64::from(id),
                },
            ));
        };
        // With a thread count, whole warps count as 32 threads also when the block ends inside.
        let mut arriving = active.count_ones();
        if bar.threads != NO_ROW {
            state.needed = Some(registers.r32[usize::from(bar.threads)][first]);
            if active == warp.live {
                arriving = 32;
            }
        }
        state.arrived += arriving;
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

/// Takes `lanes` out of fragment `at` and makes them a fragment of their own at `pc`.
pub(super) fn split(warp: &mut Warp, at: usize, lanes: u32, pc: u32) {
    let old = &mut warp.fragments[at];
    old.mask &= !lanes;
    let new = Fragment {
        mask: lanes,
        pc,
        wait: Wait::Ready,
        forced: false,
        ..*old
    };
    warp.fragments.push(new);
}

/// The next address at which fragment `at` can meet another one.
fn meeting_point(warp: &Warp, at: usize) -> u32 {
    let mine = warp.fragments[at];
    let others = warp.fragments.iter().filter(|other| {
        other.frame == mine.frame && other.pc > mine.pc && !matches!(other.wait, Wait::Barrier(_))
    });
    others.map(|other| other.pc).min().unwrap_or(u32::MAX)
}

/// `brx.idx`: each lane jumps to the entry that its index names.
fn table_branch(
    warp: &mut Warp,
    at: usize,
    index: u16,
    targets: &[u32],
    active: u32,
) -> Result<(), (usize, FaultKind)> {
    let Fragment {
        mask, pc, frame, ..
    } = warp.fragments[at];
    let row = warp.frames[frame].r32[usize::from(index)];
    for lane in super::access::lanes(active) {
        if row[lane] as usize >= targets.len() {
            return Err((
                lane,
                FaultKind::InvalidPc {
                    addr: u64::from(row[lane]),
                },
            ));
        }
    }
    if mask != active {
        split(warp, at, mask & !active, pc + 1);
    }
    let first = active.trailing_zeros() as usize & 31;
    let mut left = active;
    for (index, target) in targets.iter().enumerate() {
        let going = super::access::lanes(left)
            .filter(|lane| row[*lane] as usize == index)
            .fold(0u32, |mask, lane| mask | 1 << lane);
        if going == 0 || index == row[first] as usize {
            continue;
        }
        split(warp, at, going, *target);
        left &= !going;
    }
    warp.fragments[at].pc = targets[row[first] as usize];
    Ok(())
}
