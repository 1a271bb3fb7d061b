//! Control flow: divergence and reconvergence, calls, barriers, and exchanges between lanes.

mod support;

use support::{Case, HEAD, as_words, run_snippet, words};

/// A kernel that stores `%r` of each thread at `[k_a + 4 * thread]`.
fn kernel(before: &str, body: &str) -> String {
    format!(
        "{HEAD}{before}
    .visible .entry k(.param .u64 k_a)\n{{
        .reg .pred %p<9>; .reg .b32 %r, %t, %x<20>; .reg .b64 %a, %d<9>;
        ld.param.u64 %a, [k_a];
        mov.u32 %t, %tid.x;
        mov.u32 %r, 0;
        {body}
        mul.wide.u32 %d1, %t, 4; add.s64 %d1, %a, %d1;
        st.global.u32 [%d1], %r;
        ret;\n}}\n"
    )
}

fn run_with(before: &str, body: &str, threads: u32) -> Vec<u32> {
    let text = kernel(before, body);
    let mut buffers = [vec![0; 4 * threads as usize]];
    let case = Case::new(&text, "k").block(threads).buffer(0);
    case.run(&mut buffers).unwrap_or_else(|fault| panic!("{body}: {fault}"));
    as_words(&buffers[0])
}

fn run(body: &str, threads: u32) -> Vec<u32> {
    run_with("", body, threads)
}

fn expect(threads: u32, value: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..threads).map(value).collect()
}

#[test]
fn branches_diverge_and_reconverge() {
    let body = "and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 1; @%p1 bra ODD;
        add.u32 %r, %r, 100; bra.uni JOIN;
    ODD: add.u32 %r, %r, 7;
    JOIN: activemask.b32 %x2; popc.b32 %x3, %x2; mad.lo.u32 %r, %x3, 1000, %r;";
    // After the join all 32 lanes are active again.
    assert_eq!(run(body, 32), expect(32, |t| 32_000 + if t % 2 == 1 { 7 } else { 100 }));
}

#[test]
fn loops_of_unequal_length_reconverge() {
    // Collatz lengths, which differ widely.
    let body = "add.u32 %x1, %t, 1;
    LOOP: setp.eq.u32 %p1, %x1, 1; @%p1 bra DONE;
        add.u32 %r, %r, 1; and.b32 %x2, %x1, 1; setp.eq.u32 %p2, %x2, 0; @%p2 bra EVEN;
        mad.lo.u32 %x1, %x1, 3, 1; bra LOOP;
    EVEN: shr.u32 %x1, %x1, 1; bra LOOP;
    DONE: activemask.b32 %x3; popc.b32 %x4, %x3; mad.lo.u32 %r, %x4, 1000, %r;";
    let collatz = |mut n: u32| {
        let mut steps = 0;
        while n != 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    };
    assert_eq!(run(body, 64), expect(64, |t| 32_000 + collatz(t + 1)));
}

#[test]
fn nested_divergence_and_early_exits() {
    let body = "setp.ge.u32 %p1, %t, 20; @%p1 bra OUT; setp.ge.u32 %p2, %t, 10; @%p2 bra MID;
        setp.lt.u32 %p3, %t, 5; @%p3 bra LOW; mov.u32 %r, 2; bra JOIN;
    LOW: mov.u32 %r, 1; bra JOIN;
    MID: mov.u32 %r, 3; bra JOIN;
    OUT: setp.eq.u32 %p4, %t, 31; @%p4 exit; mov.u32 %r, 4;
    JOIN: add.u32 %r, %r, 10;";
    let value = |t: u32| match t {
        0..5 => 11,
        5..10 => 12,
        10..20 => 13,
        31 => 0,
        _ => 14,
    };
    assert_eq!(run(body, 32), expect(32, value));
}

#[test]
fn branch_tables_diverge_by_lane() {
    let body = "and.b32 %x1, %t, 3;
        TABLE: .branchtargets A, B, C, B;
        brx.idx %x1, TABLE;
    A: mov.u32 %r, 10; bra J;
    B: mov.u32 %r, 20; bra J;
    C: mov.u32 %r, 30;
    J: add.u32 %r, %r, 1;";
    assert_eq!(run(body, 32), expect(32, |t| [11, 21, 31, 21][(t % 4) as usize]));
}

