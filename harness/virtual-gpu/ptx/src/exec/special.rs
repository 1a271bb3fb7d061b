//! Instructions that are neither arithmetic nor memory nor control: special registers, clocks, and
//! exchanges between lanes.

use super::machine::Machine;
use super::tensor;
use super::warp::{Frame, Warp, lanes};
use crate::fault::FaultKind;
use crate::inst::Inst;
use crate::operands::{NO_ROW, Row, Shfl};
use crate::ops::{ShflMode, Special, VoteMode};
use crate::program::Row32;
use crate::types::{Space, window};

impl Machine<'_, '_, '_> {
    pub(super) fn other(
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
            Inst::Nanosleep(a) => {
                let requested = warp.frames[frame_at].r32[usize::from(a)];
                let max = lanes(active).map(|lane| requested[lane]).max();
                // PTX ISA, "nanosleep": at most 1 ms.
                let ns = u64::from(max.unwrap_or(0).min(1_000_000));
                warp.cycle = warp.cycle.saturating_add(self.launch.model.ns_to_cycles(ns));
            }
            Inst::Wmma { product, .. } => {
                let frame = &mut warp.frames[frame_at];
                let module = self.program.module();
                let product = &module.functions[frame.function].products[product as usize];
                if !tensor::multiply_add(frame, product, active) {
                    // The PTX ISA leaves the result undefined. The refusal shows the defect.
                    let opcode = "wmma.mma of a warp with inactive lanes".to_owned();
                    return Err(FaultKind::IllegalInstruction { opcode });
                }
            }
            _ => run(&mut warp.frames[frame_at], inst, active),
        }
        Ok(())
    }
}

impl Machine<'_, '_, '_> {
    /// A 32-bit special register of all lanes (PTX ISA, "Special Registers").
    pub(super) fn special32(&mut self, warp: &mut Warp, which: Special) -> Row32 {
        let by_lane = |value: fn(u32) -> u32| std::array::from_fn(|lane| value(lane as u32));
        let axis = |axis: u8| usize::from(axis.min(2));
        let value = match which {
            Special::Tid(at) => return warp.tid[axis(at)],
            Special::Laneid => return by_lane(|lane| lane),
            Special::LanemaskEq => return by_lane(|lane| 1 << lane),
            Special::LanemaskLt => return by_lane(|lane| (1 << lane) - 1),
            Special::LanemaskLe => return by_lane(|lane| u32::MAX >> (31 - lane)),
            Special::LanemaskGe => return by_lane(|lane| u32::MAX << lane),
            Special::LanemaskGt => return by_lane(|lane| !(u32::MAX >> (31 - lane))),
            Special::Ntid(at) => self.launch.block[axis(at)],
            Special::Ctaid(at) => self.block.index[axis(at)],
            Special::Nctaid(at) => self.launch.grid[axis(at)],
            Special::Warpid => warp.index,
            Special::Nwarpid => self.block.threads.div_ceil(32),
            Special::Smid => self.block.smid,
            Special::Nsmid => self.launch.sm_count,
            Special::DynamicSharedBytes => self.launch.dynamic_shared_bytes,
            Special::TotalSharedBytes => self.block.shared.len() as u32,
            Special::Clock => self.clock(warp) as u32,
            Special::ClockHi => (self.clock(warp) >> 32) as u32,
            Special::GlobaltimerLo => self.globaltimer(warp) as u32,
            Special::GlobaltimerHi => (self.globaltimer(warp) >> 32) as u32,
            // Read through 64-bit moves only.
            Special::Gridid | Special::Clock64 | Special::Globaltimer => 0,
        };
        [value; 32]
    }

    /// Cycles of the SM: those before the block started, and the warp's own.
    pub(super) fn clock(&mut self, warp: &Warp) -> u64 {
        // A loop that reads a clock can end by it.
        self.memory.changes += 1;
        self.block.start_cycle.saturating_add(warp.cycle)
    }

    /// The global clock after the warp's active time.
    pub(super) fn globaltimer(&mut self, warp: &mut Warp) -> u64 {
        self.memory.changes += 1;
        let model = self.launch.model;
        warp.cycle = warp.cycle.saturating_add(u64::from(model.globaltimer_cycles));
        let active_ns = self.block.start_ns.saturating_add(model.cycles_to_ns(warp.cycle));
        self.timer.globaltimer_ns(active_ns)
    }
}

