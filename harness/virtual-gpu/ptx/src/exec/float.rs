//! Floating arithmetic on rows.
//!
//! Results are those of IEEE 754 with NaNs made canonical in single precision, as devices do (PTX
//! ISA, "Floating-Point Instructions": canonical NaN 0x7fffffff). Approximate instructions are
//! computed in double precision and rounded: within every bound that the ISA gives for them.

use super::rows::map;
use crate::ops::{FMode, FOp, FUn, Round};
use crate::program::{Row32, Row64};

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

/// Rounds the exact value `sum + error` to single precision. `error` is what was lost when `sum`
/// was rounded to double, at most half of its last place (Knuth's TwoSum).
pub(crate) fn round_to_f32(sum: f64, error: f64, round: Round) -> f32 {
    let near = sum as f32;
    if near.is_nan() || sum.is_infinite() {
        return near;
    }
    // The sign of `rest` says on which side of `near` the exact value lies.
    let rest = if f64::from(near) == sum { error } else { sum - f64::from(near) };
    let (above, below) = (rest > 0.0, rest < 0.0);
    match round {
        Round::Nearest => near,
        Round::Down if below => near.next_down(),
        Round::Up if above => near.next_up(),
        Round::Zero if below && near > 0.0 => near.next_down(),
        Round::Zero if above && near < 0.0 => near.next_up(),
        _ => near,
    }
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
#[inline(always)]
fn min32(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else if a == b {
        f(a.to_bits() | b.to_bits())
    } else if a < b {
        a
    } else {
        b
    }
}

#[inline(always)]
fn max32(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else if a == b {
        f(a.to_bits() & b.to_bits())
    } else if a > b {
        a
    } else {
        b
    }
}

#[inline(always)]
fn min64(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else if a == b {
        g(a.to_bits() | b.to_bits())
    } else if a < b {
        a
    } else {
        b
    }
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
