//! Shifts, bit fields, comparisons, selections and moves against plain Rust.

mod support;

use support::{check, integer_inputs, mixed, row};

/// Two words in one value.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[test]
fn bits_and_shifts() {
    check(
        &integer_inputs(),
        &[
            row("and.b32 %rd, %ra, %rb;", |a: u32, b, _| a & b),
            row("or.b64 %d, %a, %b;", |a: u64, b, _| a | b),
            row("xor.b64 %d, %a, %b;", |a: u64, b, _| a ^ b),
            row("not.b32 %rd, %ra;", |a: u32, _, _| !a),
            row("cnot.b64 %d, %a;", |a: u64, _, _| u64::from(a == 0)),
            row("shl.b32 %rd, %ra, %rb;", |a: u32, b, _| a.checked_shl(b).unwrap_or(0)),
            row("shr.u32 %rd, %ra, %rb;", |a: u32, b, _| a.checked_shr(b).unwrap_or(0)),
            mixed("shr.s32 %rd, %ra, %rb;", |a: i32, b: u32, _: u32| a >> b.min(31)),
            mixed("shl.b64 %d, %a, %rb;", |a: u64, b, _: u32| a.checked_shl(b).unwrap_or(0)),
            mixed("shr.u64 %d, %a, %rb;", |a: u64, b, _: u32| a.checked_shr(b).unwrap_or(0)),
            mixed("shr.s64 %d, %a, %rb;", |a: i64, b: u32, _: u32| a >> b.min(63)),
            row("shl.b64 %d, %a, 5;", |a: u64, _, _| a << 5),
            row("shf.l.wrap.b32 %rd, %ra, %rb, %rc;", |a, b, c: u32| {
                ((pair(a, b) << (c & 31)) >> 32) as u32
            }),
            row("shf.l.clamp.b32 %rd, %ra, %rb, %rc;", |a, b, c: u32| {
                ((pair(a, b) << c.min(32)) >> 32) as u32
            }),
            row("shf.r.wrap.b32 %rd, %ra, %rb, %rc;", |a, b, c: u32| {
                (pair(a, b) >> (c & 31)) as u32
            }),
            row("shf.r.clamp.b32 %rd, %ra, %rb, %rc;", |a, b, c: u32| {
                (pair(a, b) >> c.min(32)) as u32
            }),
            row("popc.b32 %rd, %ra;", |a: u32, _, _| a.count_ones()),
            row("popc.b64 %rd, %a;", |a: u64, _, _| a.count_ones()),
            row("clz.b32 %rd, %ra;", |a: u32, _, _| a.leading_zeros()),
            row("clz.b64 %rd, %a;", |a: u64, _, _| a.leading_zeros()),
            row("brev.b32 %rd, %ra;", |a: u32, _, _| a.reverse_bits()),
            row("brev.b64 %d, %a;", |a: u64, _, _| a.reverse_bits()),
            row("bfind.u32 %rd, %ra;", |a: u32, _, _| 31u32.wrapping_sub(a.leading_zeros())),
            row("bfind.s32 %rd, %ra;", |a: i32, _, _| {
                31u32.wrapping_sub((if a < 0 { !a } else { a }).leading_zeros())
            }),
            row("bfind.shiftamt.u64 %rd, %a;", |a: u64, _, _| match a {
                0 => u32::MAX,
                a => a.leading_zeros(),
            }),
            row("lop3.b32 %rd, %ra, %rb, %rc, 0xE2;", |a: u32, b, c| {
                // 0xF0, 0xCC and 0xAA are the truth tables of the operands (PTX ISA, "lop3").
                let bit = |at: u32| {
                    let index = (a >> at & 1) << 2 | (b >> at & 1) << 1 | (c >> at & 1);
                    (0xE2u32 >> index & 1) << at
                };
                (0..32).map(bit).sum::<u32>()
            }),
            row("lop3.b32 %rd, %ra, %rb, %rc, 0x96;", |a: u32, b, c| a ^ b ^ c),
            row("prmt.b32 %rd, %ra, %rb, %rc;", |a, b, c: u32| {
                let byte = |at: u32| {
                    let selector = c >> (4 * at) & 15;
                    let value = (pair(a, b) >> (8 * (selector & 7))) as u8;
                    let value = if selector < 8 { value } else { ((value as i8) >> 7) as u8 };
                    u32::from(value) << (8 * at)
                };
                (0..4).map(byte).sum::<u32>()
            }),
            row("prmt.b32.f4e %rd, %ra, %rb, 1;", |a, b, _| (pair(a, b) >> 8) as u32),
            row("prmt.b32.rc16 %rd, %ra, %rb, 1;", |a: u32, _, _| (a >> 16) * 0x1_0001),
        ],
    );
}

