//! Runs the lanes of a warp: fetch, guard, account, time, execute.

use super::access::warp_memory;
use super::alu;
use super::divergence::{meeting_point, split, table_branch};
use super::machine::{Machine, Raised};
use super::warp::{Fragment, Wait, Warp};
use super::warp_ops;
use crate::inst::Inst;

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
