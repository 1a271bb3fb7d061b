//! Conversions between all types against plain Rust.

mod support;

use support::{Random, check, doubles, flush, row, singles};

#[test]
fn floats_convert_to_integers_with_clamps() {
    check(
        &singles(),
        &[
            // Rust's `as` truncates, clamps and maps NaN to zero, like `.rzi`.
            row("cvt.rzi.s32.f32 %rd, %fa;", |a: f32, _, _| a as i32),
            row("cvt.rzi.u32.f32 %rd, %fa;", |a: f32, _, _| a as u32),
            row("cvt.rni.s32.f32 %rd, %fa;", |a: f32, _, _| a.round_ties_even() as i32),
            row("cvt.rmi.s32.f32 %rd, %fa;", |a: f32, _, _| a.floor() as i32),
            row("cvt.rpi.s32.f32 %rd, %fa;", |a: f32, _, _| a.ceil() as i32),
            row("cvt.rzi.s16.f32 %hd, %fa;", |a: f32, _, _| a as i16),
            row("cvt.rzi.u64.f32 %d, %fa;", |a: f32, _, _| match a.is_nan() {
                true => 1 << 63,
                false => a as u64,
            }),
            row("cvt.rni.f32.f32 %fd, %fa;", |a: f32, _, _| a.round_ties_even()),
            row("cvt.rmi.f32.f32 %fd, %fa;", |a: f32, _, _| a.floor()),
            row("cvt.rzi.ftz.f32.f32 %fd, %fa;", |a, _, _| flush(a).trunc()),
            row("cvt.sat.f32.f32 %fd, %fa;", |a: f32, _, _| if a > 0.0 { a.min(1.0) } else { 0.0 }),
            row("cvt.f64.f32 %dd, %fa;", |a: f32, _, _| f64::from(a)),
            row("cvt.f32.f32 %fd, %fa;", |a: f32, _, _| a),
        ],
    );
    check(
        &doubles(),
        &[
            row("cvt.rzi.s64.f64 %d, %da;", |a: f64, _, _| match a.is_nan() {
                true => i64::MIN,
                false => a as i64,
            }),
            row("cvt.rni.u32.f64 %rd, %da;", |a: f64, _, _| match a.is_nan() {
                true => 1 << 31,
                false => a.round_ties_even() as u32,
            }),
            row("cvt.rn.f32.f64 %fd, %da;", |a: f64, _, _| a as f32),
            row("cvt.rpi.f64.f64 %dd, %da;", |a: f64, _, _| a.ceil()),
        ],
    );
}

#[test]
fn integers_convert_with_every_width_and_rounding() {
    let mut random = Random(12);
    let mut inputs: Vec<[u64; 3]> = (0..300).map(|_| [random.next(), 0, 0]).collect();
    let edges = [0, 1, 0x7F, 0x80, 0xFF, 0x8000, 0xFFFF, 0xFFFF_FFFF, 1 << 63, u64::MAX];
    inputs.extend(edges.map(|a| [a, 0, 0]));
    // Halfway cases of a 24-bit mantissa.
    inputs.extend((0..64).map(|i| [0x100_0001 + 2 * i, 0, 0]));
    check(
        &inputs,
        &[
            row("cvt.s32.s16 %rd, %ha;", |a: i16, _, _| i32::from(a)),
            row("cvt.u32.u16 %rd, %ha;", |a: u16, _, _| u32::from(a)),
            row("cvt.s32.s8 %rd, %ra;", |a: i32, _, _| i32::from(a as i8)),
            row("cvt.u16.u32 %hd, %ra;", |a: u32, _, _| a as u16),
            row("cvt.u32.u8 %rd, %ra;", |a: u32, _, _| a & 0xFF),
            row("cvt.s64.s32 %d, %ra;", |a: i32, _, _| i64::from(a)),
            row("cvt.s64.s16 %d, %ha;", |a: i16, _, _| i64::from(a)),
            row("cvt.u64.u32 %d, %ra;", |a: u32, _, _| u64::from(a)),
            row("cvt.u32.u64 %rd, %a;", |a: u64, _, _| a as u32),
            row("cvt.sat.s8.s32 %rd, %ra;", |a: i32, _, _| a.clamp(-128, 127)),
            row("cvt.sat.u16.s32 %hd, %ra;", |a: i32, _, _| a.clamp(0, 65535) as u16),
            row("cvt.sat.u32.s64 %rd, %a;", |a: i64, _, _| a.clamp(0, u32::MAX.into()) as u32),
            row("cvt.rn.f32.s32 %fd, %ra;", |a: i32, _, _| a as f32),
            row("cvt.rn.f32.u64 %fd, %a;", |a: u64, _, _| a as f32),
            row("cvt.rn.f64.s64 %dd, %a;", |a: i64, _, _| a as f64),
            row("cvt.rn.f32.s16 %fd, %ha;", |a: i16, _, _| f32::from(a)),
            row("cvt.rz.f32.u32 %fd, %ra;", |a: u32, _, _| {
                // Clearing the bits beyond the mantissa truncates.
                let excess = 8u32.saturating_sub(a.leading_zeros());
                (a >> excess << excess) as f32
            }),
            row("cvt.rp.f32.u32 %fd, %ra;", |a: u32, _, _| {
                let near = a as f32;
                if (near as u64) < u64::from(a) { near.next_up() } else { near }
            }),
            row("cvt.rm.f32.f64 %fd, %dc; cvt.rm.f64.u64 %dd, %a;", |a: u64, _, _| {
                let near = a as f64;
                if near as u128 > u128::from(a) { near.next_down() } else { near }
            }),
        ],
    );
}

