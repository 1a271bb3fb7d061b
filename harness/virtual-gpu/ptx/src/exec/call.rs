//! Calls, returns, exits, and the two built-in functions.

use super::access::{LaneFault, WarpMemory, warp_memory};
use super::machine::Machine;
use super::printf;
use super::warp::{Fragment, Frame, Warp, lanes, split};
use crate::fault::FaultKind;
use crate::operands::{CallSite, Callee, ParamWords};
use crate::program::function_of;
use crate::types::MAX_LOCAL_BYTES;

/// Maximum call depth at any stack limit: each level costs the host a register file.
const MAX_CALL_DEPTH: u32 = 1024;

/// Memory of one lane, for the built-in functions.
struct LaneReader<'r, 'm, 'a, 'b> {
    memory: &'r mut WarpMemory<'m, 'a, 'b>,
    lane: usize,
}

impl printf::Source for LaneReader<'_, '_, '_, '_> {
    type Error = FaultKind;
    fn read(&mut self, addr: u64, bytes: u64) -> Result<u64, FaultKind> {
        self.memory.read_generic(self.lane, addr, bytes)
    }
}

impl Machine<'_, '_, '_> {
    /// Starts a call of the active lanes of fragment `at`.
    pub(super) fn call(
        &mut self,
        warp: &mut Warp,
        at: usize,
        site: &CallSite,
        site_index: u32,
        active: u32,
    ) -> Result<(), LaneFault> {
        let Fragment { mask, pc, frame, .. } = warp.fragments[at];
        let first = active.trailing_zeros() as usize & 31;
        let target = match site.callee {
            Callee::Vprintf => {
                self.vprintf(warp, frame, site, active)?;
                warp.fragments[at].pc = pc + 1;
                return Ok(());
            }
            Callee::AssertFail => return Err(self.assertion(warp, frame, site, first)),
            Callee::Direct(target) => target as usize,
            Callee::Indirect(row) => {
                let addr = warp.frames[frame].r64[usize::from(row)][first];
                let functions = &self.program.module().functions;
                let bytes = |all: &[ParamWords]| all.iter().map(|p| p.bytes).collect::<Vec<_>>();
                match function_of(addr, functions.len()) {
                    Some(target)
                        if bytes(&functions[target].params) == bytes(&site.args)
                            && bytes(&functions[target].returns) == bytes(&site.returns) =>
                    {
                        target
                    }
                    _ => return Err((first, FaultKind::InvalidPc { addr })),
                }
            }
        };
        let mut going = active;
        if let Callee::Indirect(row) = site.callee {
            let pointers = warp.frames[frame].r64[usize::from(row)];
            going = lanes(active)
                .filter(|lane| pointers[*lane] == pointers[first])
                .fold(0, |mask, lane| mask | 1 << lane);
        }
        self.enter(warp, frame, target, site).map_err(|kind| (first, kind)).map(|entered| {
            let new = &mut warp.frames[entered];
            (new.live, new.return_pc, new.site) = (going, pc + 1, site_index as usize);
            if mask & !active != 0 {
                split(warp, at, mask & !active, pc + 1);
            }
            if active & !going != 0 {
                // Lanes with other targets execute this call again.
                split(warp, at, active & !going, pc);
            }
            let fragment = &mut warp.fragments[at];
            (fragment.pc, fragment.frame) = (0, entered);
        })
    }

    /// Creates the frame of a call and copies its arguments.
    fn enter(
        &self,
        warp: &mut Warp,
        caller: usize,
        target: usize,
        site: &CallSite,
    ) -> Result<usize, FaultKind> {
        let func = &self.program.module().functions[target];
        let parent = &warp.frames[caller];
        let caller_func = &self.program.module().functions[parent.function];
        let local_base = (parent.local_base + caller_func.local_bytes).next_multiple_of(16);
        // A call stores its return address, live registers and variables on the stack.
        let frame_bytes = (8 + 4 * func.registers + func.local_bytes).next_multiple_of(16);
        let stack_bytes = parent.stack_bytes.saturating_add(frame_bytes);
        let depth = parent.depth + 1;
        let limit_bytes = self.launch.limits.stack_bytes;
        let local_end = local_base.saturating_add(func.local_bytes);
        let too_deep = depth > MAX_CALL_DEPTH || local_end > MAX_LOCAL_BYTES;
        if stack_bytes > limit_bytes || too_deep {
            return Err(FaultKind::StackOverflow { limit_bytes });
        }
        warp.grow_local(local_end);
        let entered = warp.new_frame();
        let mut new = std::mem::take(&mut warp.frames[entered]);
        new.reset(target, &self.program.templates[target], func.preds, func.flat_rows());
        let parent = &warp.frames[caller];
        for (to, from) in func.params.iter().zip(&site.args) {
            copy_words(parent, &mut new, *from, *to, u32::MAX);
        }
        (new.parent, new.depth) = (caller, depth);
        (new.local_base, new.stack_bytes) = (local_base, stack_bytes);
        warp.frames[entered] = new;
        Ok(entered)
    }

    /// Returns the active lanes of fragment `at` to their caller.
    pub(super) fn ret(&mut self, warp: &mut Warp, at: usize, active: u32) {
        let Fragment { mask, pc, frame, .. } = warp.fragments[at];
        if warp.frames[frame].depth == 0 {
            return self.exit(warp, at, active);
        }
        let mut ended = std::mem::take(&mut warp.frames[frame]);
        let functions = &self.program.module().functions;
        let parent = &mut warp.frames[ended.parent];
        let site = &functions[parent.function].calls[ended.site];
        for (from, to) in functions[ended.function].returns.iter().zip(&site.returns) {
            copy_words(&ended, parent, *from, *to, active);
        }
        ended.live &= !active;
        let (caller, return_pc) = (ended.parent, ended.return_pc);
        warp.frames[frame] = ended;
        warp.release_if_empty(frame);
        if mask != active {
            split(warp, at, mask & !active, pc + 1);
        }
        let fragment = &mut warp.fragments[at];
        (fragment.pc, fragment.frame) = (return_pc, caller);
    }

    /// Ends the active lanes of fragment `at`.
    pub(super) fn exit(&mut self, warp: &mut Warp, at: usize, active: u32) {
        let Fragment { pc, frame, .. } = warp.fragments[at];
        warp.live &= !active;
        self.block.live_threads -= active.count_ones();
        let mut leaving = frame;
        loop {
            let (parent, depth) = (warp.frames[leaving].parent, warp.frames[leaving].depth);
            warp.frames[leaving].live &= !active;
            warp.release_if_empty(leaving);
            if depth == 0 {
                break;
            }
            leaving = parent;
        }
        let fragment = &mut warp.fragments[at];
        fragment.mask &= !active;
        fragment.pc = pc + 1;
        if fragment.mask == 0 {
            warp.fragments.swap_remove(at);
        }
    }

    fn vprintf(
        &mut self,
        warp: &mut Warp,
        frame_at: usize,
        site: &CallSite,
        active: u32,
    ) -> Result<(), LaneFault> {
        for lane in lanes(active) {
            warp_memory!(self, warp, frame_at, memory, frame);
            let (pattern, args) = (argument(frame, site, 0, lane), argument(frame, site, 1, lane));
            let mut reader = LaneReader { memory: &mut memory, lane };
            let formatted = printf::format(&mut reader, pattern, args);
            let (text, taken) = formatted.map_err(|kind| (lane, kind))?;
            frame.r32[usize::from(site.returns[0].row)][lane] = taken;
            self.print(text);
        }
        Ok(())
    }

    /// The fault of `__assertfail(message, file, line, function, size)`.
    fn assertion(
        &mut self,
        warp: &mut Warp,
        frame_at: usize,
        site: &CallSite,
        lane: usize,
    ) -> LaneFault {
        warp_memory!(self, warp, frame_at, memory, frame);
        let mut reader = LaneReader { memory: &mut memory, lane };
        let mut read = |index| printf::text(&mut reader, argument(frame, site, index, lane));
        let line = argument(frame, site, 2, lane) as u32;
        let texts = read(0).and_then(|message| Ok((message, read(1)?, read(3)?)));
        match texts {
            Ok((message, file, function)) => {
                (lane, FaultKind::Assert { message, file, line, function })
            }
            Err(kind) => (lane, kind),
        }
    }
}

/// Copies a parameter's words for some lanes.
fn copy_words(from: &Frame, to: &mut Frame, source: ParamWords, target: ParamWords, lanes: u32) {
    for word in 0..source.words() {
        to.set32(target.row + word, lanes, &from.r32[usize::from(source.row + word)]);
    }
}

fn argument(frame: &Frame, site: &CallSite, index: usize, lane: usize) -> u64 {
    let words = site.args[index];
    let low = u64::from(frame.r32[usize::from(words.row)][lane]);
    match words.bytes {
        8 => low | u64::from(frame.r32[usize::from(words.row + 1)][lane]) << 32,
        _ => low,
    }
}
