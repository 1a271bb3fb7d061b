//! Integer, logic and comparison forms against plain Rust, over edge values and random ones.

mod ptx_support;

use ptx_support::{Random, run_snippet};

/// Values at which integer arithmetic goes wrong.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    31,
    32,
    63,
    64,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0xFFFF_FFFF_FFFF_FFFF,
    0x0123_4567_89AB_CDEF,
];

fn inputs() -> Vec<[u64; 3]> {
    let mut all = Vec::new();
    let mut random = Random(11);
    for a in EDGES {
        for b in EDGES {
            all.push([a, b, random.next()]);
            all.push([a, b, b]);
        }
    }
    all.extend((0..200).map(|_| [random.next(), random.next(), random.next()]));
    // Small third operands: shift amounts, positions, lengths.
    all.extend((0..200).map(|_| [random.next(), random.next() % 80, random.next() % 80]));
    all
}

/// Runs every row of a table: the snippet, the register with its result, the same in Rust.
fn check(table: &[(&str, &str, fn(u64, u64, u64) -> u64)]) {
    let inputs = inputs();
    for (snippet, result, reference) in table {
        let got = run_snippet(snippet, result, &inputs);
        for ([a, b, c], got) in inputs.iter().zip(got) {
            let want = reference(*a, *b, *c);
            assert_eq!(
                got, want,
                "{snippet} of {a:#x}, {b:#x}, {c:#x}: {got:#x}, not {want:#x}"
            );
        }
    }
}

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
    check(&[
        ("add.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(l(a).wrapping_add(l(b)))
        }),
        ("sub.u32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(l(a).wrapping_sub(l(b)))
        }),
        ("add.s32 %rd, %ra, -7;", "%rd", |a, _, _| {
            w(l(a).wrapping_sub(7))
        }),
        ("mul.lo.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(l(a).wrapping_mul(l(b)))
        }),
        ("mul.hi.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(((i64::from(s(a)) * i64::from(s(b))) >> 32) as u32)
        }),
        ("mul.hi.u32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(((w(l(a)) * w(l(b))) >> 32) as u32)
        }),
        ("mul.wide.s32 %d, %ra, %rb;", "%d", |a, b, _| {
            (i64::from(s(a)) * i64::from(s(b))) as u64
        }),
        ("mul.wide.u32 %d, %ra, %rb;", "%d", |a, b, _| {
            w(l(a)) * w(l(b))
        }),
        ("mad.lo.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            w(l(a).wrapping_mul(l(b)).wrapping_add(l(c)))
        }),
        ("mad.hi.u32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            w((((w(l(a)) * w(l(b))) >> 32) as u32).wrapping_add(l(c)))
        }),
        ("mad.wide.s32 %d, %ra, %rb, %c;", "%d", |a, b, c| {
            ((i64::from(s(a)) * i64::from(s(b))) as u64).wrapping_add(c)
        }),
        ("mad.wide.u32 %d, %ra, 12, %c;", "%d", |a, _, c| {
            (w(l(a)) * 12).wrapping_add(c)
        }),
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
        ("min.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(s(a).min(s(b)) as u32)
        }),
        ("max.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(s(a).max(s(b)) as u32)
        }),
        ("min.u32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).min(l(b)))),
        ("max.u32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).max(l(b)))),
        ("neg.s32 %rd, %ra;", "%rd", |a, _, _| w(l(a).wrapping_neg())),
        ("abs.s32 %rd, %ra;", "%rd", |a, _, _| {
            w(s(a).wrapping_abs() as u32)
        }),
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
            let products =
                (0..4).map(|i| i32::from((a >> (8 * i)) as u8) * i32::from((b >> (8 * i)) as i8));
            w(l(c).wrapping_add(products.sum::<i32>() as u32))
        }),
    ]);
}

