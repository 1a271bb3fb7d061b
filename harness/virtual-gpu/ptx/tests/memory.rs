//! Memory: every space and width, vectors, coalescing, symbols, atomics.

mod support;

use gpubench_virtual_gpu_ptx::{Class, Space, parse};
use support::{Case, HEAD, Random, address, as_longs, as_words, longs, run_snippet, words};

/// A kernel with one pointer parameter `[k_a]` in `%a` and the thread index in `%t`.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 k_a, .param .u32 k_n)\n{{
        .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b32 %t; .reg .b64 %d<20>;
        .reg .b64 %a; .reg .f32 %f<9>; .reg .f64 %g<9>;
        ld.param.u64 %a, [k_a];
        cvta.to.global.u64 %a, %a;
        mov.u32 %t, %tid.x;
        {body}
        ret;\n}}\n"
    )
}

fn run(body: &str, threads: u32, memory: Vec<u8>) -> Vec<u8> {
    let text = kernel(body);
    let mut buffers = [memory];
    let case = Case::new(&text, "k").block(threads).buffer(0).arg(7u32.to_le_bytes());
    case.run(&mut buffers).unwrap_or_else(|fault| panic!("{body}: {fault}"));
    let [memory] = buffers;
    memory
}

/// A round trip through memory, and the expected value after it.
type Narrowing<'n> = (&'n str, fn(u64) -> u64);

#[test]
fn loads_extend_and_stores_truncate() {
    let inputs: Vec<[u64; 3]> = (0..64).map(|i| [Random(i).next(), i, 0]).collect();
    // The value passes through a variable of each space and comes back narrower.
    let rows: [Narrowing<'_>; 9] = [
        ("st.T.u8 [buf+3], %ra; ld.T.s8 %rd, [buf+3]; cvt.s64.s32 %d, %rd;", |a| {
            i64::from(a as i8) as u64
        }),
        ("st.T.u16 [buf+6], %ha; ld.T.u16 %hd, [buf+6]; cvt.u64.u16 %d, %hd;", |a| a & 0xFFFF),
        ("st.T.u16 [buf+6], %ra; ld.T.s16 %rd, [buf+6]; cvt.s64.s32 %d, %rd;", |a| {
            i64::from(a as i16) as u64
        }),
        ("st.T.u32 [buf+4], %a; ld.T.s32 %d, [buf+4];", |a| i64::from(a as i32) as u64),
        ("st.T.u32 [buf+4], %a; ld.T.u32 %d, [buf+4];", |a| a & 0xFFFF_FFFF),
        ("st.T.u64 [buf+8], %a; ld.T.b64 %d, [buf+8];", |a| a),
        ("st.T.f32 [buf], %fa; ld.T.f32 %fd, [buf]; mov.b32 %rd, %fd; cvt.u64.u32 %d, %rd;", |a| {
            a & 0xFFFF_FFFF
        }),
        ("st.T.v2.u32 [buf+8], {%ra, %rb}; ld.T.u64 %d, [buf+8]; sub.s64 %d, %d, 0;", |a| {
            a & 0xFFFF_FFFF
        }),
        ("st.T.v4.u32 [buf], {%rb, %rb, %ra, %rb}; ld.T.v2.u64 {%y1, %d}, [buf];", |a| {
            a & 0xFFFF_FFFF
        }),
    ];
    for space in ["local", "shared"] {
        for (body, reference) in rows {
            // Shared memory is common to all threads, so each thread has a slot of its own.
            let (declare, base) = match space {
                "local" => (".local .align 16 .b8 buf[16];", "buf"),
                _ => (".shared .align 16 .b8 buf[16384];", "%y5"),
            };
            let setup = "mov.u64 %y5, buf; mov.u32 %x5, %tid.x; mul.wide.u32 %y6, %x5, 16; \
                         add.s64 %y5, %y5, %y6;";
            let body =
                body.replace(".T.", &format!(".{space}.")).replace("[buf", &format!("[{base}"));
            let got = run_snippet(&format!("{declare} {setup} {body}"), "%d", &inputs);
            for ([a, b, _], got) in inputs.iter().zip(got) {
                // In rows with two words the other half is b, a small number.
                let high = if body.contains(".v") { b << 32 } else { 0 };
                assert_eq!(got, reference(*a) | high, "{space}: {body}");
            }
        }
    }
}

