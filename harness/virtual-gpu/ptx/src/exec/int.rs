//! Integer arithmetic, shifts, bit fields and logic of one lane.

use super::float::flush;
use super::warp::Frame;
use crate::inst::Inst;
use crate::operands::{NO_ROW, SetP};
use crate::ops::{BoolOp, Cmp, CountOp, IntOp, IntUn, PrmtMode, TestOp, TriOp};
use crate::program::{Row32, Row64};
use crate::types::Ty;

/// Whether the second operand is a 32-bit shift amount.
#[inline(always)]
pub(crate) fn is_shift(op: IntOp) -> bool {
    matches!(op, IntOp::Shl | IntOp::ShrS | IntOp::ShrU)
}

/// Low 24 bits, sign-extended.
#[inline(always)]
fn s24(value: u32) -> i64 {
    i64::from((value << 8) as i32 >> 8)
}

#[inline(always)]
fn u24(value: u32) -> u64 {
    u64::from(value & 0x00FF_FFFF)
}

/// The operations that rows of 32 bits and of 64 have alike. Division by zero gives a
/// machine-specific value (PTX ISA, "div"). Devices return all ones, and the dividend for
/// remainders.
macro_rules! integers {
    ($binary:ident, $rest:ident, $unary:ident, $count:ident, $row:ty, $u:ty, $s:ty, $wide_u:ty,
        $wide_s:ty) => {
        #[inline(always)]
        pub(crate) fn $binary(op: IntOp, a: &$row, b: &$row) -> $row {
            match op {
                IntOp::Add => map!(i => a[i].wrapping_add(b[i])),
                IntOp::Sub => map!(i => a[i].wrapping_sub(b[i])),
                IntOp::MulLo => map!(i => a[i].wrapping_mul(b[i])),
                IntOp::MulHiU => {
                    map!(i => ((a[i] as $wide_u * b[i] as $wide_u) >> <$u>::BITS) as $u)
                }
                IntOp::MulHiS => map!(i => {
                    ((a[i] as $s as $wide_s * b[i] as $s as $wide_s) >> <$u>::BITS) as $u
                }),
                IntOp::DivU => map!(i => a[i].checked_div(b[i]).unwrap_or(<$u>::MAX)),
                IntOp::RemU => map!(i => a[i].checked_rem(b[i]).unwrap_or(a[i])),
                IntOp::DivS => map!(i => match b[i] {
                    0 => <$u>::MAX,
                    _ => (a[i] as $s).wrapping_div(b[i] as $s) as $u,
                }),
                IntOp::RemS => map!(i => match b[i] {
                    0 => a[i],
                    _ => (a[i] as $s).wrapping_rem(b[i] as $s) as $u,
                }),
                IntOp::MinS => map!(i => (a[i] as $s).min(b[i] as $s) as $u),
                IntOp::MinU => map!(i => a[i].min(b[i])),
                IntOp::MaxS => map!(i => (a[i] as $s).max(b[i] as $s) as $u),
                IntOp::MaxU => map!(i => a[i].max(b[i])),
                IntOp::And => map!(i => a[i] & b[i]),
                IntOp::Or => map!(i => a[i] | b[i]),
                IntOp::Xor => map!(i => a[i] ^ b[i]),
                _ => $rest(op, a, b),
            }
        }

        #[inline(always)]
        pub(crate) fn $unary(op: IntUn, a: &$row) -> $row {
            match op {
                IntUn::Neg => map!(i => a[i].wrapping_neg()),
                IntUn::Abs => map!(i => (a[i] as $s).wrapping_abs() as $u),
                IntUn::Not => map!(i => !a[i]),
                IntUn::Cnot => map!(i => <$u>::from(a[i] == 0)),
                IntUn::Brev => map!(i => a[i].reverse_bits()),
            }
        }

        pub(crate) fn $count(op: CountOp, a: $u) -> u32 {
            let signed = if (a as $s) < 0 { !a } else { a };
            match op {
                CountOp::Popc => a.count_ones(),
                CountOp::Clz => a.leading_zeros(),
                CountOp::BfindU => highest(u64::from(a), <$u>::BITS, false),
                CountOp::BfindS => highest(u64::from(signed), <$u>::BITS, false),
                CountOp::BfindShiftU => highest(u64::from(a), <$u>::BITS, true),
                CountOp::BfindShiftS => highest(u64::from(signed), <$u>::BITS, true),
            }
        }
    };
}

integers!(binary32, only32, unary32, count32, Row32, u32, i32, u64, i64);
integers!(binary64, only64, unary64, count64, Row64, u64, i64, u128, i128);

