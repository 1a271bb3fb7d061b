//! Integer arithmetic on rows.

use super::rows::map;
use crate::ops::{IntOp, IntUn, TriOp};
use crate::program::{Row32, Row64};

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

/// Division by zero gives a machine-specific value (PTX ISA, "div"). Devices return all ones, and
/// the dividend for remainders.
#[inline(always)]
pub(crate) fn binary32(op: IntOp, a: &Row32, b: &Row32) -> Row32 {
    match op {
        IntOp::Add => map!(i => a[i].wrapping_add(b[i])),
        IntOp::Sub => map!(i => a[i].wrapping_sub(b[i])),
        IntOp::MulLo => map!(i => a[i].wrapping_mul(b[i])),
        IntOp::MulHiU => map!(i => ((u64::from(a[i]) * u64::from(b[i])) >> 32) as u32),
        IntOp::MulHiS => {
            map!(i => ((i64::from(a[i] as i32) * i64::from(b[i] as i32)) >> 32) as u32)
        }
        IntOp::DivU => map!(i => a[i].checked_div(b[i]).unwrap_or(u32::MAX)),
        IntOp::RemU => map!(i => a[i].checked_rem(b[i]).unwrap_or(a[i])),
        IntOp::DivS => map!(i => match b[i] {
            0 => u32::MAX,
            _ => (a[i] as i32).wrapping_div(b[i] as i32) as u32,
        }),
        IntOp::RemS => map!(i => match b[i] {
            0 => a[i],
            _ => (a[i] as i32).wrapping_rem(b[i] as i32) as u32,
        }),
        IntOp::MinS => map!(i => (a[i] as i32).min(b[i] as i32) as u32),
        IntOp::MinU => map!(i => a[i].min(b[i])),
        IntOp::MaxS => map!(i => (a[i] as i32).max(b[i] as i32) as u32),
        IntOp::MaxU => map!(i => a[i].max(b[i])),
        IntOp::And => map!(i => a[i] & b[i]),
        IntOp::Or => map!(i => a[i] | b[i]),
        IntOp::Xor => map!(i => a[i] ^ b[i]),
        // Amounts above the width are clamped to it (PTX ISA, "shl", "shr").
        IntOp::Shl => map!(i => if b[i] < 32 { a[i] << b[i] } else { 0 }),
        IntOp::ShrU => map!(i => if b[i] < 32 { a[i] >> b[i] } else { 0 }),
        IntOp::ShrS => map!(i => (a[i] as i32 >> b[i].min(31)) as u32),
        IntOp::Mul24LoS => map!(i => (s24(a[i]) * s24(b[i])) as u32),
        IntOp::Mul24LoU => map!(i => (u24(a[i]) * u24(b[i])) as u32),
        // "hi" is bits 47 to 16 of the 48-bit product (PTX ISA, "mul24").
        IntOp::Mul24HiS => map!(i => ((s24(a[i]) * s24(b[i])) >> 16) as u32),
        IntOp::Mul24HiU => map!(i => ((u24(a[i]) * u24(b[i])) >> 16) as u32),
    }
}

#[inline(always)]
pub(crate) fn binary64(op: IntOp, a: &Row64, b: &Row64) -> Row64 {
    match op {
        IntOp::Add => map!(i => a[i].wrapping_add(b[i])),
        IntOp::Sub => map!(i => a[i].wrapping_sub(b[i])),
        IntOp::MulLo => map!(i => a[i].wrapping_mul(b[i])),
        IntOp::MulHiU => map!(i => ((u128::from(a[i]) * u128::from(b[i])) >> 64) as u64),
        IntOp::MulHiS => {
            map!(i => ((i128::from(a[i] as i64) * i128::from(b[i] as i64)) >> 64) as u64)
        }
        IntOp::DivU => map!(i => a[i].checked_div(b[i]).unwrap_or(u64::MAX)),
        IntOp::RemU => map!(i => a[i].checked_rem(b[i]).unwrap_or(a[i])),
        IntOp::DivS => map!(i => match b[i] {
            0 => u64::MAX,
            _ => (a[i] as i64).wrapping_div(b[i] as i64) as u64,
        }),
        IntOp::RemS => map!(i => match b[i] {
            0 => a[i],
            _ => (a[i] as i64).wrapping_rem(b[i] as i64) as u64,
        }),
        IntOp::MinS => map!(i => (a[i] as i64).min(b[i] as i64) as u64),
        IntOp::MinU => map!(i => a[i].min(b[i])),
        IntOp::MaxS => map!(i => (a[i] as i64).max(b[i] as i64) as u64),
        IntOp::MaxU => map!(i => a[i].max(b[i])),
        IntOp::And => map!(i => a[i] & b[i]),
        IntOp::Or => map!(i => a[i] | b[i]),
        IntOp::Xor => map!(i => a[i] ^ b[i]),
        // The decoder emits no 64-bit form of these: shifts take their amount from the other bank.
        IntOp::Shl | IntOp::ShrU | IntOp::ShrS => *a,
        IntOp::Mul24LoS | IntOp::Mul24LoU | IntOp::Mul24HiS | IntOp::Mul24HiU => *a,
    }
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

#[inline(always)]
pub(crate) fn unary32(op: IntUn, a: &Row32) -> Row32 {
    match op {
        IntUn::Neg => map!(i => a[i].wrapping_neg()),
        IntUn::Abs => map!(i => (a[i] as i32).wrapping_abs() as u32),
        IntUn::Not => map!(i => !a[i]),
        IntUn::Cnot => map!(i => u32::from(a[i] == 0)),
        IntUn::Brev => map!(i => a[i].reverse_bits()),
    }
}

#[inline(always)]
pub(crate) fn unary64(op: IntUn, a: &Row64) -> Row64 {
    match op {
        IntUn::Neg => map!(i => a[i].wrapping_neg()),
        IntUn::Abs => map!(i => (a[i] as i64).wrapping_abs() as u64),
        IntUn::Not => map!(i => !a[i]),
        IntUn::Cnot => map!(i => u64::from(a[i] == 0)),
        IntUn::Brev => map!(i => a[i].reverse_bits()),
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
    super::bits::field(signed, wide, start & 255, len & 255, 32) as u32
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