#[test]
fn function_pointers_and_wide_parameters() {
    let functions = "
    .func (.param .align 8 .b8 out[16]) twice(.param .align 8 .b8 in[16])
    { .reg .b64 %d<3>; .reg .b16 %h; ld.param.u64 %d1, [in]; ld.param.u8 %h, [in+9];
      add.s64 %d1, %d1, %d1; st.param.b64 [out], %d1; st.param.b8 [out+8], %h; ret; }
    .func (.param .align 8 .b8 out[16]) plus(.param .align 8 .b8 in[16])
    { .reg .b64 %d<3>; ld.param.b64 %d1, [in]; add.s64 %d1, %d1, 5; st.param.b64 [out], %d1;
      st.param.b32 [out+8], 77; ret; }
    .global .align 8 .u64 table[2] = {twice, plus};";
    let body = "and.b32 %x1, %t, 1; mul.wide.u32 %d2, %x1, 8; mov.u64 %d3, table;
        add.s64 %d3, %d3, %d2; ld.global.u64 %d4, [%d3]; cvt.u64.u32 %d5, %t;
        { .param .align 8 .b8 param0[16]; st.param.b64 [param0], %d5;
          st.param.v2.b8 [param0+8], {255, 255}; st.param.v2.b8 [param0+8], {3, 4};
          .param .align 8 .b8 retval0[16];
          proto : .callprototype (.param .align 8 .b8 _[16]) _ (.param .align 8 .b8 _[16]);
          call (retval0), %d4, (param0), proto;
          ld.param.b64 %d6, [retval0]; ld.param.u8 %x2, [retval0+8]; }
        cvt.u32.u64 %r, %d6; mad.lo.u32 %r, %x2, 1000, %r;";
    let want = |t| {
        if t % 2 == 0 { 4000 + 2 * t } else { 77_000 + t + 5 }
    };
    assert_eq!(run_with(functions, body, 32), expect(32, want));
}

#[test]
fn local_variables_of_calls_do_not_overlap() {
    // Each level keeps its argument in local memory across the call below it.
    let function = "
    .func (.param .b32 out) sum(.param .b32 n)
    { .local .align 4 .b8 keep[8]; .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<3>;
      ld.param.u32 %r1, [n]; mov.u64 %d1, keep; st.local.u32 [%d1+4], %r1; mov.u32 %r3, 0;
      setp.eq.u32 %p, %r1, 0; @%p bra END; sub.u32 %r2, %r1, 1;
      { .param .b32 param0; st.param.b32 [param0], %r2; .param .b32 retval0;
        call (retval0), sum, (param0); ld.param.b32 %r3, [retval0]; }
    END: ld.local.u32 %r4, [%d1+4]; add.u32 %r3, %r3, %r4; st.param.b32 [out], %r3; ret; }";
    let body = "and.b32 %x1, %t, 15;
        { .param .b32 param0; st.param.b32 [param0], %x1; .param .b32 retval0;
          call (retval0), sum, (param0); ld.param.b32 %r, [retval0]; }
        activemask.b32 %x2; popc.b32 %x3, %x2; mad.lo.u32 %r, %x3, 1000, %r;";
    // After the calls of unequal depth all 32 lanes are active again.
    let triangle = |n: u32| n * (n + 1) / 2;
    assert_eq!(run_with(function, body, 32), expect(32, |t| 32_000 + triangle(t % 16)));
}

#[test]
fn barriers_hold_warps_and_reduce_predicates() {
    let body = ".shared .align 4 .b8 sh[1024];
        mov.u64 %d2, sh; mul.wide.u32 %d3, %t, 4; add.s64 %d4, %d2, %d3;
        st.shared.u32 [%d4], %t; bar.sync 0;
        xor.b32 %x1, %t, 255; mul.wide.u32 %d5, %x1, 4; add.s64 %d6, %d2, %d5;
        ld.shared.u32 %r, [%d6];
        setp.lt.u32 %p1, %t, 70; bar.red.popc.u32 %x2, 0, %p1; mad.lo.u32 %r, %x2, 1000, %r;
        bar.red.and.pred %p2, 1, %p1; bar.red.or.pred %p3, 1, %p1;
        @%p2 add.u32 %r, %r, 1000000; @%p3 add.u32 %r, %r, 2000000;";
    assert_eq!(run(body, 256), expect(256, |t| 2_070_000 + (t ^ 255)));
}

