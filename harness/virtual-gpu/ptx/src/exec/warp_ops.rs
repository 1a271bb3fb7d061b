//! Exchanges between the lanes of a warp: shuffles, votes, matches.

use super::address::lanes;
use super::frame::Frame;
use crate::inst::Inst;
use crate::operands::{NO_ROW, Row, Shfl};
use crate::ops::{ShflMode, VoteMode};

/// The row with the member mask, for instructions that have one.
pub(crate) fn members(inst: &Inst) -> Option<Row> {
    match inst {
        Inst::Shfl(shfl) => Some(shfl.members),
        Inst::Vote { members, .. } | Inst::Match { members, .. } => Some(*members),
        Inst::BarWarp { members } | Inst::Wmma { members, .. } => Some(*members),
        _ => None,
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