#[inline(always)]
fn only32(op: IntOp, a: &Row32, b: &Row32) -> Row32 {
    match op {
        // Amounts above the width are clamped to it (PTX ISA, "shl", "shr").
        IntOp::Shl => map!(i => if b[i] < 32 { a[i] << b[i] } else { 0 }),
        IntOp::ShrU => map!(i => if b[i] < 32 { a[i] >> b[i] } else { 0 }),
        IntOp::ShrS => map!(i => (a[i] as i32 >> b[i].min(31)) as u32),
        IntOp::Mul24LoS => map!(i => (s24(a[i]) * s24(b[i])) as u32),
        IntOp::Mul24LoU => map!(i => (u24(a[i]) * u24(b[i])) as u32),
        // "hi" is bits 47 to 16 of the 48-bit product (PTX ISA, "mul24").
        IntOp::Mul24HiS => map!(i => ((s24(a[i]) * s24(b[i])) >> 16) as u32),
        _ => map!(i => ((u24(a[i]) * u24(b[i])) >> 16) as u32),
    }
}

/// The decoder emits no 64-bit form of these: shifts take their amount from the other bank.
#[inline(always)]
fn only64(_: IntOp, a: &Row64, _: &Row64) -> Row64 {
    *a
}

#[inline(always)]
pub(crate) fn shift64(op: IntOp, a: &Row64, b: &Row32) -> Row64 {
    match op {
        IntOp::Shl => map!(i => if b[i] < 64 { a[i] << b[i] } else { 0 }),
        IntOp::ShrU => map!(i => if b[i] < 64 { a[i] >> b[i] } else { 0 }),
        _ => map!(i => (a[i] as i64 >> b[i].min(63)) as u64),
    }
}

#[inline(always)]
pub(crate) fn mul_wide(signed: bool, a: &Row32, b: &Row32) -> Row64 {
    if signed {
        map!(i => (i64::from(a[i] as i32) * i64::from(b[i] as i32)) as u64)
    } else {
        map!(i => u64::from(a[i]) * u64::from(b[i]))
    }
}

/// Whether `slct` selects its first source: the selector is not negative.
#[inline(always)]
pub(crate) fn selects(float: bool, c: u32) -> bool {
    if float { f32::from_bits(c) >= 0.0 } else { c as i32 >= 0 }
}

/// Upper or lower word of `{high, low}` shifted (PTX ISA, "shf").
#[inline(always)]
fn funnel(low: u32, high: u32, amount: u32, left: bool) -> u32 {
    let both = u64::from(high) << 32 | u64::from(low);
    if left { ((both << amount) >> 32) as u32 } else { (both >> amount) as u32 }
}

#[inline(always)]
fn dot4(a_signed: bool, b_signed: bool, a: u32, b: u32, c: u32) -> u32 {
    let byte = |signed: bool, word: u32, at: u32| {
        let byte = (word >> (8 * at)) as u8;
        if signed { i32::from(byte as i8) } else { i32::from(byte) }
    };
    let mut sum = c;
    for at in 0..4 {
        sum = sum.wrapping_add((byte(a_signed, a, at) * byte(b_signed, b, at)) as u32);
    }
    sum
}

/// `bfe` on 32 bits; start and length are taken modulo 256 (PTX ISA, "bfe").
#[inline(always)]
fn bfe32(signed: bool, a: u32, start: u32, len: u32) -> u32 {
    let wide = if signed { i64::from(a as i32) as u64 } else { u64::from(a) };
    field(signed, wide, start & 255, len & 255, 32) as u32
}

#[inline(always)]
pub(crate) fn ternary32(op: TriOp, a: &Row32, b: &Row32, c: &Row32) -> Row32 {
    let hi_s = |a: u32, b: u32| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32;
    let hi_u = |a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32;
    match op {
        TriOp::MadLo => map!(i => a[i].wrapping_mul(b[i]).wrapping_add(c[i])),
        TriOp::MadHiS => map!(i => hi_s(a[i], b[i]).wrapping_add(c[i])),
        TriOp::MadHiU => map!(i => hi_u(a[i], b[i]).wrapping_add(c[i])),
        TriOp::SadS => map!(i => c[i].wrapping_add((a[i] as i32).abs_diff(b[i] as i32))),
        TriOp::SadU => map!(i => c[i].wrapping_add(a[i].abs_diff(b[i]))),
        TriOp::BfeS => map!(i => bfe32(true, a[i], b[i], c[i])),
        TriOp::BfeU => map!(i => bfe32(false, a[i], b[i], c[i])),
        TriOp::ShfLeftWrap => map!(i => funnel(a[i], b[i], c[i] & 31, true)),
        TriOp::ShfLeftClamp => map!(i => funnel(a[i], b[i], c[i].min(32), true)),
        TriOp::ShfRightWrap => map!(i => funnel(a[i], b[i], c[i] & 31, false)),
        TriOp::ShfRightClamp => map!(i => funnel(a[i], b[i], c[i].min(32), false)),
        TriOp::SelectS => map!(i => if selects(false, c[i]) { a[i] } else { b[i] }),
        TriOp::SelectF => map!(i => if selects(true, c[i]) { a[i] } else { b[i] }),
        TriOp::Dp4aSS => map!(i => dot4(true, true, a[i], b[i], c[i])),
        TriOp::Dp4aSU => map!(i => dot4(true, false, a[i], b[i], c[i])),
        TriOp::Dp4aUS => map!(i => dot4(false, true, a[i], b[i], c[i])),
        TriOp::Dp4aUU => map!(i => dot4(false, false, a[i], b[i], c[i])),
    }
}