#[test]
fn a_barrier_ignores_exited_lanes() {
    // Whole warps and single lanes exit before the barrier; the others do not wait for them.
    let body = "setp.lt.u32 %p1, %t, 40; @%p1 bra GO; ret; GO: bar.sync 0; mov.u32 %r, 1;";
    assert_eq!(run(body, 128), expect(128, |t| u32::from(t < 40)));
    // Diverged lanes of one warp arrive one group after the other.
    let body = "setp.lt.u32 %p1, %t, 10; @%p1 bra A; bar.sync 0; mov.u32 %r, 5; bra J;
        A: bar.sync 0; mov.u32 %r, 6; J: bar.sync 0;";
    assert_eq!(run(body, 64), expect(64, |t| if t < 10 { 6 } else { 5 }));
    // A producer arrives, the consumer waits: only half of the block counts towards each.
    let body = ".shared .align 4 .b8 sh[4]; setp.lt.u32 %p1, %t, 32; @%p1 bra CONSUMER;
        st.shared.u32 [sh], 9; bar.arrive 3, 64; bra J;
        CONSUMER: bar.sync 3, 64; ld.shared.u32 %r, [sh]; J: bar.sync 0;";
    assert_eq!(run(body, 64), expect(64, |t| if t < 32 { 9 } else { 0 }));
}

#[test]
fn shuffles_follow_the_manual() {
    // Segments of 8: the third operand holds the clamp and the segment mask.
    let inputs: Vec<[u64; 3]> = (0..32).map(|t| [100 + t, 3, 0x181F]).collect();
    let run = |mode: &str, c: &str| {
        let text = format!(
            "shfl.sync.{mode}.b32 %rd|%pe, %ra, %rb, {c}, -1;
            selp.b32 %x1, 1000, 0, %pe; add.u32 %rd, %rd, %x1;"
        );
        run_snippet(&text, "%rd", &inputs)
    };
    let want = |source: fn(u64) -> Option<u64>| -> Vec<u64> {
        (0..32).map(|t| source(t).map_or(100 + t, |from| 1100 + from)).collect()
    };
    assert_eq!(run("bfly", "31"), want(|t| Some(t ^ 3)));
    assert_eq!(run("down", "31"), want(|t| (t + 3 < 32).then_some(t + 3)));
    assert_eq!(run("up", "0"), want(|t| (t >= 3).then(|| t - 3)));
    assert_eq!(run("idx", "31"), want(|_| Some(3)));
    assert_eq!(run("down", "%rc"), want(|t| (t % 8 + 3 < 8).then_some(t + 3)));
    assert_eq!(run("idx", "%rc"), want(|t| Some(t / 8 * 8 + 3)));
    assert_eq!(run("up", "0x1800"), want(|t| (t % 8 >= 3).then(|| t - 3)));
}

#[test]
fn votes_and_matches() {
    let inputs: Vec<[u64; 3]> = (0..32).map(|t| [t, t / 10, 7]).collect();
    let run = |text: &str, result: &str| run_snippet(text, result, &inputs);
    assert_eq!(run("vote.sync.ballot.b32 %rd, %pa, -1;", "%rd"), [0xAAAA_AAAA; 32]);
    assert_eq!(run("vote.sync.any.pred %pd, %pa, -1;", "%pd"), [1; 32]);
    assert_eq!(run("vote.sync.all.pred %pd, %pa, -1;", "%pd"), [0; 32]);
    assert_eq!(run("vote.sync.uni.pred %pd, !%pc, -1;", "%pd"), [1; 32]);
    let tens = |t: u64| [0x3FFu64, 0xF_FC00, 0x3FF0_0000, 0xC000_0000][(t / 10) as usize];
    let want: Vec<u64> = (0..32).map(tens).collect();
    assert_eq!(run("match.any.sync.b32 %rd, %rb, -1;", "%rd"), want);
    assert_eq!(run("match.all.sync.b64 %rd|%pe, %c, -1;", "%rd"), [0xFFFF_FFFF; 32]);
    assert_eq!(run("match.all.sync.b32 %rd|%pe, %rb, -1;", "%rd"), [0; 32]);
}