#[test]
fn arithmetic_of_64_bits() {
    check(&[
        ("add.s64 %d, %a, %b;", "%d", |a, b, _| a.wrapping_add(b)),
        ("sub.s64 %d, %a, %b;", "%d", |a, b, _| a.wrapping_sub(b)),
        ("mul.lo.s64 %d, %a, %b;", "%d", |a, b, _| a.wrapping_mul(b)),
        ("mul.hi.u64 %d, %a, %b;", "%d", |a, b, _| {
            ((u128::from(a) * u128::from(b)) >> 64) as u64
        }),
        ("mul.hi.s64 %d, %a, %b;", "%d", |a, b, _| {
            ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
        }),
        ("mad.lo.s64 %d, %a, %b, %c;", "%d", |a, b, c| {
            a.wrapping_mul(b).wrapping_add(c)
        }),
        ("mad.hi.u64 %d, %a, %b, %c;", "%d", |a, b, c| {
            (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c)
        }),
        ("div.u64 %d, %a, %b;", "%d", |a, b, _| {
            a.checked_div(b).unwrap_or(u64::MAX)
        }),
        ("div.s64 %d, %a, %b;", "%d", |a, b, _| match b as i64 {
            0 => u64::MAX,
            b => (a as i64).wrapping_div(b) as u64,
        }),
        ("rem.u64 %d, %a, %b;", "%d", |a, b, _| {
            a.checked_rem(b).unwrap_or(a)
        }),
        ("rem.s64 %d, %a, %b;", "%d", |a, b, _| match b as i64 {
            0 => a,
            b => (a as i64).wrapping_rem(b) as u64,
        }),
        ("min.s64 %d, %a, %b;", "%d", |a, b, _| {
            (a as i64).min(b as i64) as u64
        }),
        ("max.u64 %d, %a, %b;", "%d", |a, b, _| a.max(b)),
        ("neg.s64 %d, %a;", "%d", |a, _, _| a.wrapping_neg()),
        ("abs.s64 %d, %a;", "%d", |a, _, _| {
            (a as i64).wrapping_abs() as u64
        }),
        (
            "add.cc.u32 %x0, %ra, %rb; addc.u32 %rd, %rc, 0;",
            "%rd",
            |a, b, c| w(l(c).wrapping_add(u32::from(l(a).checked_add(l(b)).is_none()))),
        ),
        (
            "add.cc.u64 %y0, %a, %b; addc.cc.u64 %y1, %b, %c; addc.u64 %d, %a, 0;",
            "%d",
            |a, b, c| {
                let first = u128::from(a) + u128::from(b);
                let second = u128::from(b) + u128::from(c) + (first >> 64);
                a.wrapping_add((second >> 64) as u64)
            },
        ),
        (
            "sub.cc.u32 %x0, %ra, %rb; subc.u32 %rd, %rc, 1;",
            "%rd",
            |a, b, c| w(l(c).wrapping_sub(1).wrapping_sub(u32::from(l(a) < l(b)))),
        ),
    ]);
}

#[test]
fn arithmetic_of_16_bits() {
    check(&[
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
        ("max.s16 %hd, %ha, %hb;", "%hd", |a, b, _| {
            u64::from(h(a).max(h(b)) as u16)
        }),
        ("shl.b16 %hd, %ha, %rb;", "%hd", |a, b, _| match l(b) {
            b if b < 16 => u64::from((a as u16) << b),
            _ => 0,
        }),
        ("shr.s16 %hd, %ha, %rb;", "%hd", |a, b, _| {
            u64::from((h(a) >> l(b).min(15)) as u16)
        }),
        ("shr.u16 %hd, %ha, %rb;", "%hd", |a, b, _| match l(b) {
            b if b < 16 => u64::from(a as u16 >> b),
            _ => 0,
        }),
        ("not.b16 %hd, %ha;", "%hd", |a, _, _| u64::from(!(a as u16))),
        ("setp.lt.s16 %pd, %ha, %hb;", "%pd", |a, b, _| {
            u64::from(h(a) < h(b))
        }),
        ("setp.lt.u16 %pd, %ha, %hb;", "%pd", |a, b, _| {
            u64::from((a as u16) < b as u16)
        }),
    ]);
}

