//! Integer arithmetic against plain Rust, over edge values and random ones.

mod support;

use support::{check, integer_inputs};

fn w(value: u32) -> u64 {
    u64::from(value)
}

fn l(value: u64) -> u32 {
    value as u32
}

fn s(value: u64) -> i32 {
    value as i32
}

fn h(value: u64) -> i16 {
    value as i16
}

#[test]
fn arithmetic_of_32_bits() {
    check(
        &integer_inputs(),
        &[
            ("add.s32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).wrapping_add(l(b)))),
            ("sub.u32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).wrapping_sub(l(b)))),
            ("add.s32 %rd, %ra, -7;", "%rd", |a, _, _| w(l(a).wrapping_sub(7))),
            ("mul.lo.s32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).wrapping_mul(l(b)))),
            ("mul.hi.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
                w(((i64::from(s(a)) * i64::from(s(b))) >> 32) as u32)
            }),
            ("mul.hi.u32 %rd, %ra, %rb;", "%rd", |a, b, _| w(((w(l(a)) * w(l(b))) >> 32) as u32)),
            ("mul.wide.s32 %d, %ra, %rb;", "%d", |a, b, _| {
                (i64::from(s(a)) * i64::from(s(b))) as u64
            }),
            ("mul.wide.u32 %d, %ra, %rb;", "%d", |a, b, _| w(l(a)) * w(l(b))),
            ("mad.lo.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                w(l(a).wrapping_mul(l(b)).wrapping_add(l(c)))
            }),
            ("mad.hi.u32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                w((((w(l(a)) * w(l(b))) >> 32) as u32).wrapping_add(l(c)))
            }),
            ("mad.wide.s32 %d, %ra, %rb, %c;", "%d", |a, b, c| {
                ((i64::from(s(a)) * i64::from(s(b))) as u64).wrapping_add(c)
            }),
            ("mad.wide.u32 %d, %ra, 12, %c;", "%d", |a, _, c| (w(l(a)) * 12).wrapping_add(c)),
            ("div.u32 %rd, %ra, %rb;", "%rd", |a, b, _| match l(b) {
                0 => w(u32::MAX),
                b => w(l(a) / b),
            }),
            ("div.s32 %rd, %ra, %rb;", "%rd", |a, b, _| match s(b) {
                0 => w(u32::MAX),
                b => w(s(a).wrapping_div(b) as u32),
            }),
            ("rem.u32 %rd, %ra, %rb;", "%rd", |a, b, _| match l(b) {
                0 => w(l(a)),
                b => w(l(a) % b),
            }),
            ("rem.s32 %rd, %ra, %rb;", "%rd", |a, b, _| match s(b) {
                0 => w(l(a)),
                b => w(s(a).wrapping_rem(b) as u32),
            }),
            ("min.s32 %rd, %ra, %rb;", "%rd", |a, b, _| w(s(a).min(s(b)) as u32)),
            ("max.s32 %rd, %ra, %rb;", "%rd", |a, b, _| w(s(a).max(s(b)) as u32)),
            ("min.u32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).min(l(b)))),
            ("max.u32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).max(l(b)))),
            ("neg.s32 %rd, %ra;", "%rd", |a, _, _| w(l(a).wrapping_neg())),
            ("abs.s32 %rd, %ra;", "%rd", |a, _, _| w(s(a).wrapping_abs() as u32)),
            ("sad.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                w(s(a).abs_diff(s(b)).wrapping_add(l(c)))
            }),
            ("sad.u32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                w(l(a).abs_diff(l(b)).wrapping_add(l(c)))
            }),
            ("mul24.lo.u32 %rd, %ra, %rb;", "%rd", |a, b, _| {
                w(((a & 0xFF_FFFF) * (b & 0xFF_FFFF)) as u32)
            }),
            ("mul24.hi.u32 %rd, %ra, %rb;", "%rd", |a, b, _| {
                w((((a & 0xFF_FFFF) * (b & 0xFF_FFFF)) >> 16) as u32)
            }),
            ("mul24.hi.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
                let low = |v: u64| ((v << 40) as i64) >> 40;
                w(((low(a) * low(b)) >> 16) as u32)
            }),
            ("mad24.lo.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                let low = |v: u64| ((v << 40) as i64) >> 40;
                w(((low(a) * low(b)) as u32).wrapping_add(l(c)))
            }),
            ("dp4a.u32.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                let products = (0..4)
                    .map(|i| i32::from((a >> (8 * i)) as u8) * i32::from((b >> (8 * i)) as i8));
                w(l(c).wrapping_add(products.sum::<i32>() as u32))
            }),
        ],
    );
}

/// The sum of `c` and the products of four bytes, each read as these signs say.
fn dot(signs: [bool; 2], a: u64, b: u64, c: u64) -> u64 {
    let byte = |signed: bool, word: u64, at: u32| {
        let byte = (word >> (8 * at)) as u8;
        if signed { i64::from(byte as i8) } else { i64::from(byte) }
    };
    let products = (0..4).map(|at| byte(signs[0], a, at) * byte(signs[1], b, at));
    w(l(c).wrapping_add(products.sum::<i64>() as u32))
}

