//! One arithmetic step of a warp: all lanes are computed, the active ones written. Steps that are
//! rare in hot loops are out of line, so that the others stay compact.
#![expect(unsafe_code, reason = "calls code compiled for CPU features checked at run time")]

use super::warp::Frame;
use super::{float, int};
use crate::inst::Inst;
use crate::ops::CmpKind;
use crate::program::Row32;

/// The compilation of the step for this CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Simd {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2Fma,
}

impl Simd {
    /// The best variant for this CPU. Without hardware FMA a fused multiply-add is a library call.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("lzcnt")
            && std::arch::is_x86_feature_detected!("popcnt")
        {
            return Simd::Avx2Fma;
        }
        Simd::Portable
    }
}

/// Runs `inst` on the `active` lanes. False when it is not arithmetic.
#[inline]
pub(crate) fn step(simd: Simd, frame: &mut Frame, inst: &Inst, active: u32) -> bool {
    match simd {
        Simd::Portable => step_body(frame, inst, active),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::detect` found every feature that the function is compiled for.
        Simd::Avx2Fma => unsafe { step_avx2(frame, inst, active) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi2,lzcnt,popcnt")]
fn step_avx2(frame: &mut Frame, inst: &Inst, active: u32) -> bool {
    step_body(frame, inst, active)
}

/// A row of 32-bit values, or of 64-bit ones.
macro_rules! r32 {
    ($frame:ident, $row:expr) => {
        &$frame.r32[usize::from($row)]
    };
}

macro_rules! r64 {
    ($frame:ident, $row:expr) => {
        &$frame.r64[usize::from($row)]
    };
}

/// Writes a row of the values of an expression over rows.
macro_rules! lanes {
    ($frame:ident.$set:ident($d:ident, $active:ident), [$($bank:ident $row:ident),*],
        $lane:ident => $value:expr) => {{
        $(let $row = $bank!($frame, $row);)*
        let out = map!($lane => $value);
        $frame.$set($d, $active, &out);
    }};
}

#[inline(always)]
fn step_body(frame: &mut Frame, inst: &Inst, active: u32) -> bool {
    match *inst {
        Inst::Int32 { op, d, a, b } => {
            frame.set32(d, active, &int::binary32(op, r32!(frame, a), r32!(frame, b)))
        }
        Inst::Int64 { op, d, a, b } if int::is_shift(op) => {
            frame.set64(d, active, &int::shift64(op, r64!(frame, a), r32!(frame, b)))
        }
        Inst::Int64 { op, d, a, b } => {
            frame.set64(d, active, &int::binary64(op, r64!(frame, a), r64!(frame, b)))
        }
        Inst::Fma32 { mode, d, a, b, c } => frame.set32(
            d,
            active,
            &float::fma32(mode, r32!(frame, a), r32!(frame, b), r32!(frame, c)),
        ),
        Inst::Fma64 { d, a, b, c } => {
            frame.set64(d, active, &float::fma64(r64!(frame, a), r64!(frame, b), r64!(frame, c)))
        }
        Inst::F32 { op, mode, d, a, b } => {
            frame.set32(d, active, &float::binary32(op, mode, r32!(frame, a), r32!(frame, b)))
        }
        Inst::F64 { op, d, a, b } => {
            frame.set64(d, active, &float::binary64(op, r64!(frame, a), r64!(frame, b)))
        }
        Inst::FUn32 { op, mode, d, a } => {
            frame.set32(d, active, &float::unary32(op, mode, r32!(frame, a)))
        }
        Inst::FUn64 { op, d, a } => frame.set64(d, active, &float::unary64(op, r64!(frame, a))),
        Inst::Mov32 { d, a } => {
            let out = *r32!(frame, a);
            frame.set32(d, active, &out);
        }
        Inst::Mov64 { d, a } => {
            let out = *r64!(frame, a);
            frame.set64(d, active, &out);
        }
        Inst::MulWide { signed, d, a, b } => {
            frame.set64(d, active, &int::mul_wide(signed, r32!(frame, a), r32!(frame, b)))
        }
        Inst::Tri32 { op, d, a, b, c } => frame.set32(
            d,
            active,
            &int::ternary32(op, r32!(frame, a), r32!(frame, b), r32!(frame, c)),
        ),
        Inst::SetP(ref setp) => {
            let (a, b) = (setp.a, setp.b);
            let mask = match setp.kind {
                CmpKind::U32 => int::compare_u32(setp.cmp, r32!(frame, a), r32!(frame, b)),
                CmpKind::S32 => int::compare_s32(setp.cmp, r32!(frame, a), r32!(frame, b)),
                CmpKind::U64 => int::compare_u64(setp.cmp, r64!(frame, a), r64!(frame, b)),
                CmpKind::S64 => int::compare_s64(setp.cmp, r64!(frame, a), r64!(frame, b)),
                CmpKind::F32 => int::compare_f32(setp.cmp, false, r32!(frame, a), r32!(frame, b)),
                CmpKind::F32Ftz => int::compare_f32(setp.cmp, true, r32!(frame, a), r32!(frame, b)),
                CmpKind::F64 => int::compare_f64(setp.cmp, r64!(frame, a), r64!(frame, b)),
            };
            int::finish_setp(frame, setp, active, mask);
        }
        Inst::WidenU { d, a, offset } => {
            lanes!(frame.set64(d, active), [r32 a], i => u64::from(a[i].wrapping_add(offset)))
        }
        Inst::WidenS { d, a } => {
            lanes!(frame.set64(d, active), [r32 a], i => i64::from(a[i] as i32) as u64)
        }
        Inst::Low { d, a } => {
            lanes!(frame.set32(d, active), [r64 a], i => a[i] as u32)
        }
        _ => return step_rare(frame, inst, active),
    }
    true
}

#[inline(never)]
#[expect(clippy::too_many_lines, reason = "one arm for each instruction")]
pub(super) fn step_rare(frame: &mut Frame, inst: &Inst, active: u32) -> bool {
    match *inst {
        Inst::MovP { d, a } => {
            let mask = frame.pred(a);
            frame.set_pred(d, active, mask);
        }
        Inst::Logic { op, d, a, b } => {
            let mask = int::logic(op, frame.pred(a), frame.pred(b));
            frame.set_pred(d, active, mask);
        }
        Inst::Sel32 { d, a, b, p } => {
            let mask = frame.pred(p);
            lanes!(frame.set32(d, active), [r32 a, r32 b], i => {
                if mask >> i & 1 == 1 { a[i] } else { b[i] }
            })
        }
        Inst::Sel64 { d, a, b, p } => {
            let mask = frame.pred(p);
            lanes!(frame.set64(d, active), [r64 a, r64 b], i => {
                if mask >> i & 1 == 1 { a[i] } else { b[i] }
            })
        }
        Inst::High { d, a } => {
            lanes!(frame.set32(d, active), [r64 a], i => (a[i] >> 32) as u32)
        }
        Inst::Pack64 { d, low, high } => {
            lanes!(frame.set64(d, active), [r32 low, r32 high], i => {
                u64::from(low[i]) | u64::from(high[i]) << 32
            })
        }
        Inst::Extend { d, a, ty } => {
            lanes!(frame.set32(d, active), [r32 a], i => int::extend(a[i], ty))
        }
        Inst::Extract { d, a, ty, shift } => {
            lanes!(frame.set32(d, active), [r32 a], i => int::extend(a[i] >> shift, ty))
        }
        Inst::Insert { d, a, ty, shift } => {
            let field = (u32::MAX >> (32 - 8 * ty.bytes())) << shift;
            let (old, a) = (r32!(frame, d), r32!(frame, a));
            let out: Row32 = map!(i => (old[i] & !field) | (a[i] << shift & field));
            frame.set32(d, active, &out);
        }
        Inst::IntUn32 { op, d, a } => frame.set32(d, active, &int::unary32(op, r32!(frame, a))),
        Inst::IntUn64 { op, d, a } => frame.set64(d, active, &int::unary64(op, r64!(frame, a))),
        Inst::Count32 { op, d, a } => {
            lanes!(frame.set32(d, active), [r32 a], i => int::count32(op, a[i]))
        }
        Inst::Count64 { op, d, a } => {
            lanes!(frame.set32(d, active), [r64 a], i => int::count64(op, a[i]))
        }
        Inst::Bfe64 { signed, d, a, start, len } => {
            lanes!(frame.set64(d, active), [r64 a, r32 start, r32 len], i => {
                int::bfe64(signed, a[i], start[i], len[i])
            })
        }
        Inst::Bfi32 { d, a, b, start, len } => {
            lanes!(frame.set32(d, active), [r32 a, r32 b, r32 start, r32 len], i => {
                int::bfi(u64::from(a[i]), u64::from(b[i]), start[i], len[i], 32) as u32
            })
        }
        Inst::Bfi64 { d, a, b, start, len } => {
            lanes!(frame.set64(d, active), [r64 a, r64 b, r32 start, r32 len], i => {
                int::bfi(a[i], b[i], start[i], len[i], 64)
            })
        }
        Inst::Prmt { mode, d, a, b, c } => {
            lanes!(frame.set32(d, active), [r32 a, r32 b, r32 c], i => {
                int::prmt(mode, a[i], b[i], c[i])
            })
        }
        Inst::Lop3 { table, d, a, b, c } => {
            lanes!(frame.set32(d, active), [r32 a, r32 b, r32 c], i => {
                int::lop3(table, a[i], b[i], c[i])
            })
        }
        Inst::Select64 { float, d, a, b, c } => {
            lanes!(frame.set64(d, active), [r64 a, r64 b, r32 c], i => {
                if int::selects(float, c[i]) { a[i] } else { b[i] }
            })
        }
        Inst::Carry { .. } => int::carry(frame, inst, active),
        Inst::Testp { wide, what, d, a } => {
            let mut mask = 0;
            for lane in 0..32 {
                mask |= u32::from(int::testp(what, wide, frame.lane(wide, a, lane))) << lane;
            }
            frame.set_pred(d, active, mask);
        }
        Inst::Cvt(ref cvt) => float::run(frame, cvt, active),
        Inst::Nop => {}
        _ => return false,
    }
    true
}