/// The value of a half, by its parts (IEEE 754 binary16).
fn half(bits: u16) -> f64 {
    let (exponent, part) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3FF));
    let size = match exponent {
        0 => part * 2f64.powi(-24),
        31 if part > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        _ => (1024.0 + part) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The nearest half, found among all of them; of two the even one.
fn nearest(value: f64) -> u16 {
    if value.is_nan() {
        return 0x7FFF;
    }
    let sign = u16::from(value.is_sign_negative()) << 15;
    let size = value.abs();
    let (mut low, mut high) = (0_u16, 0x7C00);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if half(middle) <= size { low = middle } else { high = middle }
    }
    // What would be the next number above the largest counts as infinity.
    let above = if high == 0x7C00 { 65_536.0 } else { half(high) };
    let (down, up) = (size - half(low), above - size);
    let odd = low & 1 == 1;
    sign | if up < down || up == down && odd || size >= above { high } else { low }
}

#[test]
fn halves_are_widened_exactly_and_rounded_to_the_nearest() {
    let all: Vec<[u64; 3]> = (0..=u16::MAX).map(|bits| [bits.into(), 0, 0]).collect();
    check(&all, &[row("cvt.f32.f16 %fd, %ha;", |a: u16, _, _| half(a) as f32)]);
    check(&singles(), &[row("cvt.rn.f16.f32 %hd, %fa;", |a: f32, _, _| nearest(a.into()))]);
    check(
        &singles(),
        &[row("cvt.rn.bf16.f32 %hd, %fa;", |a: f32, _, _| match a.is_nan() {
            true => 0x7FFF,
            false => ((a.to_bits() + 0x7FFF + (a.to_bits() >> 16 & 1)) >> 16) as u16,
        })],
    );
    let mut random = Random(5);
    let edges = [0, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0x7E00, 0x8000, 0xBC01, 0xFBFF];
    let mut pairs: Vec<[u64; 3]> = (0..600)
        .map(|_| [random.next() & 0xFFFF, random.next() & 0xFFFF, random.next() & 0xFFFF])
        .collect();
    pairs.extend(edges.iter().flat_map(|a| edges.map(|b| [*a, b, *a])));
    check(
        &pairs,
        &[
            row("add.f16 %hd, %ha, %hb;", |a: u16, b, _| nearest(half(a) + half(b))),
            row("mul.rn.f16 %hd, %ha, %hb;", |a: u16, b, _| nearest(half(a) * half(b))),
            row("fma.rn.f16 %hd, %ha, %hb, %hc;", |a: u16, b, c| {
                nearest(half(a) * half(b) + half(c))
            }),
            row("cvt.rzi.s32.f16 %rd, %ha;", |a: u16, _, _| half(a) as i32),
        ],
    );
}