#[test]
fn signs_decide_high_halves_and_dot_products() {
    check(
        &integer_inputs(),
        &[
            ("mad.hi.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                let high = (i64::from(s(a)) * i64::from(s(b))) >> 32;
                w((high as u32).wrapping_add(l(c)))
            }),
            ("mad.hi.s64 %d, %a, %b, %c;", "%d", |a, b, c| {
                let high = (i128::from(a as i64) * i128::from(b as i64)) >> 64;
                (high as u64).wrapping_add(c)
            }),
            ("dp4a.s32.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| dot([true, true], a, b, c)),
            ("dp4a.s32.u32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| dot([true, false], a, b, c)),
            ("dp4a.u32.u32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| dot([false, false], a, b, c)),
        ],
    );
}

#[test]
fn arithmetic_of_64_bits() {
    check(
        &integer_inputs(),
        &[
            ("add.s64 %d, %a, %b;", "%d", |a, b, _| a.wrapping_add(b)),
            ("sub.s64 %d, %a, %b;", "%d", |a, b, _| a.wrapping_sub(b)),
            ("mul.lo.s64 %d, %a, %b;", "%d", |a, b, _| a.wrapping_mul(b)),
            ("mul.hi.u64 %d, %a, %b;", "%d", |a, b, _| {
                ((u128::from(a) * u128::from(b)) >> 64) as u64
            }),
            ("mul.hi.s64 %d, %a, %b;", "%d", |a, b, _| {
                ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
            }),
            ("mad.lo.s64 %d, %a, %b, %c;", "%d", |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            ("mad.hi.u64 %d, %a, %b, %c;", "%d", |a, b, c| {
                (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c)
            }),
            ("div.u64 %d, %a, %b;", "%d", |a, b, _| a.checked_div(b).unwrap_or(u64::MAX)),
            ("div.s64 %d, %a, %b;", "%d", |a, b, _| match b as i64 {
                0 => u64::MAX,
                b => (a as i64).wrapping_div(b) as u64,
            }),
            ("rem.u64 %d, %a, %b;", "%d", |a, b, _| a.checked_rem(b).unwrap_or(a)),
            ("rem.s64 %d, %a, %b;", "%d", |a, b, _| match b as i64 {
                0 => a,
                b => (a as i64).wrapping_rem(b) as u64,
            }),
            ("min.s64 %d, %a, %b;", "%d", |a, b, _| (a as i64).min(b as i64) as u64),
            ("max.u64 %d, %a, %b;", "%d", |a, b, _| a.max(b)),
            ("neg.s64 %d, %a;", "%d", |a, _, _| a.wrapping_neg()),
            ("abs.s64 %d, %a;", "%d", |a, _, _| (a as i64).wrapping_abs() as u64),
            ("add.cc.u32 %x0, %ra, %rb; addc.u32 %rd, %rc, 0;", "%rd", |a, b, c| {
                w(l(c).wrapping_add(u32::from(l(a).checked_add(l(b)).is_none())))
            }),
            (
                "add.cc.u64 %y0, %a, %b; addc.cc.u64 %y1, %b, %c; addc.u64 %d, %a, 0;",
                "%d",
                |a, b, c| {
                    let first = u128::from(a) + u128::from(b);
                    let second = u128::from(b) + u128::from(c) + (first >> 64);
                    a.wrapping_add((second >> 64) as u64)
                },
            ),
            ("sub.cc.u32 %x0, %ra, %rb; subc.u32 %rd, %rc, 1;", "%rd", |a, b, c| {
                w(l(c).wrapping_sub(1).wrapping_sub(u32::from(l(a) < l(b))))
            }),
        ],
    );
}

#[test]
fn arithmetic_of_16_bits() {
    check(
        &integer_inputs(),
        &[
            ("add.s16 %hd, %ha, %hb;", "%hd", |a, b, _| {
                u64::from((a as u16).wrapping_add(b as u16))
            }),
            ("mul.lo.s16 %hd, %ha, %hb;", "%hd", |a, b, _| {
                u64::from((a as u16).wrapping_mul(b as u16))
            }),
            ("mul.wide.s16 %rd, %ha, %hb;", "%rd", |a, b, _| {
                w((i32::from(h(a)) * i32::from(h(b))) as u32)
            }),
            ("mad.wide.u16 %rd, %ha, %hb, %rc;", "%rd", |a, b, c| {
                w((u32::from(a as u16) * u32::from(b as u16)).wrapping_add(l(c)))
            }),
            ("div.u16 %hd, %ha, %hb;", "%hd", |a, b, _| {
                u64::from((a as u16).checked_div(b as u16).unwrap_or(u16::MAX))
            }),
            ("max.s16 %hd, %ha, %hb;", "%hd", |a, b, _| u64::from(h(a).max(h(b)) as u16)),
            ("shl.b16 %hd, %ha, %rb;", "%hd", |a, b, _| match l(b) {
                b if b < 16 => u64::from((a as u16) << b),
                _ => 0,
            }),
            ("shr.s16 %hd, %ha, %rb;", "%hd", |a, b, _| u64::from((h(a) >> l(b).min(15)) as u16)),
            ("shr.u16 %hd, %ha, %rb;", "%hd", |a, b, _| match l(b) {
                b if b < 16 => u64::from(a as u16 >> b),
                _ => 0,
            }),
            ("not.b16 %hd, %ha;", "%hd", |a, _, _| u64::from(!(a as u16))),
            ("setp.lt.s16 %pd, %ha, %hb;", "%pd", |a, b, _| u64::from(h(a) < h(b))),
            ("setp.lt.u16 %pd, %ha, %hb;", "%pd", |a, b, _| u64::from((a as u16) < b as u16)),
        ],
    );
}
