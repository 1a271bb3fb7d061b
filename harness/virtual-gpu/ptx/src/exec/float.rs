//! Floating arithmetic on rows, and conversions.
//!
//! Results are those of IEEE 754 with NaNs made canonical in single precision, as devices do (PTX
//! ISA, "Floating-Point Instructions": canonical NaN 0x7fffffff). Approximate instructions are
//! computed in double precision and rounded: within every bound that the ISA gives for them.

use super::int::extend;
use super::warp::Frame;
use crate::operands::Cvt;
use crate::ops::{FMode, FOp, FUn, Round};
use crate::program::{Row32, Row64};
use crate::types::Ty;

/// The NaN that single-precision instructions produce.
pub(crate) const CANONICAL_NAN: u32 = 0x7FFF_FFFF;

#[inline(always)]
fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline(always)]
fn g(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Bits of a result, with a canonical NaN.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> u32 {
    if value.is_nan() { CANONICAL_NAN } else { value.to_bits() }
}

/// Flushes a subnormal to zero of its sign.
#[inline(always)]
pub(crate) fn flush(bits: u32) -> u32 {
    if bits & 0x7F80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// Clamps to [0, 1]; NaN becomes 0 (PTX ISA, `.sat`).
#[inline(always)]
pub(crate) fn saturate(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

/// The result of a rounding where the nearest value is `near`, and the exact one above or below it.
macro_rules! directed {
    ($near:expr, $above:expr, $below:expr, $round:expr) => {
        match $round {
            Round::Down if $below => $near.next_down(),
            Round::Up if $above => $near.next_up(),
            Round::Zero if $below && $near > 0.0 => $near.next_down(),
            Round::Zero if $above && $near < 0.0 => $near.next_up(),
            _ => $near,
        }
    };
}

/// Rounds the exact value `sum + error` to single precision. `error` is what was lost when `sum`
/// was rounded to double, at most half of its last place (Knuth's TwoSum).
pub(crate) fn round_to_f32(sum: f64, error: f64, round: Round) -> f32 {
    let near = sum as f32;
    if near.is_nan() || sum.is_infinite() {
        return near;
    }
    // The sign of `rest` says on which side of `near` the exact value lies.
    let rest = if f64::from(near) == sum { error } else { sum - f64::from(near) };
    directed!(near, rest > 0.0, rest < 0.0, round)
}

/// `a * b + c` with a directed rounding: the product of two singles is exact in double.
fn fma_directed(a: f32, b: f32, c: f32, round: Round) -> f32 {
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + addend;
    if sum == 0.0 {
        let opposite = product.is_sign_negative() != addend.is_sign_negative();
        return if opposite && round == Round::Down { -0.0 } else { sum as f32 };
    }
    let back = sum - product;
    let error = (product - (sum - back)) + (addend - back);
    round_to_f32(sum, error, round)
}

/// Runs `op` with every modifier: inputs and output flushed, result rounded and saturated.
#[inline(always)]
fn modified(mode: FMode, inputs: [u32; 3], op: impl Fn(f32, f32, f32) -> f32) -> u32 {
    let [a, b, c] = if mode.ftz { inputs.map(flush) } else { inputs };
    let mut out = op(f(a), f(b), f(c));
    if mode.ftz {
        out = f(flush(out.to_bits()));
    }
    if mode.sat {
        out = saturate(out);
    }
    canonical(out)
}

#[inline(always)]
pub(crate) fn fma32(mode: FMode, a: &Row32, b: &Row32, c: &Row32) -> Row32 {
    if mode.is_plain() {
        return map!(i => canonical(f(a[i]).mul_add(f(b[i]), f(c[i]))));
    }
    map!(i => modified(mode, [a[i], b[i], c[i]], |a, b, c| match mode.round {
        Round::Nearest => a.mul_add(b, c),
        round => fma_directed(a, b, c, round),
    }))
}

#[inline(always)]
pub(crate) fn fma64(a: &Row64, b: &Row64, c: &Row64) -> Row64 {
    map!(i => g(a[i]).mul_add(g(b[i]), g(c[i])).to_bits())
}

/// The minimum; a number wins against NaN, and -0 is less than +0 (PTX ISA, "min").
macro_rules! minimum {
    ($a:expr, $b:expr, $of:ty) => {
        match ($a, $b) {
            (a, b) if a.is_nan() => b,
            (a, b) if b.is_nan() => a,
            (a, b) if a == b => <$of>::from_bits(a.to_bits() | b.to_bits()),
            (a, b) => {
                if a < b {
                    a
                } else {
                    b
                }
            }
        }
    };
}

#[inline(always)]
fn min32(a: f32, b: f32) -> f32 {
    minimum!(a, b, f32)
}

#[inline(always)]
fn max32(a: f32, b: f32) -> f32 {
    -min32(-a, -b)
}

#[inline(always)]
fn min64(a: f64, b: f64) -> f64 {
    minimum!(a, b, f64)
}

#[inline(always)]
fn max64(a: f64, b: f64) -> f64 {
    -min64(-a, -b)
}

fn scalar32(op: FOp, round: Round, a: f32, b: f32) -> f32 {
    match (op, round) {
        (FOp::Add, Round::Nearest) => a + b,
        (FOp::Add, round) => fma_directed(a, 1.0, b, round),
        (FOp::Sub, Round::Nearest) => a - b,
        (FOp::Sub, round) => fma_directed(a, 1.0, -b, round),
        (FOp::Mul, Round::Nearest) => a * b,
        (FOp::Mul, round) => round_to_f32(f64::from(a) * f64::from(b), 0.0, round),
        (FOp::Div, _) => a / b,
        (FOp::Min, _) => min32(a, b),
        (FOp::Max, _) => max32(a, b),
        (FOp::MinNan | FOp::MaxNan, _) if a.is_nan() || b.is_nan() => f32::NAN,
        (FOp::MinNan, _) => min32(a, b),
        (FOp::MaxNan, _) => max32(a, b),
        (FOp::Copysign, _) => a.copysign(b),
    }
}

#[inline(always)]
pub(crate) fn binary32(op: FOp, mode: FMode, a: &Row32, b: &Row32) -> Row32 {
    if !mode.is_plain() {
        return map!(i => modified(mode, [a[i], b[i], 0], |a, b, _| scalar32(op, mode.round, a, b)));
    }
    match op {
        FOp::Add => map!(i => canonical(f(a[i]) + f(b[i]))),
        FOp::Sub => map!(i => canonical(f(a[i]) - f(b[i]))),
        FOp::Mul => map!(i => canonical(f(a[i]) * f(b[i]))),
        FOp::Div => map!(i => canonical(f(a[i]) / f(b[i]))),
        FOp::Min => map!(i => canonical(min32(f(a[i]), f(b[i])))),
        FOp::Max => map!(i => canonical(max32(f(a[i]), f(b[i])))),
        FOp::Copysign => map!(i => f(a[i]).copysign(f(b[i])).to_bits()),
        FOp::MinNan | FOp::MaxNan => {
            map!(i => canonical(scalar32(op, Round::Nearest, f(a[i]), f(b[i]))))
        }
    }
}

#[inline(always)]
pub(crate) fn binary64(op: FOp, a: &Row64, b: &Row64) -> Row64 {
    match op {
        FOp::Add => map!(i => (g(a[i]) + g(b[i])).to_bits()),
        FOp::Sub => map!(i => (g(a[i]) - g(b[i])).to_bits()),
        FOp::Mul => map!(i => (g(a[i]) * g(b[i])).to_bits()),
        FOp::Div => map!(i => (g(a[i]) / g(b[i])).to_bits()),
        FOp::Min | FOp::MinNan => map!(i => min64(g(a[i]), g(b[i])).to_bits()),
        FOp::Max | FOp::MaxNan => map!(i => max64(g(a[i]), g(b[i])).to_bits()),
        FOp::Copysign => map!(i => g(a[i]).copysign(g(b[i])).to_bits()),
    }
}

fn function32(op: FUn, a: f32) -> f32 {
    let x = f64::from(a);
    match op {
        FUn::Neg => -a,
        FUn::Abs => a.abs(),
        FUn::Sqrt => a.sqrt(),
        FUn::Rcp => 1.0 / a,
        FUn::Rsqrt => (1.0 / x.sqrt()) as f32,
        FUn::Sin => x.sin() as f32,
        FUn::Cos => x.cos() as f32,
        FUn::Lg2 => x.log2() as f32,
        FUn::Ex2 => x.exp2() as f32,
        FUn::Tanh => x.tanh() as f32,
    }
}

#[inline(always)]
pub(crate) fn unary32(op: FUn, mode: FMode, a: &Row32) -> Row32 {
    match op {
        // Sign changes keep a NaN's payload.
        FUn::Neg if mode.is_plain() => map!(i => a[i] ^ 0x8000_0000),
        FUn::Abs if mode.is_plain() => map!(i => a[i] & 0x7FFF_FFFF),
        _ => map!(i => modified(mode, [a[i], 0, 0], |a, _, _| function32(op, a))),
    }
}

#[inline(always)]
pub(crate) fn unary64(op: FUn, a: &Row64) -> Row64 {
    match op {
        FUn::Neg => map!(i => a[i] ^ 1 << 63),
        FUn::Abs => map!(i => a[i] & !(1 << 63)),
        FUn::Sqrt => map!(i => g(a[i]).sqrt().to_bits()),
        FUn::Rcp => map!(i => (1.0 / g(a[i])).to_bits()),
        FUn::Rsqrt => map!(i => (1.0 / g(a[i]).sqrt()).to_bits()),
        // The decoder emits no 64-bit form of these.
        FUn::Sin | FUn::Cos | FUn::Lg2 | FUn::Ex2 | FUn::Tanh => *a,
    }
}

pub(crate) fn run(frame: &mut Frame, cvt: &Cvt, active: u32) {
    for lane in (0..32).filter(|lane| active >> lane & 1 == 1) {
        let bits = frame.lane(cvt.from.is_wide(), cvt.a, lane);
        let out = one(cvt, bits);
        frame.set_lane(cvt.to.is_wide(), cvt.d, lane, out);
    }
}

pub(crate) fn one(cvt: &Cvt, bits: u64) -> u64 {
    match (cvt.from, cvt.to) {
        (Ty::F16, _) => one(&Cvt { from: Ty::F32, ..*cvt }, half(bits as u16).to_bits().into()),
        (Ty::Bf16, _) => one(&Cvt { from: Ty::F32, ..*cvt }, bits << 16 & 0xFFFF_FFFF),
        (from, Ty::F16 | Ty::Bf16) => {
            let value = match from {
                Ty::F32 => f64::from(f32::from_bits(bits as u32)),
                Ty::F64 => f64::from_bits(bits),
                _ => exact(bits, from) as f64,
            };
            let value = if cvt.integral { integral(value, cvt.round) } else { value };
            let value = match cvt.sat {
                true if value > 0.0 => value.min(1.0),
                true => 0.0,
                false => value,
            };
            u64::from(narrowed(value, cvt.round, cvt.to))
        }
        (Ty::F32, Ty::F32) => {
            let bits = if cvt.ftz { flush(bits as u32) } else { bits as u32 };
            let value = f32::from_bits(bits);
            let value =
                if cvt.integral { integral(f64::from(value), cvt.round) as f32 } else { value };
            finish_f32(cvt, value)
        }
        (Ty::F64, Ty::F64) => {
            let value = f64::from_bits(bits);
            let value = if cvt.integral { integral(value, cvt.round) } else { value };
            finish_f64(cvt, value)
        }
        (Ty::F32, Ty::F64) => {
            let bits = if cvt.ftz { flush(bits as u32) } else { bits as u32 };
            finish_f64(cvt, f64::from(f32::from_bits(bits)))
        }
        (Ty::F64, Ty::F32) => {
            let value = round_to_f32(f64::from_bits(bits), 0.0, cvt.round);
            let value = if cvt.ftz { f32::from_bits(flush(value.to_bits())) } else { value };
            finish_f32(cvt, value)
        }
        (Ty::F32, to) => {
            let bits = if cvt.ftz { flush(bits as u32) } else { bits as u32 };
            float_to_int(f64::from(f32::from_bits(bits)), cvt.round, to, false)
        }
        (Ty::F64, to) => float_to_int(f64::from_bits(bits), cvt.round, to, true),
        (from, Ty::F32) => finish_f32(cvt, int_to_f32(exact(bits, from), cvt.round)),
        (from, Ty::F64) => finish_f64(cvt, int_to_f64(exact(bits, from), cvt.round)),
        (from, to) => {
            let value = exact(bits, from);
            let value = if cvt.sat { clamp(value, to) } else { value };
            truncate(value, to)
        }
    }
}

/// The value of a half (IEEE 754 binary16), exact in single precision.
pub(super) fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, mantissa) = (u32::from(bits >> 10 & 0x1F), u32::from(bits & 0x3FF));
    match exponent {
        0 => {
            // Units of 2^-24, exact in single precision.
            let magnitude = mantissa as f32 / 16_777_216.0;
            f32::from_bits(magnitude.to_bits() | sign)
        }
        0x1F => f32::from_bits(sign | 0x7F80_0000 | mantissa << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | mantissa << 13),
    }
}

/// A number rounded to a format of 16 bits.
fn narrowed(value: f64, round: Round, to: Ty) -> u16 {
    // Bits of the mantissa, and the exponent of the smallest normal number.
    let (bits, least) = if to == Ty::F16 { (10, -14) } else { (7, -126) };
    let infinity = (1 << 15) - (1 << bits);
    let sign = u16::from(value.is_sign_negative()) << 15;
    if value.is_nan() {
        return 0x7FFF;
    }
    let exponent = (value.to_bits() >> 52 & 0x7FF) as i32 - 1023;
    let unit = exponent.max(least) - bits;
    let count = integral(value * 2f64.powi(-unit), round).abs();
    // A count of twice the first normal one carries into the exponent.
    let rounded = (f64::from(unit + bits - least) * f64::from(1 << bits) + count) as u32;
    if rounded < u32::from(infinity) {
        return sign | rounded as u16;
    }
    let stays = match round {
        Round::Nearest => false,
        Round::Zero => true,
        Round::Down => value > 0.0,
        Round::Up => value < 0.0,
    };
    sign | if stays && value.is_finite() { infinity - 1 } else { infinity }
}

fn finish_f32(cvt: &Cvt, value: f32) -> u64 {
    u64::from(canonical(if cvt.sat { saturate(value) } else { value }))
}

fn finish_f64(cvt: &Cvt, value: f64) -> u64 {
    if !cvt.sat {
        return value.to_bits();
    }
    let clamped = if value > 0.0 { value.min(1.0) } else { 0.0 };
    clamped.to_bits()
}

fn integral(value: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

/// The value of an integer register, whatever its type.
fn exact(bits: u64, ty: Ty) -> i128 {
    match (ty.bytes(), ty.is_signed()) {
        (8, true) => i128::from(bits as i64),
        (8, false) => i128::from(bits),
        (4, true) => i128::from(bits as i32),
        (4, false) => i128::from(bits as u32),
        (_, true) => i128::from(extend(bits as u32, ty) as i32),
        (_, false) => i128::from(extend(bits as u32, ty)),
    }
}

fn limits(ty: Ty) -> (i128, i128) {
    let bits = 8 * ty.bytes();
    match ty.is_signed() {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

fn clamp(value: i128, ty: Ty) -> i128 {
    let (low, high) = limits(ty);
    value.clamp(low, high)
}

/// The low bits, extended to the row's width by type.
fn truncate(value: i128, ty: Ty) -> u64 {
    match ty.bytes() {
        8 => value as u64,
        _ => u64::from(extend(value as u32, ty)),
    }
}

/// Out-of-range values clamp to the type's limits. NaN converts to 0, and for doubles and 64-bit
/// integers to the bit pattern with only the top bit set.
fn float_to_int(value: f64, round: Round, to: Ty, from_double: bool) -> u64 {
    if value.is_nan() {
        let special = from_double || to.is_wide();
        let top = 1i128 << (8 * to.bytes() - 1);
        return if special { truncate(top, to) } else { 0 };
    }
    // `as` saturates far outside every target's range.
    truncate(clamp(integral(value, round) as i128, to), to)
}

fn int_to_f32(value: i128, round: Round) -> f32 {
    let near = value as f32;
    directed!(near, value > near as i128, value < near as i128, round)
}

fn int_to_f64(value: i128, round: Round) -> f64 {
    let near = value as f64;
    directed!(near, value > near as i128, value < near as i128, round)
}
