//! Integer arithmetic against plain Rust, over edge values and random ones.

mod support;

use support::{check, integer_inputs, mixed, row};

/// The product of two words.
fn wide(a: i32, b: i32) -> i64 {
    i64::from(a) * i64::from(b)
}

/// The product of two unsigned words.
fn wide_u(a: u32, b: u32) -> u64 {
    u64::from(a) * u64::from(b)
}

/// The upper half of a product.
fn high(a: i64, b: i64) -> i64 {
    ((i128::from(a) * i128::from(b)) >> 64) as i64
}

/// The upper half of an unsigned product.
fn high_u(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// The lower 24 bits.
fn low(value: u64) -> i64 {
    ((value << 40) as i64) >> 40
}

#[test]
fn arithmetic_of_32_bits() {
    check(
        &integer_inputs(),
        &[
            row("add.s32 %rd, %ra, %rb;", |a: u32, b, _| a.wrapping_add(b)),
            row("sub.u32 %rd, %ra, %rb;", |a: u32, b, _| a.wrapping_sub(b)),
            row("add.s32 %rd, %ra, -7;", |a: u32, _, _| a.wrapping_sub(7)),
            row("mul.lo.s32 %rd, %ra, %rb;", |a: u32, b, _| a.wrapping_mul(b)),
            row("mul.hi.s32 %rd, %ra, %rb;", |a, b, _| (wide(a, b) >> 32) as u32),
            row("mul.hi.u32 %rd, %ra, %rb;", |a, b, _| (wide_u(a, b) >> 32) as u32),
            row("mul.wide.s32 %d, %ra, %rb;", |a, b, _| wide(a, b)),
            row("mul.wide.u32 %d, %ra, %rb;", |a, b, _| wide_u(a, b)),
            row("mad.lo.s32 %rd, %ra, %rb, %rc;", |a: u32, b, c| a.wrapping_mul(b).wrapping_add(c)),
            row("mad.hi.u32 %rd, %ra, %rb, %rc;", |a, b, c| {
                ((wide_u(a, b) >> 32) as u32).wrapping_add(c)
            }),
            row("mad.hi.s32 %rd, %ra, %rb, %rc;", |a, b, c| {
                ((wide(a, b) >> 32) as i32).wrapping_add(c)
            }),
            mixed("mad.wide.s32 %d, %ra, %rb, %c;", |a, b, c: i64| wide(a, b).wrapping_add(c)),
            mixed("mad.wide.u32 %d, %ra, 12, %c;", |a: u32, _: u32, c: u64| {
                (u64::from(a) * 12).wrapping_add(c)
            }),
            row("div.u32 %rd, %ra, %rb;", |a: u32, b, _| a.checked_div(b).unwrap_or(u32::MAX)),
            row("div.s32 %rd, %ra, %rb;", |a: i32, b, _| match b {
                0 => -1,
                b => a.wrapping_div(b),
            }),
            row("rem.u32 %rd, %ra, %rb;", |a: u32, b, _| a.checked_rem(b).unwrap_or(a)),
            row("rem.s32 %rd, %ra, %rb;", |a: i32, b, _| match b {
                0 => a,
                b => a.wrapping_rem(b),
            }),
            row("min.s32 %rd, %ra, %rb;", |a: i32, b, _| a.min(b)),
            row("max.s32 %rd, %ra, %rb;", |a: i32, b, _| a.max(b)),
            row("min.u32 %rd, %ra, %rb;", |a: u32, b, _| a.min(b)),
            row("max.u32 %rd, %ra, %rb;", |a: u32, b, _| a.max(b)),
            row("neg.s32 %rd, %ra;", |a: i32, _, _| a.wrapping_neg()),
            row("abs.s32 %rd, %ra;", |a: i32, _, _| a.wrapping_abs()),
            row("sad.s32 %rd, %ra, %rb, %rc;", |a: i32, b, c| a.abs_diff(b).wrapping_add(c as u32)),
            row("sad.u32 %rd, %ra, %rb, %rc;", |a: u32, b, c| a.abs_diff(b).wrapping_add(c)),
            row("mul24.lo.u32 %rd, %ra, %rb;", |a: u64, b, _| {
                ((a & 0xFF_FFFF) * (b & 0xFF_FFFF)) as u32
            }),
            row("mul24.hi.u32 %rd, %ra, %rb;", |a: u64, b, _| {
                (((a & 0xFF_FFFF) * (b & 0xFF_FFFF)) >> 16) as u32
            }),
            row("mul24.hi.s32 %rd, %ra, %rb;", |a, b, _| ((low(a) * low(b)) >> 16) as u32),
            row("mad24.lo.s32 %rd, %ra, %rb, %rc;", |a, b, c| {
                ((low(a) * low(b)) as u32).wrapping_add(c as u32)
            }),
        ],
    );
}

/// The sum of `c` and the products of four bytes, each read as these signs say.
fn dot(signs: [bool; 2], a: u32, b: u32, c: u32) -> u32 {
    let byte = |signed: bool, word: u32, at: u32| {
        let byte = (word >> (8 * at)) as u8;
        if signed { i64::from(byte as i8) } else { i64::from(byte) }
    };
    let products = (0..4).map(|at| byte(signs[0], a, at) * byte(signs[1], b, at));
    c.wrapping_add(products.sum::<i64>() as u32)
}

#[test]
fn signs_decide_dot_products() {
    check(
        &integer_inputs(),
        &[
            row("dp4a.s32.s32 %rd, %ra, %rb, %rc;", |a, b, c| dot([true, true], a, b, c)),
            row("dp4a.s32.u32 %rd, %ra, %rb, %rc;", |a, b, c| dot([true, false], a, b, c)),
            row("dp4a.u32.s32 %rd, %ra, %rb, %rc;", |a, b, c| dot([false, true], a, b, c)),
            row("dp4a.u32.u32 %rd, %ra, %rb, %rc;", |a, b, c| dot([false, false], a, b, c)),
        ],
    );
}

#[test]
fn arithmetic_of_64_bits() {
    check(
        &integer_inputs(),
        &[
            row("add.s64 %d, %a, %b;", |a: u64, b, _| a.wrapping_add(b)),
            row("sub.s64 %d, %a, %b;", |a: u64, b, _| a.wrapping_sub(b)),
            row("mul.lo.s64 %d, %a, %b;", |a: u64, b, _| a.wrapping_mul(b)),
            row("mul.hi.u64 %d, %a, %b;", |a, b, _| high_u(a, b)),
            row("mul.hi.s64 %d, %a, %b;", |a, b, _| high(a, b)),
            row("mad.lo.s64 %d, %a, %b, %c;", |a: u64, b, c| a.wrapping_mul(b).wrapping_add(c)),
            row("mad.hi.u64 %d, %a, %b, %c;", |a, b, c| high_u(a, b).wrapping_add(c)),
            row("mad.hi.s64 %d, %a, %b, %c;", |a, b, c| high(a, b).wrapping_add(c)),
            row("div.u64 %d, %a, %b;", |a: u64, b, _| a.checked_div(b).unwrap_or(u64::MAX)),
            row("div.s64 %d, %a, %b;", |a: i64, b, _| match b {
                0 => -1,
                b => a.wrapping_div(b),
            }),
            row("rem.u64 %d, %a, %b;", |a: u64, b, _| a.checked_rem(b).unwrap_or(a)),
            row("rem.s64 %d, %a, %b;", |a: i64, b, _| match b {
                0 => a,
                b => a.wrapping_rem(b),
            }),
            row("min.s64 %d, %a, %b;", |a: i64, b, _| a.min(b)),
            row("max.u64 %d, %a, %b;", |a: u64, b, _| a.max(b)),
            row("neg.s64 %d, %a;", |a: i64, _, _| a.wrapping_neg()),
            row("abs.s64 %d, %a;", |a: i64, _, _| a.wrapping_abs()),
            row("add.cc.u32 %x0, %ra, %rb; addc.u32 %rd, %rc, 0;", |a: u32, b, c| {
                c.wrapping_add(u32::from(a.checked_add(b).is_none()))
            }),
            row(
                "add.cc.u64 %y0, %a, %b; addc.cc.u64 %y1, %b, %c; addc.u64 %d, %a, 0;",
                |a: u64, b, c| {
                    let (sum, carry) = b.overflowing_add(c);
                    let first = u64::from(a.checked_add(b).is_none());
                    a.wrapping_add(u64::from(carry || sum.checked_add(first).is_none()))
                },
            ),
            row("sub.cc.u32 %x0, %ra, %rb; subc.u32 %rd, %rc, 1;", |a: u32, b, c| {
                c.wrapping_sub(1).wrapping_sub(u32::from(a < b))
            }),
        ],
    );
}

#[test]
fn arithmetic_of_16_bits() {
    check(
        &integer_inputs(),
        &[
            row("add.s16 %hd, %ha, %hb;", |a: u16, b, _| a.wrapping_add(b)),
            row("mul.lo.s16 %hd, %ha, %hb;", |a: u16, b, _| a.wrapping_mul(b)),
            row("mul.wide.s16 %rd, %ha, %hb;", |a: i16, b, _| i32::from(a) * i32::from(b)),
            mixed("mad.wide.u16 %rd, %ha, %hb, %rc;", |a: u16, b: u16, c: u32| {
                (u32::from(a) * u32::from(b)).wrapping_add(c)
            }),
            row("div.u16 %hd, %ha, %hb;", |a: u16, b, _| a.checked_div(b).unwrap_or(u16::MAX)),
            row("max.s16 %hd, %ha, %hb;", |a: i16, b, _| a.max(b)),
            mixed("shl.b16 %hd, %ha, %rb;", |a: u16, b, _: u64| a.checked_shl(b).unwrap_or(0)),
            mixed("shr.s16 %hd, %ha, %rb;", |a: i16, b: u32, _: u64| a >> b.min(15)),
            mixed("shr.u16 %hd, %ha, %rb;", |a: u16, b, _: u64| a.checked_shr(b).unwrap_or(0)),
            row("not.b16 %hd, %ha;", |a: u16, _, _| !a),
            row("setp.lt.s16 %pd, %ha, %hb;", |a: i16, b, _| a < b),
            row("setp.lt.u16 %pd, %ha, %hb;", |a: u16, b, _| a < b),
        ],
    );
}