#[test]
fn bits_and_shifts() {
    check(&[
        ("and.b32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a) & l(b))),
        ("or.b64 %d, %a, %b;", "%d", |a, b, _| a | b),
        ("xor.b64 %d, %a, %b;", "%d", |a, b, _| a ^ b),
        ("not.b32 %rd, %ra;", "%rd", |a, _, _| w(!l(a))),
        ("cnot.b64 %d, %a;", "%d", |a, _, _| u64::from(a == 0)),
        ("shl.b32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(l(a).checked_shl(l(b)).unwrap_or(0))
        }),
        ("shr.u32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w(l(a).checked_shr(l(b)).unwrap_or(0))
        }),
        ("shr.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            w((s(a) >> l(b).min(31)) as u32)
        }),
        ("shl.b64 %d, %a, %rb;", "%d", |a, b, _| {
            a.checked_shl(l(b)).unwrap_or(0)
        }),
        ("shr.u64 %d, %a, %rb;", "%d", |a, b, _| {
            a.checked_shr(l(b)).unwrap_or(0)
        }),
        ("shr.s64 %d, %a, %rb;", "%d", |a, b, _| {
            ((a as i64) >> l(b).min(63)) as u64
        }),
        ("shl.b64 %d, %a, 5;", "%d", |a, _, _| a << 5),
        ("shf.l.wrap.b32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            w((((b << 32 | w(l(a))) << (c & 31)) >> 32) as u32)
        }),
        ("shf.l.clamp.b32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            w((((b << 32 | w(l(a))) << l(c).min(32)) >> 32) as u32)
        }),
        ("shf.r.wrap.b32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            w(((b << 32 | w(l(a))) >> (c & 31)) as u32)
        }),
        ("shf.r.clamp.b32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            w(((b << 32 | w(l(a))) >> l(c).min(32)) as u32)
        }),
        ("popc.b32 %rd, %ra;", "%rd", |a, _, _| w(l(a).count_ones())),
        ("popc.b64 %rd, %a;", "%rd", |a, _, _| w(a.count_ones())),
        (
            "clz.b32 %rd, %ra;",
            "%rd",
            |a, _, _| w(l(a).leading_zeros()),
        ),
        ("clz.b64 %rd, %a;", "%rd", |a, _, _| w(a.leading_zeros())),
        (
            "brev.b32 %rd, %ra;",
            "%rd",
            |a, _, _| w(l(a).reverse_bits()),
        ),
        ("brev.b64 %d, %a;", "%d", |a, _, _| a.reverse_bits()),
        ("bfind.u32 %rd, %ra;", "%rd", |a, _, _| {
            w(31u32.wrapping_sub(l(a).leading_zeros()))
        }),
        ("bfind.s32 %rd, %ra;", "%rd", |a, _, _| {
            let a = if s(a) < 0 { !l(a) } else { l(a) };
            w(31u32.wrapping_sub(a.leading_zeros()))
        }),
        ("bfind.shiftamt.u64 %rd, %a;", "%rd", |a, _, _| match a {
            0 => w(u32::MAX),
            a => w(a.leading_zeros()),
        }),
        ("lop3.b32 %rd, %ra, %rb, %rc, 0xE2;", "%rd", |a, b, c| {
            // 0xF0, 0xCC and 0xAA stand for the operands (PTX ISA, "lop3").
            let bit = |at: u32| {
                let index = (a >> at & 1) << 2 | (b >> at & 1) << 1 | (c >> at & 1);
                (0xE2u64 >> index & 1) << at
            };
            (0..32).map(bit).sum()
        }),
        ("lop3.b32 %rd, %ra, %rb, %rc, 0x96;", "%rd", |a, b, c| {
            w(l(a) ^ l(b) ^ l(c))
        }),
        ("prmt.b32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            let both = b << 32 | w(l(a));
            let byte = |at: u64| {
                let selector = c >> (4 * at) & 15;
                let value = (both >> (8 * (selector & 7))) as u8;
                let value = if selector < 8 {
                    value
                } else {
                    ((value as i8) >> 7) as u8
                };
                u64::from(value) << (8 * at)
            };
            (0..4).map(byte).sum()
        }),
        ("prmt.b32.f4e %rd, %ra, %rb, 1;", "%rd", |a, b, _| {
            w(((b << 32 | w(l(a))) >> 8) as u32)
        }),
        ("prmt.b32.rc16 %rd, %ra, %rb, 1;", "%rd", |a, _, _| {
            (a >> 16 & 0xFFFF) * 0x1_0001
        }),
    ]);
}

#[test]
fn bit_fields() {
    fn bfe(a: i128, start: u64, len: u64, width: u32, signed: bool) -> u64 {
        // With the sign spread to the left, a field that leaves the value reads its sign.
        let (start, len) = ((start & 255) as u32, (len & 255) as u32);
        let a = if signed { a } else { a & ((1 << width) - 1) };
        let field = a >> start.min(120);
        let mask = if len >= 120 { -1 } else { (1i128 << len) - 1 };
        let value = field & mask;
        let negative = signed && len > 0 && {
            let top = (start + len - 1).min(width - 1);
            a >> top & 1 == 1
        };
        let value = if negative && len < 120 {
            value | !mask
        } else {
            value
        };
        (value & ((1 << width) - 1)) as u64
    }
    fn bfi(a: u64, b: u64, start: u64, len: u64, width: u64) -> u64 {
        let (start, len) = (start & 255, len & 255);
        let inside = |at: u64| at >= start && at < start + len;
        let bit = |at: u64| {
            if inside(at) {
                (a >> (at - start) & 1) << at
            } else {
                b & 1 << at
            }
        };
        (0..width).map(bit).sum()
    }
    check(&[
        ("bfe.u32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            bfe(i128::from(l(a)), b, c, 32, false)
        }),
        ("bfe.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            bfe(i128::from(s(a)), b, c, 32, true)
        }),
        ("bfe.u64 %d, %a, %rb, %rc;", "%d", |a, b, c| {
            bfe(i128::from(a), b, c, 64, false)
        }),
        ("bfe.s64 %d, %a, %rb, %rc;", "%d", |a, b, c| {
            bfe(i128::from(a as i64), b, c, 64, true)
        }),
        ("bfi.b32 %rd, %ra, %rb, %rc, 7;", "%rd", |a, b, c| {
            bfi(w(l(a)), w(l(b)), c, 7, 32)
        }),
        ("bfi.b64 %d, %a, %b, 32, %rc;", "%d", |a, b, c| {
            bfi(a, b, 32, c, 64)
        }),
    ]);
}