/// Comparison of two ordered values, as a mask of lanes.
macro_rules! compare_integers {
    ($name:ident, $row:ty, $as:ty) => {
        #[inline(always)]
        pub(crate) fn $name(cmp: Cmp, a: &$row, b: &$row) -> u32 {
            macro_rules! lanes {
                ($op:tt) => {{
                    let mut mask = 0u32;
                    for lane in 0..32 {
                        mask |= u32::from((a[lane] as $as) $op (b[lane] as $as)) << lane;
                    }
                    mask
                }};
            }
            match cmp {
                Cmp::Eq | Cmp::Equ => lanes!(==),
                Cmp::Ne | Cmp::Neu => lanes!(!=),
                Cmp::Lt | Cmp::Ltu => lanes!(<),
                Cmp::Le | Cmp::Leu => lanes!(<=),
                Cmp::Gt | Cmp::Gtu => lanes!(>),
                Cmp::Ge | Cmp::Geu => lanes!(>=),
                Cmp::Num => u32::MAX,
                Cmp::Nan => 0,
            }
        }
    };
}

compare_integers!(compare_u32, Row32, u32);
compare_integers!(compare_s32, Row32, i32);
compare_integers!(compare_u64, Row64, u64);
compare_integers!(compare_s64, Row64, i64);

/// Ordered and unordered comparisons (PTX ISA, "Comparisons and Selection").
macro_rules! compare_floats {
    ($a:expr, $b:expr, $cmp:expr) => {{
        let (a, b) = ($a, $b);
        let unordered = a.is_nan() | b.is_nan();
        match $cmp {
            Cmp::Eq => a == b,
            Cmp::Ne => !unordered & (a != b),
            Cmp::Lt => a < b,
            Cmp::Le => a <= b,
            Cmp::Gt => a > b,
            Cmp::Ge => a >= b,
            Cmp::Equ => unordered | (a == b),
            Cmp::Neu => unordered | (a != b),
            Cmp::Ltu => unordered | (a < b),
            Cmp::Leu => unordered | (a <= b),
            Cmp::Gtu => unordered | (a > b),
            Cmp::Geu => unordered | (a >= b),
            Cmp::Num => !unordered,
            Cmp::Nan => unordered,
        }
    }};
}

#[inline(always)]
pub(crate) fn compare_f32(cmp: Cmp, ftz: bool, a: &Row32, b: &Row32) -> u32 {
    let value = |bits: u32| f32::from_bits(if ftz { flush(bits) } else { bits });
    let mut mask = 0;
    for lane in 0..32 {
        let holds = compare_floats!(value(a[lane]), value(b[lane]), cmp);
        mask |= u32::from(holds) << lane;
    }
    mask
}

#[inline(always)]
pub(crate) fn compare_f64(cmp: Cmp, a: &Row64, b: &Row64) -> u32 {
    let mut mask = 0;
    for lane in 0..32 {
        let holds = compare_floats!(f64::from_bits(a[lane]), f64::from_bits(b[lane]), cmp);
        mask |= u32::from(holds) << lane;
    }
    mask
}

/// Combines the comparison with the third source and writes both destinations.
pub(crate) fn finish_setp(frame: &mut Frame, setp: &SetP, active: u32, compared: u32) {
    let (mut p, mut q) = (compared, !compared);
    if let Some((op, c)) = setp.combine {
        let c = frame.pred(c);
        p = logic(op, p, c);
        q = logic(op, q, c);
    }
    frame.set_pred(setp.p, active, p);
    if setp.q != NO_ROW {
        frame.set_pred(setp.q, active, q);
    }
}

pub(crate) fn logic(op: BoolOp, a: u32, b: u32) -> u32 {
    match op {
        BoolOp::And => a & b,
        BoolOp::Or => a | b,
        BoolOp::Xor => a ^ b,
    }
}

/// The low bits of `value` as a value of `ty` in 32 bits.
#[inline(always)]
pub(crate) fn extend(value: u32, ty: Ty) -> u32 {
    match ty {
        Ty::S8 => i32::from(value as i8) as u32,
        Ty::S16 => i32::from(value as i16) as u32,
        Ty::U8 | Ty::B8 => value & 0xFF,
        Ty::U16 | Ty::B16 => value & 0xFFFF,
        _ => value,
    }
}