#[test]
fn bit_fields() {
    fn bfe(a: impl Into<i128>, start: u32, len: u32, width: u32, signed: bool) -> u64 {
        // Sign extension first: a field beyond the value then reads the sign.
        let (start, len, a) = (start & 255, len & 255, a.into());
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
    fn bfi(a: u64, b: u64, start: u32, len: u32, width: u32) -> u64 {
        let (start, len) = (start & 255, len & 255);
        let inside = |at: u32| at >= start && at < start + len;
        let bit = |at: u32| {
            if inside(at) { (a >> (at - start) & 1) << at } else { b & 1 << at }
        };
        (0..width).map(bit).sum()
    }
    check(
        &integer_inputs(),
        &[
            row("bfe.u32 %rd, %ra, %rb, %rc;", |a: u32, b, c| bfe(a, b, c, 32, false) as u32),
            mixed("bfe.s32 %rd, %ra, %rb, %rc;", |a: i32, b, c| bfe(a, b, c, 32, true) as u32),
            mixed("bfe.u64 %d, %a, %rb, %rc;", |a: u64, b, c| bfe(a, b, c, 64, false)),
            mixed("bfe.s64 %d, %a, %rb, %rc;", |a: i64, b, c| bfe(a, b, c, 64, true)),
            row("bfi.b32 %rd, %ra, %rb, %rc, 7;", |a: u32, b, c| {
                bfi(a.into(), b.into(), c, 7, 32) as u32
            }),
            mixed("bfi.b64 %d, %a, %b, 32, %rc;", |a, b, c| bfi(a, b, 32, c, 64)),
        ],
    );
}

#[test]
fn comparisons_and_selections() {
    check(
        &integer_inputs(),
        &[
            row("setp.eq.s32 %pd, %ra, %rb;", |a: i32, b, _| a == b),
            row("setp.ne.b64 %pd, %a, %b;", |a: u64, b, _| a != b),
            row("setp.lt.s32 %pd, %ra, %rb;", |a: i32, b, _| a < b),
            row("setp.le.u32 %pd, %ra, %rb;", |a: u32, b, _| a <= b),
            row("setp.hi.u32 %pd, %ra, %rb;", |a: u32, b, _| a > b),
            row("setp.lo.u64 %pd, %a, %b;", |a: u64, b, _| a < b),
            row("setp.gt.s64 %pd, %a, %b;", |a: i64, b, _| a > b),
            row("setp.ge.u64 %pd, %a, %b;", |a: u64, b, _| a >= b),
            mixed("setp.lt.and.s32 %pd, %ra, %rb, !%pc;", |a: i32, b: i32, c: bool| a < b && !c),
            mixed("setp.lt.xor.u32 %pd|%pe, %ra, %rb, %pc;", |a: u32, b: u32, c: bool| {
                (a < b) != c
            }),
            mixed("setp.lt.or.u32 %pe|%pd, %ra, %rb, %pc;", |a: u32, b: u32, c: bool| a >= b || c),
            mixed("selp.b32 %rd, %ra, %rb, %pc;", |a: u32, b, c| if c { a } else { b }),
            mixed("selp.b64 %d, %a, -3, %pc;", |a: i64, _: i64, c| if c { a } else { -3 }),
            mixed(
                "slct.b32.s32 %rd, %ra, %rb, %rc;",
                |a: u32, b, c: i32| if c >= 0 { a } else { b },
            ),
            row("set.lt.u32.s32 %rd, %ra, %rb;", |a: i32, b, _| if a < b { u32::MAX } else { 0 }),
            row("and.pred %pd, %pa, %pb;", |a: bool, b, _| a & b),
            row("or.pred %pd, !%pa, %pb;", |a: bool, b, _| !a | b),
            row("xor.pred %pd, %pa, %pb;", |a: bool, b, _| a ^ b),
            row("not.pred %pd, %pa;", |a: bool, _, _| !a),
            row("mov.u32 %rd, 5; @%pa mov.u32 %rd, %rb;", |a: u32, b, _| match a & 1 {
                1 => b,
                _ => 5,
            }),
            row("mov.u32 %rd, 5; @!%pa mov.u32 %rd, %rb;", |a: u32, b, _| match a & 1 {
                1 => 5,
                _ => b,
            }),
        ],
    );
}

#[test]
fn moves_pack_and_unpack() {
    check(
        &integer_inputs(),
        &[
            row("mov.b64 %d, {%ra, %rb};", |a, b, _| pair(a, b)),
            row("mov.b64 {%rd, %x1}, %a;", |a: u64, _, _| a as u32),
            row("mov.b64 {_, %rd}, %a;", |a: u64, _, _| (a >> 32) as u32),
            row("mov.b32 %rd, {%ha, %hb};", |a: u16, b, _| u32::from(b) << 16 | u32::from(a)),
            row("mov.b32 {%hc, %hd}, %ra;", |a: u32, _, _| (a >> 16) as u16),
            row("mov.b64 %d, {%ha, %hb, %hc, %ha};", |a: u16, b, c| {
                [a, c, b, a].into_iter().fold(0u64, |all, part| all << 16 | u64::from(part))
            }),
            row("mov.u32 %rd, %ra; { .reg .b32 %rd; mov.u32 %rd, 1; }", |a: u32, _, _| a),
        ],
    );
}