#[test]
fn a_sync_instruction_waits_for_its_lanes() {
    // The two sides of the branch reach the shuffle one after the other and still execute it
    // together, because the mask names them all.
    let body = "and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 1; @%p1 bra ODD;
        add.u32 %x2, %t, 100; bra S;
    ODD: add.u32 %x2, %t, 200; nanosleep.u32 5;
    S: shfl.sync.bfly.b32 %r, %x2, 1, 31, -1;";
    assert_eq!(run(body, 32), expect(32, |t| (t ^ 1) + if t % 2 == 0 { 200 } else { 100 }));
    // The same where one side comes from further down; by lowest address it would run first.
    let body = "and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 1; @%p1 bra ODD;
        add.u32 %x2, %t, 100;
    S: shfl.sync.bfly.b32 %r, %x2, 1, 31, -1; bra END;
    ODD: add.u32 %x2, %t, 200; bra S;
    END:";
    assert_eq!(run(body, 32), expect(32, |t| (t ^ 1) + if t % 2 == 0 { 200 } else { 100 }));
    // Exited lanes are not waited for.
    let body = "setp.ge.u32 %p1, %t, 16; @%p1 exit; vote.sync.ballot.b32 %r, 1, -1;";
    assert_eq!(run(body, 32), expect(32, |t| if t < 16 { 0xFFFF } else { 0 }));
}

#[test]
fn special_registers_describe_the_thread() {
    let text = kernel(
        "",
        "mov.u32 %x1, %ctaid.y; mov.u32 %x2, %nctaid.x; mov.u32 %x3, %ctaid.x;
        mad.lo.u32 %x4, %x1, %x2, %x3;
        mov.u32 %x5, %ntid.x; mov.u32 %x6, %tid.y; mad.lo.u32 %t, %x6, %x5, %t;
        mov.u32 %x7, %smid; mov.u32 %x8, %laneid; mov.u32 %x9, %warpid;
        mad.lo.u32 %r, %x4, 100, %x7; mad.lo.u32 %r, %r, 100, %x8; mad.lo.u32 %r, %r, 10, %x9;
        mov.u32 %x10, %ntid.y; mul.lo.u32 %x11, %x5, %x10; mad.lo.u32 %t, %x4, %x11, %t;",
    );
    let mut buffers = [words(vec![0; 6 * 40])];
    let mut case = Case::new(&text, "k").buffer(0);
    (case.grid, case.block) = ([3, 2, 1], [8, 5, 1]);
    case.run(&mut buffers).expect("runs");
    let want = expect(6 * 40, |at| {
        let (block, thread) = (at / 40, at % 40);
        ((block * 100 + block % 7) * 100 + thread % 32) * 10 + thread / 32
    });
    assert_eq!(as_words(&buffers[0]), want);
}

#[test]
fn spinning_on_a_clock_ends_at_its_deadline() {
    let body = "mov.u64 %d2, %globaltimer;
    L: mov.u64 %d3, %globaltimer; sub.s64 %d4, %d3, %d2; setp.lt.u64 %p1, %d4, 50000; @%p1 bra L;
        cvt.u32.u64 %r, %d4;";
    let took = run(body, 32)[0];
    assert!((50_000..52_000).contains(&took), "{took} ns");
    let body = "mov.u64 %d2, %clock64;
    L: mov.u64 %d3, %clock64; sub.s64 %d4, %d3, %d2; setp.lt.u64 %p1, %d4, 5000; @%p1 bra L;
        cvt.u32.u64 %r, %d4;";
    let took = run(body, 32)[0];
    assert!((5000..5100).contains(&took), "{took} cycles");
}
