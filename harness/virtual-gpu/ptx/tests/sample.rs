//! Sampling: what a few blocks say about a grid, and when they may not say it.

mod support;

use std::sync::Arc;

use gpubench_virtual_gpu_ptx::{
    CycleModel, DeviceMemory, Execution, Launch, Limits, Program, Sampled, execute,
    execute_sampled, parse,
};
use support::{HEAD, PlainTimer, address};

/// Each thread stores its index if it is below `n`; then it loops `rounds` times, where `rounds`
/// is a constant or the block's index.
fn text(rounds: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 k_out, .param .u32 k_n)\n{{
        .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [k_out];
        ld.param.u32 %r1, [k_n];
        mov.u32 %r2, %ctaid.x;
        mov.u32 %r3, %ntid.x;
        mov.u32 %r4, %tid.x;
        mad.lo.s32 %r5, %r2, %r3, %r4;
        setp.ge.u32 %p1, %r5, %r1;
        @%p1 bra $END;
        mul.wide.u32 %rd2, %r5, 4;
        add.s64 %rd3, %rd1, %rd2;
        st.global.u32 [%rd3], %r5;
        mov.u32 %r6, {rounds};
    $LOOP:
        add.s32 %r6, %r6, -1;
        setp.gt.s32 %p2, %r6, 0;
        @%p2 bra $LOOP;
    $END:
        ret;\n}}\n"
    )
}

const THREADS: u32 = 64;

/// The launch in full and sampled.
fn both(rounds: &str, blocks: u32, n: u32) -> (Execution, Sampled) {
    let module = Arc::new(parse(&text(rounds)).expect("parses"));
    let program = Program::bind(module, Vec::new()).expect("binds");
    let mut params = address(0).to_le_bytes().to_vec();
    params.extend(n.to_le_bytes());
    let model = CycleModel::default();
    let launch = Launch {
        kernel: "k",
        grid: [blocks, 1, 1],
        block: [THREADS, 1, 1],
        dynamic_shared_bytes: 0,
        params: &params,
        block_smid: &|_| 0,
        block_start_ns: &|_| 0,
        sm_count: 1,
        limits: Limits::default(),
        model: &model,
        planted_illegal: &[],
        keep_blocks: false,
    };
    let mut out = vec![0u8; (4 * n) as usize];
    let mut memory = DeviceMemory::new();
    memory.map(address(0), &mut out, true).expect("maps");
    let all = 0..u64::from(blocks);
    let full = execute(&program, &launch, all, &mut memory, &mut PlainTimer(0)).expect("runs");
    let sampled = execute_sampled(&program, &launch, 6, 0.02, &mut memory, &mut PlainTimer(0));
    (full, sampled.expect("runs"))
}

#[test]
fn alike_blocks_extrapolate_to_exactly_the_full_run() {
    // The last block is cut short: 500 blocks of 64 threads over 31 960 elements.
    let (full, sampled) = both("5", 500, 31_960);
    assert!(sampled.legitimate, "spread {}", sampled.spread);
    assert_eq!(sampled.executed.blocks.len(), 8);
    assert_eq!(sampled.counts, full.counts);
    let (guess, exact) = (
        sampled.footprint_bytes as f64,
        full.footprint.bytes() as f64,
    );
    assert!((guess / exact - 1.0).abs() < 0.01, "{guess} for {exact}");
}

#[test]
fn blocks_that_differ_may_not_stand_for_each_other() {
    let (_, sampled) = both("%ctaid.x", 500, 32_000);
    assert!(!sampled.legitimate);
    assert!(sampled.spread > 0.5, "spread {}", sampled.spread);
}

#[test]
fn a_small_grid_runs_in_full() {
    let (full, sampled) = both("%ctaid.x", 7, 448);
    assert!(sampled.legitimate);
    assert_eq!(sampled.counts, full.counts);
    assert_eq!(sampled.footprint_bytes, full.footprint.bytes());
}
