//! Addresses in 32-bit registers, with which compilers address shared memory.

mod support;

use support::{Case, HEAD, as_words};

/// Runs one block over one buffer of words.
fn run(body: &str, threads: u32, words: usize) -> Vec<u32> {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 k_a)\n{{
        .reg .b32 %r<9>; .reg .b32 %t; .reg .b64 %d<5>, %a;
        ld.param.u64 %a, [k_a]; mov.u32 %t, %tid.x;
        {body}
        ret;\n}}\n"
    );
    let mut buffers = [vec![0; 4 * words]];
    let case = Case::new(&text, "k").block(threads).buffer(0);
    case.run(&mut buffers).unwrap_or_else(|fault| panic!("{body}: {fault}"));
    as_words(&buffers[0])
}

/// `o[t] = s[255 - t]` as NVRTC 13.5 compiles it for sm_100: the sum of base and offset is an
/// address only after it has wrapped around 32 bits.
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
    let out = run(REVERSE, 256, 256);
    let expected: Vec<u32> = (0..256).map(|t| 3 * (255 - t)).collect();
    assert_eq!(out, expected);
    // The same for a store, an atomic and a negative offset.
    let body = ".shared .align 4 .b8 s[8]; mov.u32 %r1, s; sub.u32 %r2, %r1, 4; \
        st.shared.u32 [%r2+4], 7; atom.shared.add.u32 %r3, [%r2+4], 1; add.u32 %r4, %r1, 4; \
        ld.shared.u32 %r5, [%r4+-4]; st.global.u32 [%a], %r5;";
    assert_eq!(run(body, 1, 1), [8]);
}
