//! Arithmetic steps that are rare in hot loops; out of line so that the others stay compact.

use super::alu::at;
use super::bits;
use super::convert;
use super::frame::Frame;
use super::int;
use super::rows::map;
use crate::inst::Inst;
use crate::program::{Row32, Row64};

#[inline(never)]
#[expect(clippy::too_many_lines, reason = "one arm for each instruction")]
pub(super) fn step_rare(frame: &mut Frame, inst: &Inst, active: u32) -> bool {
    macro_rules! row32 {
        ($row:expr) => {
            &frame.r32[at($row)]
        };
    }
    macro_rules! row64 {
        ($row:expr) => {
            &frame.r64[at($row)]
        };
    }
    match *inst {
        Inst::MovP { d, a } => {
            let mask = frame.pred(a);
            frame.set_pred(d, active, mask);
        }
        Inst::Logic { op, d, a, b } => {
            let mask = bits::logic(op, frame.pred(a), frame.pred(b));
            frame.set_pred(d, active, mask);
        }
        Inst::Sel32 { d, a, b, p } => {
            let mask = frame.pred(p);
            let (a, b) = (row32!(a), row32!(b));
            let out: Row32 = map!(i => if mask >> i & 1 == 1 { a[i] } else { b[i] });
            frame.set32(d, active, &out);
        }
        Inst::Sel64 { d, a, b, p } => {
            let mask = frame.pred(p);
            let (a, b) = (row64!(a), row64!(b));
            let out: Row64 = map!(i => if mask >> i & 1 == 1 { a[i] } else { b[i] });
            frame.set64(d, active, &out);
        }
        Inst::High { d, a } => {
            let a = row64!(a);
            let out: Row32 = map!(i => (a[i] >> 32) as u32);
            frame.set32(d, active, &out);
        }
        Inst::Pack64 { d, low, high } => {
            let (low, high) = (row32!(low), row32!(high));
            let out: Row64 = map!(i => u64::from(low[i]) | u64::from(high[i]) << 32);
            frame.set64(d, active, &out);
        }
        Inst::Extend { d, a, ty } => {
            let a = row32!(a);
            let out: Row32 = map!(i => bits::extend(a[i], ty));
            frame.set32(d, active, &out);
        }
        Inst::Extract { d, a, ty, shift } => {
            let a = row32!(a);
            let out: Row32 = map!(i => bits::extend(a[i] >> shift, ty));
            frame.set32(d, active, &out);
        }
        Inst::Insert { d, a, ty, shift } => {
            let field = (u32::MAX >> (32 - 8 * ty.bytes())) << shift;
            let (old, a) = (row32!(d), row32!(a));
            let out: Row32 = map!(i => (old[i] & !field) | (a[i] << shift & field));
            frame.set32(d, active, &out);
        }
        Inst::IntUn32 { op, d, a } => {
            let out = int::unary32(op, row32!(a));
            frame.set32(d, active, &out);
        }
        Inst::IntUn64 { op, d, a } => {
            let out = int::unary64(op, row64!(a));
            frame.set64(d, active, &out);
        }
        Inst::Count32 { op, d, a } => {
            let a = row32!(a);
            let out: Row32 = map!(i => bits::count32(op, a[i]));
            frame.set32(d, active, &out);
        }
        Inst::Count64 { op, d, a } => {
            let a = row64!(a);
            let out: Row32 = map!(i => bits::count64(op, a[i]));
            frame.set32(d, active, &out);
        }
        Inst::Bfe64 { signed, d, a, start, len } => {
            let (a, start, len) = (row64!(a), row32!(start), row32!(len));
            let out: Row64 = map!(i => bits::bfe64(signed, a[i], start[i], len[i]));
            frame.set64(d, active, &out);
        }
        Inst::Bfi32 { d, a, b, start, len } => {
            let (a, b, start, len) = (row32!(a), row32!(b), row32!(start), row32!(len));
            let out: Row32 = map!(i => {
                bits::bfi(u64::from(a[i]), u64::from(b[i]), start[i], len[i], 32) as u32
            });
            frame.set32(d, active, &out);
        }
        Inst::Bfi64 { d, a, b, start, len } => {
            let (a, b, start, len) = (row64!(a), row64!(b), row32!(start), row32!(len));
            let out: Row64 = map!(i => bits::bfi(a[i], b[i], start[i], len[i], 64));
            frame.set64(d, active, &out);
        }
        Inst::Prmt { mode, d, a, b, c } => {
            let (a, b, c) = (row32!(a), row32!(b), row32!(c));
            let out: Row32 = map!(i => bits::prmt(mode, a[i], b[i], c[i]));
            frame.set32(d, active, &out);
        }
        Inst::Lop3 { table, d, a, b, c } => {
            let (a, b, c) = (row32!(a), row32!(b), row32!(c));
            let out: Row32 = map!(i => bits::lop3(table, a[i], b[i], c[i]));
            frame.set32(d, active, &out);
        }
        Inst::Select64 { float, d, a, b, c } => {
            let (a, b, c) = (row64!(a), row64!(b), row32!(c));
            let out: Row64 = map!(i => if int::selects(float, c[i]) { a[i] } else { b[i] });
            frame.set64(d, active, &out);
        }
        Inst::Carry { .. } => bits::carry(frame, inst, active),
        Inst::Testp { wide, what, d, a } => {
            let mut mask = 0;
            for lane in 0..32 {
                mask |= u32::from(bits::testp(what, wide, frame.lane(wide, a, lane))) << lane;
            }
            frame.set_pred(d, active, mask);
        }
        Inst::Cvt(ref cvt) => convert::run(frame, cvt, active),
        Inst::Nop => {}
        _ => return false,
    }
    true
}
