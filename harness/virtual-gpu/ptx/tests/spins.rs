//! Loops that wait for other threads: blocks of a plain launch, warps of a block, and nobody.

mod support;

use gpubench_virtual_gpu_ptx::{Execution, FaultKind, KernelFault};
use support::{Case, HEAD, address, as_words};

/// A kernel with `[k_a]` in `%a`, thread and block in `%t` and `%b`, and the blocks in `%n`.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 k_a)\n{{
        .reg .pred %p<9>; .reg .b32 %t, %b, %n, %r<20>; .reg .b64 %a, %d<9>;
        ld.param.u64 %a, [k_a]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x;
        {body}
        ret;\n}}\n"
    )
}

/// Runs blocks of 64 threads over a buffer of a kilobyte.
fn run(body: &str, grid: u32, resident: u64) -> Result<(Vec<u32>, Execution), Box<KernelFault>> {
    let text = kernel(body);
    let mut buffers = [vec![0; 1024]];
    let mut case = Case::new(&text, "k").grid(grid).block(64).buffer(0);
    case.limits.resident_blocks = resident;
    let done = case.run(&mut buffers)?;
    Ok((as_words(&buffers[0]), done))
}

/// A barrier of the grid on word 0, by one thread of each block; then each block stores the count
/// that it sees. `poll` reads the count into `%r4`.
fn barrier(poll: &str) -> String {
    format!(
        "setp.ne.u32 %p1, %t, 0; @%p1 bra MEET;
        membar.gl; atom.global.add.u32 %r3, [%a], 1;
    WAIT: {poll} setp.lt.u32 %p2, %r4, %n; @%p2 bra WAIT;
    MEET: bar.sync 0;
        ld.volatile.global.u32 %r5, [%a]; mul.wide.u32 %d1, %b, 4; add.s64 %d1, %a, %d1;
        st.global.u32 [%d1+4], %r5;"
    )
}

const POLLS: [&str; 4] = [
    "ld.volatile.global.u32 %r4, [%a];",
    "atom.global.add.u32 %r4, [%a], 0;",
    "atom.global.or.b32 %r4, [%a], 0;",
    "nanosleep.u32 100; ld.acquire.gpu.global.u32 %r4, [%a];",
];

#[test]
fn blocks_of_a_plain_launch_meet_at_a_barrier_of_the_grid() {
    for poll in POLLS {
        for grid in [1, 2, 7] {
            let (words, done) =
                run(&barrier(poll), grid, 8).unwrap_or_else(|f| panic!("{poll}: {f}"));
            let mut expected = vec![grid; grid as usize + 1];
            expected.resize(words.len(), 0);
            assert_eq!(words, expected, "{poll} {grid}");
            let ran: Vec<u64> = done.blocks.iter().map(|one| one.block).collect();
            assert_eq!(ran, (0..u64::from(grid)).collect::<Vec<_>>(), "{poll}");
            assert_eq!(done.counts.blocks, u64::from(grid));
        }
    }
}