#[test]
fn every_width_works_contiguous_and_scattered() {
    let memory: Vec<u8> = (0..4096u32).map(|i| (i * 37 + 11) as u8).collect();
    for (ty, bytes) in [("u8", 1u32), ("s8", 1), ("u16", 2), ("s16", 2), ("u32", 4), ("u64", 8)] {
        // Once lane after lane, once reversed: the same set in another order.
        for order in ["%t", "%r9"] {
            let wide = if bytes == 8 { "%d9" } else { "%r8" };
            let body = format!(
                "sub.u32 %r9, 31, %t;
                mul.wide.u32 %d1, {order}, {bytes};
                add.s64 %d2, %a, %d1;
                ld.global.{ty} {wide}, [%d2];
                st.global.{ty} [%d2+2048], {wide};"
            );
            let after = run(&body, 32, memory.clone());
            let n = (32 * bytes) as usize;
            assert_eq!(after[2048..2048 + n], memory[..n], "{ty} {order}");
            assert_eq!(after[2048 + n..], memory[2048 + n..], "{ty} {order}: wrote beyond");
        }
    }
}

#[test]
fn a_uniform_address_is_read_once_for_all_lanes() {
    let body = ".shared .align 8 .b8 sh[16]; .local .align 8 .b8 lo[8]; cvt.u64.u32 %d5, %t;
        st.shared.u64 [sh+8], 50; st.local.u64 [lo], %d5; bar.sync 0;
        ld.global.v2.u64 {%d6, %d7}, [%a]; ld.shared.u64 %d8, [sh+8]; ld.local.u64 %d9, [lo];
        ld.global.s8 %d10, [%a+7]; ld.param.u32 %r1, [k_n]; cvt.u64.u32 %d11, %r1;
        setp.lt.u32 %p1, %t, 3; @%p1 ld.global.u64 %d7, [%a];
        add.s64 %d6, %d6, %d7; add.s64 %d6, %d6, %d8; add.s64 %d6, %d6, %d9;
        add.s64 %d6, %d6, %d10; add.s64 %d6, %d6, %d11;
        mul.wide.u32 %d1, %t, 8; add.s64 %d2, %a, %d1; st.global.u64 [%d2+16], %d6;";
    let first = 0xFE00_0000_0000_0100u64;
    let mut memory = longs([first, 7]);
    memory.resize(16 + 256, 0);
    let after = as_longs(&run(body, 32, memory));
    for (lane, got) in after[2..].iter().enumerate() {
        let second = if lane < 3 { first } else { 7 };
        let rest = (50 + lane as u64 + 7).wrapping_sub(2);
        assert_eq!(*got, first.wrapping_add(second).wrapping_add(rest), "lane {lane}");
    }
}

#[test]
fn contiguous_loads_extend_signs() {
    let mut memory: Vec<u8> = (0..32u32).map(|i| (i * 8) as u8).collect();
    memory.resize(1024, 0);
    let body = "cvt.u64.u32 %d1, %t; add.s64 %d2, %a, %d1; ld.global.s8 %r1, [%d2];
                mul.wide.u32 %d3, %t, 4; add.s64 %d4, %a, %d3; st.global.u32 [%d4+512], %r1;";
    let after = run(body, 32, memory);
    for (lane, got) in as_words(&after[512..640]).into_iter().enumerate() {
        assert_eq!(got, i32::from((lane * 8) as u8 as i8) as u32);
    }
}

