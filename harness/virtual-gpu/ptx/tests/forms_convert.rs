//! Conversions between all types against plain Rust.

mod support;

use support::{Random, check, doubles, singles};

const M: u64 = 0xFFFF_FFFF;

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn g(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn w(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

#[test]
fn floats_convert_to_integers_with_clamps() {
    check(
        &singles(),
        &[
            // Rust's `as` truncates, clamps and maps NaN to zero, like `.rzi`.
            ("cvt.rzi.s32.f32 %rd, %fa;", "%rd", |a, _, _| u64::from(f(a) as i32 as u32)),
            ("cvt.rzi.u32.f32 %rd, %fa;", "%rd", |a, _, _| u64::from(f(a) as u32)),
            ("cvt.rni.s32.f32 %rd, %fa;", "%rd", |a, _, _| {
                u64::from(f(a).round_ties_even() as i32 as u32)
            }),
            ("cvt.rmi.s32.f32 %rd, %fa;", "%rd", |a, _, _| u64::from(f(a).floor() as i32 as u32)),
            ("cvt.rpi.s32.f32 %rd, %fa;", "%rd", |a, _, _| u64::from(f(a).ceil() as i32 as u32)),
            ("cvt.rzi.s16.f32 %hd, %fa;", "%hd", |a, _, _| u64::from(f(a) as i16 as u16)),
            ("cvt.rzi.u64.f32 %d, %fa;", "%d", |a, _, _| match f(a).is_nan() {
                true => 1 << 63,
                false => f(a) as u64,
            }),
            ("cvt.rni.f32.f32 %fd, %fa;", "%fd", |a, _, _| w(f(a).round_ties_even())),
            ("cvt.rmi.f32.f32 %fd, %fa;", "%fd", |a, _, _| w(f(a).floor())),
            ("cvt.rzi.ftz.f32.f32 %fd, %fa;", "%fd", |a, _, _| w(flush(f(a)).trunc())),
            ("cvt.sat.f32.f32 %fd, %fa;", "%fd", |a, _, _| {
                w(if f(a) > 0.0 { f(a).min(1.0) } else { 0.0 })
            }),
            ("cvt.f64.f32 %dd, %fa;", "%dd", |a, _, _| f64::from(f(a)).to_bits()),
            ("cvt.f32.f32 %fd, %fa;", "%fd", |a, _, _| a & M),
        ],
    );
    check(
        &doubles(),
        &[
            ("cvt.rzi.s64.f64 %d, %da;", "%d", |a, _, _| match g(a).is_nan() {
                true => 1 << 63,
                false => g(a) as i64 as u64,
            }),
            ("cvt.rni.u32.f64 %rd, %da;", "%rd", |a, _, _| match g(a).is_nan() {
                true => 1 << 31,
                false => u64::from(g(a).round_ties_even() as u32),
            }),
            ("cvt.rn.f32.f64 %fd, %da;", "%fd", |a, _, _| w(g(a) as f32)),
            ("cvt.rpi.f64.f64 %dd, %da;", "%dd", |a, _, _| g(a).ceil().to_bits()),
        ],
    );
}

#[test]
fn integers_convert_with_every_width_and_rounding() {
    let mut random = Random(12);
    let mut inputs: Vec<[u64; 3]> = (0..300).map(|_| [random.next(), 0, 0]).collect();
    inputs
        .extend([0, 1, 0x7F, 0x80, 0xFF, 0x8000, 0xFFFF, M, 1 << 63, u64::MAX].map(|a| [a, 0, 0]));
    // Halfway cases of a 24-bit mantissa.
    inputs.extend((0..64).map(|i| [0x100_0001 + 2 * i, 0, 0]));
    check(
        &inputs,
        &[
            ("cvt.s32.s16 %rd, %ha;", "%rd", |a, _, _| u64::from(a as i16 as i32 as u32)),
            ("cvt.u32.u16 %rd, %ha;", "%rd", |a, _, _| a & 0xFFFF),
            ("cvt.s32.s8 %rd, %ra;", "%rd", |a, _, _| u64::from(a as i8 as i32 as u32)),
            ("cvt.u16.u32 %hd, %ra;", "%hd", |a, _, _| a & 0xFFFF),
            ("cvt.u32.u8 %rd, %ra;", "%rd", |a, _, _| a & 0xFF),
            ("cvt.s64.s32 %d, %ra;", "%d", |a, _, _| a as i32 as i64 as u64),
            ("cvt.s64.s16 %d, %ha;", "%d", |a, _, _| a as i16 as i64 as u64),
            ("cvt.u64.u32 %d, %ra;", "%d", |a, _, _| a & M),
            ("cvt.u32.u64 %rd, %a;", "%rd", |a, _, _| a & M),
            ("cvt.sat.s8.s32 %rd, %ra;", "%rd", |a, _, _| {
                u64::from((a as i32).clamp(-128, 127) as u32)
            }),
            ("cvt.sat.u16.s32 %hd, %ra;", "%hd", |a, _, _| (a as i32).clamp(0, 65535) as u64),
            ("cvt.sat.u32.s64 %rd, %a;", "%rd", |a, _, _| (a as i64).clamp(0, M as i64) as u64),
            ("cvt.rn.f32.s32 %fd, %ra;", "%fd", |a, _, _| w(a as i32 as f32)),
            ("cvt.rn.f32.u64 %fd, %a;", "%fd", |a, _, _| w(a as f32)),
            ("cvt.rn.f64.s64 %dd, %a;", "%dd", |a, _, _| (a as i64 as f64).to_bits()),
            ("cvt.rn.f32.s16 %fd, %ha;", "%fd", |a, _, _| w(f32::from(a as i16))),
            ("cvt.rz.f32.u32 %fd, %ra;", "%fd", |a, _, _| {
                // Clearing the bits beyond the mantissa truncates.
                let a = a as u32;
                let excess = 8u32.saturating_sub(a.leading_zeros());
                w((a >> excess << excess) as f32)
            }),
            ("cvt.rp.f32.u32 %fd, %ra;", "%fd", |a, _, _| {
                let a = a & M;
                let near = a as f32;
                w(if (near as u64) < a { near.next_up() } else { near })
            }),
            ("cvt.rm.f32.f64 %fd, %dc; cvt.rm.f64.u64 %dd, %a;", "%dd", |a, _, _| {
                let near = a as f64;
                (if near as u128 > u128::from(a) { near.next_down() } else { near }).to_bits()
            }),
        ],
    );
}