/// The blocks before the one that waits have ended; those after it run beside it.
#[test]
fn a_block_waits_for_a_later_one_and_the_rest_follows() {
    let body = "setp.ne.u32 %p1, %b, 2; @%p1 bra GO;
    WAIT: ld.volatile.global.u32 %r4, [%a]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;
    GO: setp.ne.u32 %p3, %b, 5; @%p3 bra NEXT; st.global.u32 [%a], 1;
    NEXT: mul.wide.u32 %d1, %b, 4; add.s64 %d1, %a, %d1; st.global.u32 [%d1+4], 1;";
    let (words, done) = run(body, 9, 2).expect("block 3, 4 and 5 take the second place in turn");
    assert_eq!(words[..11], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(done.blocks.len(), 9);
}

#[test]
fn a_launch_that_nothing_can_end_says_what_it_waits_for() {
    let fault = |body: &str, grid, resident| *run(body, grid, resident).expect_err(body);
    // One block does not find room.
    for poll in POLLS {
        let found = fault(&barrier(poll), 9, 8);
        let expected = FaultKind::Endless { polled: Some(address(0)), not_started: 1 };
        assert_eq!(found.kind, expected, "{poll}");
        assert_eq!((found.block, found.thread), ([0; 3], [0; 3]), "{poll}");
        assert_eq!(found.function, "k");
        let text = kernel(&barrier(poll));
        let line = text.lines().position(|line| line.contains("WAIT:"));
        assert_eq!(Some(found.line as usize - 1), line, "{poll}");
    }
    // The flag is never set, alone and beside a block that ends.
    let waits =
        "WAIT: ld.volatile.global.u32 %r4, [%a+64]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;";
    for grid in [1, 3] {
        let found = fault(waits, grid, 8);
        let text = found.to_string();
        assert!(
            text.starts_with("no running thread can end a loop that polls 0x7f0000000040 in k"),
            "{text}"
        );
    }
    // Where the blocks may not run together, the first one already waits for nothing.
    let found = fault(&barrier(POLLS[0]), 2, 1).kind;
    assert!(matches!(found, FaultKind::Endless { not_started: 0, .. }), "{found}");
}

#[test]
fn threads_of_a_block_wait_for_each_other_in_loops() {
    // Warp 0 polls shared memory until warp 1 has counted to a hundred thousand.
    let warps = ".shared .align 4 .b8 flag[4]; setp.ge.u32 %p1, %t, 32; @%p1 bra WORK;
    WAIT: ld.volatile.shared.u32 %r4, [flag]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;
        st.global.u32 [%a], %r4; bra DONE;
    WORK: mov.u32 %r1, 0;
    MORE: add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 100000; @%p3 bra MORE;
        st.volatile.shared.u32 [flag], %r1;
    DONE: ";
    assert_eq!(run(warps, 1, 1).expect("ends").0[0], 100_000);
    // Lanes of one warp: lane 0 waits for lane 1, which runs on elsewhere.
    let lanes = ".shared .align 4 .b8 flag[4]; setp.ne.u32 %p1, %t, 0; @%p1 bra WORK;
    WAIT: ld.volatile.shared.u32 %r4, [flag]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;
        st.global.u32 [%a], %r4; bra DONE;
    WORK: st.volatile.shared.u32 [flag], 9;
    DONE: ";
    assert_eq!(run(lanes, 1, 1).expect("ends").0[0], 9);
}

/// Loops that look alike from one passage to the next and end all the same.
#[test]
fn a_loop_that_a_clock_or_a_caller_ends_is_no_endless_one() {
    let by_clock = "mov.u64 %d1, %clock64; add.u64 %d2, %d1, 400000;
    WAIT: mov.u64 %d1, %clock64; setp.lt.u64 %p1, %d1, %d2; mov.u64 %d1, 0; @%p1 bra WAIT;
        st.global.u32 [%a], 1;";
    assert_eq!(run(by_clock, 1, 8).expect("ends").0[0], 1);
    // Each call of `turns` passes the same states; the caller counts.
    let calls = format!(
        "{HEAD}.func turns() {{ .reg .pred %p; .reg .b32 %r; mov.u32 %r, 0;
        MORE: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 40; @%p bra MORE; ret; }}
        .visible .entry k(.param .u64 k_a) {{ .reg .pred %p; .reg .b32 %r; .reg .b64 %a;
        ld.param.u64 %a, [k_a]; mov.u32 %r, 0;
        AGAIN: call turns, (); add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 5000; @%p bra AGAIN;
        st.global.u32 [%a], %r; ret; }}"
    );
    let mut buffers = [vec![0; 1024]];
    let case = Case::new(&calls, "k").block(64).buffer(0);
    case.run(&mut buffers).expect("ends");
    assert_eq!(as_words(&buffers[0])[0], 5000);
}

/// What a block polls before it is known to wait is no work of the device.
#[test]
fn polling_costs_neither_instructions_nor_time() {
    let (_, done) = run(&barrier(POLLS[0]), 7, 8).expect("ends");
    let (lanes, cycles) = (done.counts.lanes(), done.counts.longest_warp_cycles);
    // 64 lanes run 20 instructions; a poll has three and takes an access of L2.
    assert!(lanes < 7 * (64 * 20 + 3 * 100), "{lanes} lane-instructions");
    assert!(cycles < 40 * 400, "{cycles} cycles");
}