#[test]
fn generic_addresses_reach_shared_local_and_global_memory() {
    let body = "
        .shared .align 8 .b8 sh[256];
        .local .align 8 .b8 lo[16];
        mov.u64 %d1, sh; cvta.shared.u64 %d2, %d1;
        mul.wide.u32 %d3, %t, 8; add.s64 %d2, %d2, %d3;
        mov.u64 %d4, lo; cvta.local.u64 %d5, %d4;
        cvt.u64.u32 %d6, %t;
        st.u64 [%d2], %d6;
        st.u64 [%d5+8], %d6;
        ld.shared.u64 %d7, [%d1];
        bar.sync 0;
        ld.u64 %d8, [%d2]; ld.u64 %d9, [%d5+8];
        add.s64 %d8, %d8, %d9;
        isspacep.shared %p1, %d2; isspacep.local %p2, %d5; isspacep.global %p3, %a;
        and.pred %p1, %p1, %p2; and.pred %p1, %p1, %p3;
        isspacep.global %p4, %d2; not.pred %p4, %p4; and.pred %p1, %p1, %p4;
        selp.b64 %d10, 1000, 0, %p1;
        add.s64 %d8, %d8, %d10;
        add.s64 %d11, %a, %d3;
        st.u64 [%d11], %d8;";
    let after = as_longs(&run(body, 32, vec![0; 256]));
    assert_eq!(after, (0..32).map(|t| 1000 + 2 * t).collect::<Vec<u64>>());
}

#[test]
fn sectors_follow_the_stride() {
    for (stride, sectors) in [(4u32, 4u64), (8, 8), (32, 32), (128, 32), (0, 1)] {
        let body = format!(
            "mul.wide.u32 %d1, %t, {stride}; add.s64 %d2, %a, %d1; ld.global.u32 %r1, [%d2];"
        );
        let text = kernel(&body);
        let mut buffers = [vec![0; 8192]];
        let case = Case::new(&text, "k").buffer(0).arg(0u32.to_le_bytes());
        let counts = case.run(&mut buffers).expect("runs").counts;
        assert_eq!(counts.load_sector_bytes, 32 * sectors, "stride {stride}");
    }
}

const SYMBOLS: &str = "
.const .align 4 .b8 tab[16] = {0, 0, 128, 63, 0, 0, 0, 64};
.global .align 8 .u64 counter = 7;
.global .align 8 .u64 ptr = generic(counter);
.global .align 4 .u32 list[2][2] = {{1, 2}, {3, -4}};
.global .align 8 .f64 half[2] = {0d3FE0000000000000, 0.25};
.extern .shared .align 16 .b8 dyn[];
";

#[test]
fn symbols_are_listed_initialised_and_bound() {
    let body = "
        ld.const.f32 %f1, [tab+4];
        cvt.rzi.u64.f32 %d1, %f1;
        ld.global.u64 %d2, [ptr];
        ld.u64 %d3, [%d2];
        add.s64 %d3, %d3, %d1;
        mov.u64 %d4, list; ld.global.s32 %d5, [%d4+12]; add.s64 %d3, %d3, %d5;
        ld.global.f64 %g1, [half+8]; mul.f64 %g1, %g1, 0d4059000000000000;
        cvt.rzi.u64.f64 %d6, %g1; add.s64 %d3, %d3, %d6;
        st.global.u64 [counter], %d3;
        ld.global.u64 %d7, [counter];
        st.global.u64 [%a], %d7;";
    let text = kernel(body).replacen(HEAD, &format!("{HEAD}{SYMBOLS}"), 1);
    let module = parse(&text).expect("parses");
    let listed: Vec<_> =
        module.symbols.iter().map(|s| (s.name.as_str(), s.bytes, s.align)).collect();
    let want = [("tab", 16, 4), ("counter", 8, 8), ("ptr", 8, 8), ("list", 16, 4), ("half", 16, 8)];
    assert_eq!(listed, want);
    assert_eq!((module.symbols[0].space, module.symbols[1].space), (Space::Const, Space::Global));
    let mut buffers = [vec![0; 8]];
    Case::new(&text, "k").block(1).buffer(0).arg([0; 4]).run(&mut buffers).expect("runs");
    // 7 + 2 - 4 + 25.
    assert_eq!(as_longs(&buffers[0]), [30]);
}

