//! One arithmetic step of a warp: all lanes are computed, the active ones written.
#![expect(unsafe_code, reason = "calls code compiled for CPU features checked at run time")]

use super::alu_rare::step_rare;
use super::bits;
use super::float;
use super::frame::Frame;
use super::int;
use super::rows::map;
use crate::inst::Inst;
use crate::operands::Row;
use crate::ops::CmpKind;
use crate::program::{Row32, Row64};

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

#[inline(always)]
pub(super) fn at(row: Row) -> usize {
    usize::from(row)
}

#[inline(always)]
#[expect(clippy::too_many_lines, reason = "one arm for each instruction")]
fn step_body(frame: &mut Frame, inst: &Inst, active: u32) -> bool {
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
        Inst::Int32 { op, d, a, b } => {
            let out = int::binary32(op, row32!(a), row32!(b));
            frame.set32(d, active, &out);
        }
        Inst::Int64 { op, d, a, b } => {
            let out = if int::is_shift(op) {
                int::shift64(op, row64!(a), row32!(b))
            } else {
                int::binary64(op, row64!(a), row64!(b))
            };
            frame.set64(d, active, &out);
        }
        Inst::Fma32 { mode, d, a, b, c } => {
            let out = float::fma32(mode, row32!(a), row32!(b), row32!(c));
            frame.set32(d, active, &out);
        }
        Inst::Fma64 { d, a, b, c } => {
            let out = float::fma64(row64!(a), row64!(b), row64!(c));
            frame.set64(d, active, &out);
        }
        Inst::F32 { op, mode, d, a, b } => {
            let out = float::binary32(op, mode, row32!(a), row32!(b));
            frame.set32(d, active, &out);
        }
        Inst::F64 { op, d, a, b } => {
            let out = float::binary64(op, row64!(a), row64!(b));
            frame.set64(d, active, &out);
        }
        Inst::FUn32 { op, mode, d, a } => {
            let out = float::unary32(op, mode, row32!(a));
            frame.set32(d, active, &out);
        }
        Inst::FUn64 { op, d, a } => {
            let out = float::unary64(op, row64!(a));
            frame.set64(d, active, &out);
        }
        Inst::Mov32 { d, a } => {
            let out = *row32!(a);
            frame.set32(d, active, &out);
        }
        Inst::Mov64 { d, a } => {
            let out = *row64!(a);
            frame.set64(d, active, &out);
        }
        Inst::MulWide { signed, d, a, b } => {
            let out = int::mul_wide(signed, row32!(a), row32!(b));
            frame.set64(d, active, &out);
        }
        Inst::Tri32 { op, d, a, b, c } => {
            let out = int::ternary32(op, row32!(a), row32!(b), row32!(c));
            frame.set32(d, active, &out);
        }
        Inst::SetP(ref setp) => {
            let (a, b) = (setp.a, setp.b);
            let mask = match setp.kind {
                CmpKind::U32 => bits::compare_u32(setp.cmp, row32!(a), row32!(b)),
                CmpKind::S32 => bits::compare_s32(setp.cmp, row32!(a), row32!(b)),
                CmpKind::U64 => bits::compare_u64(setp.cmp, row64!(a), row64!(b)),
                CmpKind::S64 => bits::compare_s64(setp.cmp, row64!(a), row64!(b)),
                CmpKind::F32 => bits::compare_f32(setp.cmp, false, row32!(a), row32!(b)),
                CmpKind::F32Ftz => bits::compare_f32(setp.cmp, true, row32!(a), row32!(b)),
                CmpKind::F64 => bits::compare_f64(setp.cmp, row64!(a), row64!(b)),
            };
            bits::finish_setp(frame, setp, active, mask);
        }
        Inst::WidenU { d, a, offset } => {
            let a = row32!(a);
            let out: Row64 = map!(i => u64::from(a[i].wrapping_add(offset)));
            frame.set64(d, active, &out);
        }
        Inst::WidenS { d, a } => {
            let a = row32!(a);
            let out: Row64 = map!(i => i64::from(a[i] as i32) as u64);
            frame.set64(d, active, &out);
        }
        Inst::Low { d, a } => {
            let a = row64!(a);
            let out: Row32 = map!(i => a[i] as u32);
            frame.set32(d, active, &out);
        }
        _ => return step_rare(frame, inst, active),
    }
    true
}