#[test]
fn comparisons_and_selections() {
    check(&[
        ("setp.eq.s32 %pd, %ra, %rb;", "%pd", |a, b, _| {
            u64::from(l(a) == l(b))
        }),
        ("setp.ne.b64 %pd, %a, %b;", "%pd", |a, b, _| {
            u64::from(a != b)
        }),
        ("setp.lt.s32 %pd, %ra, %rb;", "%pd", |a, b, _| {
            u64::from(s(a) < s(b))
        }),
        ("setp.le.u32 %pd, %ra, %rb;", "%pd", |a, b, _| {
            u64::from(l(a) <= l(b))
        }),
        ("setp.hi.u32 %pd, %ra, %rb;", "%pd", |a, b, _| {
            u64::from(l(a) > l(b))
        }),
        ("setp.lo.u64 %pd, %a, %b;", "%pd", |a, b, _| {
            u64::from(a < b)
        }),
        ("setp.gt.s64 %pd, %a, %b;", "%pd", |a, b, _| {
            u64::from(a as i64 > b as i64)
        }),
        ("setp.ge.u64 %pd, %a, %b;", "%pd", |a, b, _| {
            u64::from(a >= b)
        }),
        ("setp.lt.and.s32 %pd, %ra, %rb, !%pc;", "%pd", |a, b, c| {
            u64::from(s(a) < s(b) && c & 1 == 0)
        }),
        (
            "setp.lt.xor.u32 %pd|%pe, %ra, %rb, %pc;",
            "%pd",
            |a, b, c| u64::from((l(a) < l(b)) != (c & 1 == 1)),
        ),
        (
            "setp.lt.or.u32 %pe|%pd, %ra, %rb, %pc;",
            "%pd",
            |a, b, c| u64::from(l(a) >= l(b) || c & 1 == 1),
        ),
        ("selp.b32 %rd, %ra, %rb, %pc;", "%rd", |a, b, c| {
            w(if c & 1 == 1 { l(a) } else { l(b) })
        }),
        ("selp.b64 %d, %a, -3, %pc;", "%d", |a, _, c| {
            if c & 1 == 1 { a } else { -3i64 as u64 }
        }),
        ("slct.b32.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
            w(if s(c) >= 0 { l(a) } else { l(b) })
        }),
        ("set.lt.u32.s32 %rd, %ra, %rb;", "%rd", |a, b, _| {
            if s(a) < s(b) { w(u32::MAX) } else { 0 }
        }),
        ("and.pred %pd, %pa, %pb;", "%pd", |a, b, _| a & b & 1),
        ("or.pred %pd, !%pa, %pb;", "%pd", |a, b, _| (!a | b) & 1),
        ("xor.pred %pd, %pa, %pb;", "%pd", |a, b, _| (a ^ b) & 1),
        ("not.pred %pd, %pa;", "%pd", |a, _, _| !a & 1),
        (
            "mov.u32 %rd, 5; @%pa mov.u32 %rd, %rb;",
            "%rd",
            |a, b, _| {
                if a & 1 == 1 { w(l(b)) } else { 5 }
            },
        ),
        (
            "mov.u32 %rd, 5; @!%pa mov.u32 %rd, %rb;",
            "%rd",
            |a, b, _| {
                if a & 1 == 0 { w(l(b)) } else { 5 }
            },
        ),
    ]);
}

#[test]
fn moves_pack_and_unpack() {
    check(&[
        ("mov.b64 %d, {%ra, %rb};", "%d", |a, b, _| b << 32 | w(l(a))),
        ("mov.b64 {%rd, %x1}, %a;", "%rd", |a, _, _| w(l(a))),
        ("mov.b64 {_, %rd}, %a;", "%rd", |a, _, _| a >> 32),
        ("mov.b32 %rd, {%ha, %hb};", "%rd", |a, b, _| {
            (b & 0xFFFF) << 16 | a & 0xFFFF
        }),
        ("mov.b32 {%hc, %hd}, %ra;", "%hd", |a, _, _| {
            a >> 16 & 0xFFFF
        }),
        ("mov.b64 %d, {%ha, %hb, %hc, %ha};", "%d", |a, b, c| {
            let h = |v: u64| v & 0xFFFF;
            h(a) << 48 | h(c) << 32 | h(b) << 16 | h(a)
        }),
        (
            "mov.u32 %rd, %ra; { .reg .b32 %rd; mov.u32 %rd, 1; }",
            "%rd",
            |a, _, _| w(l(a)),
        ),
    ]);
}