#[test]
fn dynamic_shared_memory_follows_the_static_part() {
    let body = "
        .shared .align 4 .b8 st4[20];
        mov.u64 %d1, dyn; mov.u64 %d2, st4;
        st.shared.u32 [%d2+16], 5;
        mul.wide.u32 %d3, %t, 4; add.s64 %d4, %d1, %d3;
        st.shared.u32 [%d4], %t;
        bar.sync 0;
        ld.shared.u32 %r1, [%d2+16]; ld.shared.u32 %r2, [%d4]; add.s32 %r1, %r1, %r2;
        mov.u32 %r3, %dynamic_smem_size; add.s32 %r1, %r1, %r3;
        add.s64 %d5, %a, %d3; st.global.u32 [%d5], %r1;";
    let text = kernel(body).replacen(HEAD, &format!("{HEAD}{SYMBOLS}"), 1);
    assert_eq!(parse(&text).expect("parses").kernels[0].static_shared_bytes, 20);
    let mut buffers = [vec![0; 256]];
    let mut case = Case::new(&text, "k").block(64).buffer(0).arg([0; 4]);
    case.dynamic_shared_bytes = 256;
    case.run(&mut buffers).expect("runs");
    assert_eq!(as_words(&buffers[0]), (0..64).map(|t| t + 5 + 256).collect::<Vec<u32>>());
}

/// An atomic: form, operand, first value, and the next value for thread `t`.
type Fold<'f> = (&'f str, &'f str, u64, fn(u64, u64) -> u64);

#[test]
fn atomics_are_serialised_and_return_the_old_value() {
    // All lanes of two warps on one word: the results must form one serial order.
    let rows: [Fold<'_>; 13] = [
        ("add.u32", "%r5", 3, |old, t| (old + t) & 0xFFFF_FFFF),
        ("add.s32", "%r5", 0xFFFF_FFF0, |old, t| (old + t) & 0xFFFF_FFFF),
        ("min.s32", "%r6", 0, |old, t| (old as i32).min(-(t as i32)) as u32 as u64),
        ("max.u32", "%r5", 9, |old, t| old.max(t)),
        ("and.b32", "%r5", 0xFF, |old, t| old & t),
        ("or.b32", "%r5", 0, |old, t| old | t),
        ("xor.b32", "%r5", 0, |old, t| old ^ t),
        ("exch.b32", "%r5", 77, |_, t| t),
        ("inc.u32", "10", 8, |old, _| if old >= 10 { 0 } else { old + 1 }),
        ("dec.u32", "10", 3, |old, _| if old == 0 || old > 10 { 10 } else { old - 1 }),
        ("dec.u32", "10", 50, |old, _| if old == 0 || old > 10 { 10 } else { old - 1 }),
        ("add.u64", "%d5", u64::MAX, |old, t| old.wrapping_add(t)),
        ("max.s64", "%d6", 1 << 63, |old, t| (old as i64).max(-(t as i64)) as u64),
    ];
    for (form, operand, start, step) in rows {
        let wide = form.ends_with("64");
        let (d, zero) = if wide { ("%d8", "") } else { ("%r8", "cvt.u64.u32 %d8, %r8;") };
        for space in ["global", "shared", "generic"] {
            let (address, dot) = match space {
                "shared" => ("%d9", ".shared"),
                "global" => ("%a", ".global"),
                _ => ("%d10", ""),
            };
            let body = format!(
                ".shared .align 8 .b8 sh[8];
                mov.u64 %d9, sh; cvta.shared.u64 %d10, %d9;
                ld.global.u64 %d1, [%a]; st.shared.u64 [%d9], %d1; bar.sync 0;
                add.u32 %r5, %t, 1; neg.s32 %r6, %r5; cvt.u64.u32 %d5, %r5; neg.s64 %d6, %d5;
                atom{dot}.{form} {d}, [{address}], {operand};
                {zero}
                bar.sync 0;
                mul.wide.u32 %d2, %t, 8; add.s64 %d3, %a, %d2; st.global.u64 [%d3+8], %d8;
                ld.u64 %d11, [{}]; st.global.u64 [%a], %d11;",
                if space == "global" { "%a" } else { "%d10" }
            );
            let after =
                as_longs(&run(&body, 64, longs((0..65).map(|i| if i == 0 { start } else { 0 }))));
            let mut old = start;
            for (lane, got) in after[1..].iter().enumerate() {
                assert_eq!(*got, old, "{form} {space} lane {lane}");
                old = step(old, lane as u64 + 1);
            }
            assert_eq!(after[0], old, "{form} {space}");
        }
    }
}

