//! Shifts, bit fields, comparisons, selections and moves against plain Rust.

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

#[test]
fn bits_and_shifts() {
    check(
        &integer_inputs(),
        &[
            ("and.b32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a) & l(b))),
            ("or.b64 %d, %a, %b;", "%d", |a, b, _| a | b),
            ("xor.b64 %d, %a, %b;", "%d", |a, b, _| a ^ b),
            ("not.b32 %rd, %ra;", "%rd", |a, _, _| w(!l(a))),
            ("cnot.b64 %d, %a;", "%d", |a, _, _| u64::from(a == 0)),
            ("shl.b32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).checked_shl(l(b)).unwrap_or(0))),
            ("shr.u32 %rd, %ra, %rb;", "%rd", |a, b, _| w(l(a).checked_shr(l(b)).unwrap_or(0))),
            ("shr.s32 %rd, %ra, %rb;", "%rd", |a, b, _| w((s(a) >> l(b).min(31)) as u32)),
            ("shl.b64 %d, %a, %rb;", "%d", |a, b, _| a.checked_shl(l(b)).unwrap_or(0)),
            ("shr.u64 %d, %a, %rb;", "%d", |a, b, _| a.checked_shr(l(b)).unwrap_or(0)),
            ("shr.s64 %d, %a, %rb;", "%d", |a, b, _| ((a as i64) >> l(b).min(63)) as u64),
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
            ("clz.b32 %rd, %ra;", "%rd", |a, _, _| w(l(a).leading_zeros())),
            ("clz.b64 %rd, %a;", "%rd", |a, _, _| w(a.leading_zeros())),
            ("brev.b32 %rd, %ra;", "%rd", |a, _, _| w(l(a).reverse_bits())),
            ("brev.b64 %d, %a;", "%d", |a, _, _| a.reverse_bits()),
            ("bfind.u32 %rd, %ra;", "%rd", |a, _, _| w(31u32.wrapping_sub(l(a).leading_zeros()))),
            ("bfind.s32 %rd, %ra;", "%rd", |a, _, _| {
                let a = if s(a) < 0 { !l(a) } else { l(a) };
                w(31u32.wrapping_sub(a.leading_zeros()))
            }),
            ("bfind.shiftamt.u64 %rd, %a;", "%rd", |a, _, _| match a {
                0 => w(u32::MAX),
                a => w(a.leading_zeros()),
            }),
            ("lop3.b32 %rd, %ra, %rb, %rc, 0xE2;", "%rd", |a, b, c| {
                // 0xF0, 0xCC and 0xAA are the truth tables of the operands (PTX ISA, "lop3").
                let bit = |at: u32| {
                    let index = (a >> at & 1) << 2 | (b >> at & 1) << 1 | (c >> at & 1);
                    (0xE2u64 >> index & 1) << at
                };
                (0..32).map(bit).sum()
            }),
            ("lop3.b32 %rd, %ra, %rb, %rc, 0x96;", "%rd", |a, b, c| w(l(a) ^ l(b) ^ l(c))),
            ("prmt.b32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                let both = b << 32 | w(l(a));
                let byte = |at: u64| {
                    let selector = c >> (4 * at) & 15;
                    let value = (both >> (8 * (selector & 7))) as u8;
                    let value = if selector < 8 { value } else { ((value as i8) >> 7) as u8 };
                    u64::from(value) << (8 * at)
                };
                (0..4).map(byte).sum()
            }),
            ("prmt.b32.f4e %rd, %ra, %rb, 1;", "%rd", |a, b, _| {
                w(((b << 32 | w(l(a))) >> 8) as u32)
            }),
            ("prmt.b32.rc16 %rd, %ra, %rb, 1;", "%rd", |a, _, _| (a >> 16 & 0xFFFF) * 0x1_0001),
        ],
    );
}

#[test]
fn bit_fields() {
    fn bfe(a: i128, start: u64, len: u64, width: u32, signed: bool) -> u64 {
        // Sign extension first: a field beyond the value then reads the sign.
        let (start, len) = ((start & 255) as u32, (len & 255) as u32);
        let a = if signed { a } else { a & ((1 << width) - 1) };
        let field = a >> start.min(120);
        let mask = if len >= 120 { -1 } else { (1i128 << len) - 1 };
        let value = field & mask;
        let negative = signed && len > 0 && {
            let top = (start + len - 1).min(width - 1);
            a >> top & 1 == 1
        };
        let value = if negative && len < 120 { value | !mask } else { value };
        (value & ((1 << width) - 1)) as u64
    }
    fn bfi(a: u64, b: u64, start: u64, len: u64, width: u64) -> u64 {
        let (start, len) = (start & 255, len & 255);
        let inside = |at: u64| at >= start && at < start + len;
        let bit = |at: u64| {
            if inside(at) { (a >> (at - start) & 1) << at } else { b & 1 << at }
        };
        (0..width).map(bit).sum()
    }
    check(
        &integer_inputs(),
        &[
            ("bfe.u32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                bfe(i128::from(l(a)), b, c, 32, false)
            }),
            ("bfe.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| bfe(i128::from(s(a)), b, c, 32, true)),
            ("bfe.u64 %d, %a, %rb, %rc;", "%d", |a, b, c| bfe(i128::from(a), b, c, 64, false)),
            ("bfe.s64 %d, %a, %rb, %rc;", "%d", |a, b, c| {
                bfe(i128::from(a as i64), b, c, 64, true)
            }),
            ("bfi.b32 %rd, %ra, %rb, %rc, 7;", "%rd", |a, b, c| bfi(w(l(a)), w(l(b)), c, 7, 32)),
            ("bfi.b64 %d, %a, %b, 32, %rc;", "%d", |a, b, c| bfi(a, b, 32, c, 64)),
        ],
    );
}

#[test]
fn comparisons_and_selections() {
    check(
        &integer_inputs(),
        &[
            ("setp.eq.s32 %pd, %ra, %rb;", "%pd", |a, b, _| u64::from(l(a) == l(b))),
            ("setp.ne.b64 %pd, %a, %b;", "%pd", |a, b, _| u64::from(a != b)),
            ("setp.lt.s32 %pd, %ra, %rb;", "%pd", |a, b, _| u64::from(s(a) < s(b))),
            ("setp.le.u32 %pd, %ra, %rb;", "%pd", |a, b, _| u64::from(l(a) <= l(b))),
            ("setp.hi.u32 %pd, %ra, %rb;", "%pd", |a, b, _| u64::from(l(a) > l(b))),
            ("setp.lo.u64 %pd, %a, %b;", "%pd", |a, b, _| u64::from(a < b)),
            ("setp.gt.s64 %pd, %a, %b;", "%pd", |a, b, _| u64::from(a as i64 > b as i64)),
            ("setp.ge.u64 %pd, %a, %b;", "%pd", |a, b, _| u64::from(a >= b)),
            ("setp.lt.and.s32 %pd, %ra, %rb, !%pc;", "%pd", |a, b, c| {
                u64::from(s(a) < s(b) && c & 1 == 0)
            }),
            ("setp.lt.xor.u32 %pd|%pe, %ra, %rb, %pc;", "%pd", |a, b, c| {
                u64::from((l(a) < l(b)) != (c & 1 == 1))
            }),
            ("setp.lt.or.u32 %pe|%pd, %ra, %rb, %pc;", "%pd", |a, b, c| {
                u64::from(l(a) >= l(b) || c & 1 == 1)
            }),
            ("selp.b32 %rd, %ra, %rb, %pc;", "%rd", |a, b, c| {
                w(if c & 1 == 1 { l(a) } else { l(b) })
            }),
            (
                "selp.b64 %d, %a, -3, %pc;",
                "%d",
                |a, _, c| {
                    if c & 1 == 1 { a } else { -3i64 as u64 }
                },
            ),
            ("slct.b32.s32 %rd, %ra, %rb, %rc;", "%rd", |a, b, c| {
                w(if s(c) >= 0 { l(a) } else { l(b) })
            }),
            (
                "set.lt.u32.s32 %rd, %ra, %rb;",
                "%rd",
                |a, b, _| {
                    if s(a) < s(b) { w(u32::MAX) } else { 0 }
                },
            ),
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
            ("mov.u32 %rd, 5; @!%pa mov.u32 %rd, %rb;", "%rd", |a, b, _| {
                if a & 1 == 0 { w(l(b)) } else { 5 }
            }),
        ],
    );
}

#[test]
fn moves_pack_and_unpack() {
    check(
        &integer_inputs(),
        &[
            ("mov.b64 %d, {%ra, %rb};", "%d", |a, b, _| b << 32 | w(l(a))),
            ("mov.b64 {%rd, %x1}, %a;", "%rd", |a, _, _| w(l(a))),
            ("mov.b64 {_, %rd}, %a;", "%rd", |a, _, _| a >> 32),
            ("mov.b32 %rd, {%ha, %hb};", "%rd", |a, b, _| (b & 0xFFFF) << 16 | a & 0xFFFF),
            ("mov.b32 {%hc, %hd}, %ra;", "%hd", |a, _, _| a >> 16 & 0xFFFF),
            ("mov.b64 %d, {%ha, %hb, %hc, %ha};", "%d", |a, b, c| {
                let h = |v: u64| v & 0xFFFF;
                h(a) << 48 | h(c) << 32 | h(b) << 16 | h(a)
            }),
            ("mov.u32 %rd, %ra; { .reg .b32 %rd; mov.u32 %rd, 1; }", "%rd", |a, _, _| w(l(a))),
        ],
    );
}
