//! `cvt` between any two types (PTX ISA, "cvt").

use super::bits::extend;
use super::float::{canonical, flush, round_to_f32, saturate};
use super::frame::Frame;
use crate::operands::Cvt;
use crate::ops::Round;
use crate::types::Ty;

pub(crate) fn run(frame: &mut Frame, cvt: &Cvt, active: u32) {
    for lane in (0..32).filter(|lane| active >> lane & 1 == 1) {
        let bits = frame.lane(cvt.from.is_wide(), cvt.a, lane);
        let out = one(cvt, bits);
        frame.set_lane(cvt.to.is_wide(), cvt.d, lane, out);
    }
}

pub(crate) fn one(cvt: &Cvt, bits: u64) -> u64 {
    match (cvt.from, cvt.to) {
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

/// The nearest integral value in the rounding direction.
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
    let (above, below) = (value > near as i128, value < near as i128);
    match round {
        Round::Down if below => near.next_down(),
        Round::Up if above => near.next_up(),
        Round::Zero if below && value > 0 => near.next_down(),
        Round::Zero if above && value < 0 => near.next_up(),
        _ => near,
    }
}

fn int_to_f64(value: i128, round: Round) -> f64 {
    let near = value as f64;
    let (above, below) = (value > near as i128, value < near as i128);
    match round {
        Round::Down if below => near.next_down(),
        Round::Up if above => near.next_up(),
        Round::Zero if below && value > 0 => near.next_down(),
        Round::Zero if above && value < 0 => near.next_up(),
        _ => near,
    }
}