#[test]
fn compare_and_swap_floats_and_reductions() {
    let body = "
        atom.global.cas.b32 %r1, [%a], 0, %t;
        atom.global.cas.b64 %d1, [%a+8], 5, 6;
        atom.global.add.f32 %f1, [%a+16], 0f3F000000;
        red.global.add.f64 [%a+24], 0d3FD0000000000000;
        red.global.add.u32 [%a+32], 1;
        red.relaxed.gpu.global.max.u32 [%a+36], %t;
        atom.global.cas.b16 %h1, [%a+40], 0, 9;";
    let start = [0u64, 5, 0, 0, 0, 0];
    let after = run(body, 32, longs(start));
    assert_eq!(as_words(&after)[0], 1, "lane 0 swaps 0 for 0, lane 1 wins, the others find 1");
    assert_eq!(as_longs(&after)[1], 6);
    assert_eq!(f32::from_bits(as_words(&after)[4]), 16.0);
    assert_eq!(f64::from_bits(as_longs(&after)[3]), 8.0);
    assert_eq!(as_words(&after)[8..], [32, 31, 9, 0]);
}

#[test]
fn loads_stores_and_atomics_are_counted_separately() {
    let body = "mul.wide.u32 %d1, %t, 4; add.s64 %d2, %a, %d1;
        ld.global.u32 %r1, [%d2]; ld.global.nc.u32 %r2, [%d2]; st.global.u32 [%d2+512], %r1;
        atom.global.add.u32 %r3, [%a], 1; bar.sync 0; fma.rn.f32 %f1, %f1, %f1, %f1;
        ex2.approx.f32 %f2, %f1; add.f64 %g1, %g1, %g1; cvt.rn.f32.u32 %f3, %r1;";
    let text = kernel(body);
    let mut buffers = [words(0..256)];
    let case = Case::new(&text, "k").block(64).buffer(0).arg([0; 4]);
    let counts = case.run(&mut buffers).expect("runs").counts;
    let want = [
        (Class::LoadGlobal, 128),
        (Class::StoreGlobal, 64),
        (Class::Atomic, 64),
        (Class::Barrier, 64),
        (Class::Fp32, 64),
        (Class::Sfu, 64),
        (Class::Fp64, 64),
        (Class::Convert, 64),
    ];
    for (class, lanes) in want {
        assert_eq!(counts.lanes_of(class), lanes, "{class:?}");
        assert_eq!(counts.warps_of(class), lanes / 32, "{class:?}");
    }
    assert_eq!((counts.atomics, counts.barriers), (64, 2));
    assert_eq!((counts.load_sector_bytes, counts.store_sector_bytes), (512, 256));
    assert_eq!(counts.atomic_sector_bytes, 64, "one sector for each warp");
    // Loads of 375 cycles, one of which the store waits for, bound the chain from below.
    assert!(counts.longest_warp_cycles > 375, "{}", counts.longest_warp_cycles);
    assert_eq!(address(0) % 128, 0);
}