/// Whether a generic address lies in `space`.
pub(super) fn is_in(space: Space, addr: u64) -> bool {
    let within = |base: u64| addr.wrapping_sub(base) < window::WINDOW_BYTES;
    match space {
        Space::Shared => within(window::SHARED_BASE),
        Space::Local => within(window::LOCAL_BASE),
        Space::Global => addr < window::CODE_BASE,
        // Constants lie in device memory; their addresses are not distinguishable.
        Space::Const | Space::Param | Space::Generic => false,
    }
}

/// Runs `inst`; `active` lanes take part.
pub(crate) fn run(frame: &mut Frame, inst: &Inst, active: u32) {
    match inst {
        Inst::Shfl(op) => shuffle(frame, op, active),
        Inst::Vote { mode, d, p, .. } => {
            let yes = frame.pred(*p) & active;
            let holds = match mode {
                VoteMode::All => yes == active,
                VoteMode::Any => yes != 0,
                VoteMode::Uni => yes == 0 || yes == active,
                VoteMode::Ballot => {
                    frame.set32(*d, active, &[yes; 32]);
                    return;
                }
            };
            frame.set_pred(*d, active, if holds { u32::MAX } else { 0 });
        }
        Inst::Match { wide, all, d, p, a, .. } => matching(frame, *wide, *all, *d, *p, *a, active),
        _ => {}
    }
}

/// The algorithm of PTX ISA, "shfl.sync".
fn shuffle(frame: &mut Frame, op: &Shfl, active: u32) {
    let source = frame.r32[usize::from(op.a)];
    let mut out = source;
    let mut in_range = 0u32;
    for lane in lanes(active) {
        let b = frame.r32[usize::from(op.b)][lane] & 31;
        let c = frame.r32[usize::from(op.c)][lane];
        let (clamp, segment) = (c & 31, c >> 8 & 31);
        let own = lane as u32;
        let low = own & segment;
        let high = low | (clamp & !segment);
        let (from, fits) = match op.mode {
            ShflMode::Up => (own.wrapping_sub(b), own as i32 - b as i32 >= high as i32),
            ShflMode::Down => (own + b, own + b <= high),
            ShflMode::Bfly => (own ^ b, (own ^ b) <= high),
            ShflMode::Idx => (low | (b & !segment), (low | (b & !segment)) <= high),
        };
        let from = if fits { from } else { own };
        // Reading from an inactive lane is undefined; here it reads that lane's register.
        out[lane] = source[(from & 31) as usize];
        in_range |= u32::from(fits) << lane;
    }
    frame.set32(op.d, active, &out);
    if op.p != NO_ROW {
        frame.set_pred(op.p, active, in_range);
    }
}

fn matching(frame: &mut Frame, wide: bool, all: bool, d: Row, p: Row, a: Row, active: u32) {
    let mut out = [0u32; 32];
    let mut everyone = true;
    for lane in lanes(active) {
        let mine = frame.lane(wide, a, lane);
        let same = lanes(active).filter(|other| frame.lane(wide, a, *other) == mine);
        out[lane] = same.fold(0, |mask, other| mask | 1 << other);
        everyone &= out[lane] == active;
    }
    if all {
        out = [if everyone { active } else { 0 }; 32];
    }
    frame.set32(d, active, &out);
    if p != NO_ROW {
        frame.set_pred(p, active, if everyone { u32::MAX } else { 0 });
    }
}