/// Position of the highest significant bit (`bfind`), -1 when there is none.
fn highest(bits: u64, width: u32, shift: bool) -> u32 {
    match bits.checked_ilog2() {
        None => u32::MAX,
        Some(at) if shift => width - 1 - at,
        Some(at) => at,
    }
}

/// The algorithm of PTX ISA, "bfe": bits beyond the value are zero or copies of the sign bit.
pub(crate) fn field(signed: bool, a: u64, start: u32, len: u32, width: u32) -> u64 {
    let top = width - 1;
    let bit = |at: u32| at <= top && a >> at & 1 == 1;
    let fill = signed && len != 0 && bit((start + len - 1).min(top));
    let mut out = 0u64;
    for at in 0..width {
        let set = if at < len && start + at <= top { bit(start + at) } else { fill };
        out |= u64::from(set) << at;
    }
    out
}

pub(crate) fn bfe64(signed: bool, a: u64, start: u32, len: u32) -> u64 {
    field(signed, a, start & 255, len & 255, 64)
}

/// Puts the low `len` bits of `a` into `b` at `start` (PTX ISA, "bfi").
pub(crate) fn bfi(a: u64, b: u64, start: u32, len: u32, width: u32) -> u64 {
    let (start, len) = (start & 255, len & 255);
    let mut out = b;
    for at in 0..len {
        if start + at >= width {
            break;
        }
        let bit = 1u64 << (start + at);
        out = if a >> at & 1 == 1 { out | bit } else { out & !bit };
    }
    out
}

/// Bytes of `{b, a}` picked by selectors (PTX ISA, "prmt").
pub(crate) fn prmt(mode: PrmtMode, a: u32, b: u32, c: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    let byte = |at: u32| (both >> (8 * (at & 7))) as u8;
    let low = c & 3;
    let mut bytes = [0u8; 4];
    for (at, out) in bytes.iter_mut().enumerate() {
        let at = at as u32;
        *out = match mode {
            PrmtMode::Index => {
                let selector = c >> (4 * at);
                let value = byte(selector);
                // The selector's top bit selects the byte's sign, spread over the byte.
                if selector & 8 != 0 { (value as i8 >> 7) as u8 } else { value }
            }
            PrmtMode::F4e => byte(low + at),
            PrmtMode::B4e => byte(low.wrapping_sub(at)),
            PrmtMode::Rc8 => byte(low),
            PrmtMode::Ecl => byte(low.max(at)),
            PrmtMode::Ecr => byte(low.min(at)),
            PrmtMode::Rc16 => byte((low & 1) * 2 + (at & 1)),
        };
    }
    u32::from_le_bytes(bytes)
}

/// The function with truth table `table`: bit (4a + 2b + c) is the result.
pub(crate) fn lop3(table: u8, a: u32, b: u32, c: u32) -> u32 {
    let mut out = 0;
    for index in 0..8 {
        if table >> index & 1 == 1 {
            let pick = |value: u32, bit: u32| if index & bit != 0 { value } else { !value };
            out |= pick(a, 4) & pick(b, 2) & pick(c, 1);
        }
    }
    out
}

pub(crate) fn testp(what: TestOp, wide: bool, bits: u64) -> bool {
    use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal};
    let category = match wide {
        true => f64::from_bits(bits).classify(),
        false => f32::from_bits(bits as u32).classify(),
    };
    match what {
        TestOp::Finite => !matches!(category, Infinite | Nan),
        TestOp::Infinite => category == Infinite,
        TestOp::Number => category != Nan,
        TestOp::NotANumber => category == Nan,
        TestOp::Normal => category == Normal,
        TestOp::Subnormal => category == Subnormal,
    }
}

/// `add.cc`, `addc`, `sub.cc`, `subc`. After a subtraction the flag holds the borrow, which `subc`
/// subtracts (PTX ISA, "Extended-Precision Integer Arithmetic").
pub(crate) fn carry(frame: &mut Frame, inst: &Inst, active: u32) {
    let Inst::Carry { wide, sub, reads, writes, carry, d, a, b } = *inst else { return };
    let flags = frame.preds[usize::from(carry)];
    let mut out_flags = 0u32;
    let width = if wide { 64 } else { 32 };
    for lane in (0..32).filter(|lane| active >> lane & 1 == 1) {
        let (x, y) = (i128::from(frame.lane(wide, a, lane)), i128::from(frame.lane(wide, b, lane)));
        let flag = i128::from(reads && flags >> lane & 1 == 1);
        let exact = if sub { x - y - flag } else { x + y + flag };
        frame.set_lane(wide, d, lane, exact as u64);
        out_flags |= u32::from(exact >> width != 0) << lane;
    }
    if writes {
        frame.set_pred(carry, active, out_flags);
    }
}