#[test]
fn contiguous_adds_return_the_old_value_of_each_lane() {
    let ends = [0, 1, u64::from(u32::MAX), u64::MAX, 1 << 31, 1 << 63];
    let mut random = Random(5);
    let start: Vec<u64> =
        (0..97).map(|at| ends.get(at).copied().unwrap_or_else(|| random.next())).collect();
    let float = |bits: u64| f32::from_bits(bits as u32);
    type Sum = fn(u64, u64) -> u64;
    let sums: [(&str, &str, &str, Sum); 4] = [
        ("u32", "%r5", "cvt.u64.u32 %d8, %r8;", |old, by| (old + by) & 0xFFFF_FFFF),
        ("s32", "%r6", "cvt.u64.u32 %d8, %r8;", |old, by| old.wrapping_sub(by) & 0xFFFF_FFFF),
        ("u64", "%d5", "", |old, by| old.wrapping_add(by)),
        ("f32", "%f5", "mov.b32 %r8, %f8; cvt.u64.u32 %d8, %r8;", |old, by| {
            u64::from((f32::from_bits(old as u32) + by as f32).to_bits())
        }),
    ];
    // Three warps: the words, and the old value of each lane.
    for (ty, operand, widen, sum) in sums {
        let (size, old) = match ty {
            "u64" => (8, "%d8"),
            "f32" => (4, "%f8"),
            _ => (4, "%r8"),
        };
        let body = format!(
            "add.u32 %r5, %t, 1; neg.s32 %r6, %r5; cvt.u64.u32 %d5, %r5; cvt.rn.f32.u32 %f5, %r5;
            mul.wide.u32 %d2, %t, {size}; add.s64 %d3, %a, %d2;
            atom.global.add.{ty} {old}, [%d3], {operand};
            {widen}
            mul.wide.u32 %d2, %t, 8; add.s64 %d3, %a, %d2; st.global.u64 [%d3+768], %d8;"
        );
        let word = |all: &[u8], at: usize| match size {
            8 => u64::from_le_bytes(all[8 * at..][..8].try_into().expect("8 bytes")),
            _ => u32::from_le_bytes(all[4 * at..][..4].try_into().expect("4 bytes")).into(),
        };
        let before = longs((0..192).map(|at| start.get(at).copied().unwrap_or(0)));
        let after = run(&body, 96, before.clone());
        for lane in 0..96 {
            let (found, by) = (word(&before, lane), lane as u64 + 1);
            let is_nan = ty == "f32" && float(sum(found, by)).is_nan();
            let same = word(&after, lane) == sum(found, by)
                || is_nan && float(word(&after, lane)).is_nan();
            assert!(same, "{ty} lane {lane}: {found:#x} + {by}: {:#x}", word(&after, lane));
            let old = u64::from_le_bytes(after[768 + 8 * lane..][..8].try_into().expect("8"));
            assert_eq!(old, found, "{ty} lane {lane}");
        }
    }
}

/// `o[t] = s[255 - t]` as NVRTC 13.5 compiles it for sm_100: the sum of base and offset is an
/// address only after it has wrapped around 32 bits. Compilers address shared memory so.
const REVERSE: &str = ".shared .align 4 .b8 s[1024];
    mul.lo.s32 %r2, %t, 3; shl.b32 %r3, %t, 2; mov.u32 %r4, s; add.s32 %r5, %r4, %r3;
    st.shared.b32 [%r5], %r2;
    bar.sync 0;
    sub.s32 %r6, %r4, %r3;
    ld.shared.b32 %r7, [%r6+1020];
    mul.wide.u32 %d3, %t, 4; add.s64 %d4, %a, %d3;
    st.global.b32 [%d4], %r7;";

#[test]
fn a_32_bit_address_and_its_offset_wrap_at_32_bits() {
    let expected: Vec<u32> = (0..256).map(|t| 3 * (255 - t)).collect();
    assert_eq!(as_words(&run(REVERSE, 256, vec![0; 1024])), expected);
    // The same for a store, an atomic and a negative offset.
    let body = ".shared .align 4 .b8 s[8]; mov.u32 %r1, s; sub.u32 %r2, %r1, 4; \
        st.shared.u32 [%r2+4], 7; atom.shared.add.u32 %r3, [%r2+4], 1; add.u32 %r4, %r1, 4; \
        ld.shared.u32 %r5, [%r4+-4]; st.global.u32 [%a], %r5;";
    assert_eq!(as_words(&run(body, 1, vec![0; 4])), [8]);
}
