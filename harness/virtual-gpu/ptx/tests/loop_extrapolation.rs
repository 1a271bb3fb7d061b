//! Loop extrapolation must give the counts and cycles of full execution, and must not apply to
//! loops with differing iterations.

mod support;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_ptx::{Execution, FaultKind, Limits};
use support::{Case, HEAD, address};

const FP32: &str = Kernel::Fp32Chain.info().ptx;
const FP64: &str = Kernel::Fp64Chain.info().ptx;
const INT: &str = Kernel::IntChain.info().ptx;
const ISSUE: &str = Kernel::IssueMix.info().ptx;
const TENSOR: &str = Kernel::TensorChain.info().ptx;
const SHARED: &str = Kernel::SharedStream.info().ptx;
const L1: &str = Kernel::L1Stream.info().ptx;
const L2: &str = Kernel::L2Stream.info().ptx;
const COPY: &str = Kernel::StreamCopy.info().ptx;

/// Stands for a long launch, in warp-instructions.
const MANY: u64 = 100_000_000;

fn run(case: &Case<'_>, extrapolate_after: Option<u64>) -> Execution {
    let limits = Limits {
        warp_instructions: MANY,
        extrapolate_after,
        l1_bytes: 64 << 10,
        tlb_pages: 16,
        ..Limits::default()
    };
    let case = Case { limits, params: case.params.clone(), ..*case };
    let mut buffers = vec![vec![0u8; 1 << 20], vec![0u8; 1 << 20]];
    case.run(&mut buffers).unwrap_or_else(|fault| panic!("{}: {fault}", case.kernel))
}

/// Runs the case in full and with extrapolation; both must agree.
fn both(case: &Case<'_>) -> Execution {
    let (full, extrapolated) = (run(case, None), run(case, Some(0)));
    assert_eq!(full.extrapolated_lanes, 0, "{}", case.kernel);
    assert_eq!(extrapolated.counts, full.counts, "{}", case.kernel);
    assert_eq!(extrapolated.blocks, full.blocks, "{}", case.kernel);
    assert_eq!(extrapolated.footprint, full.footprint, "{}", case.kernel);
    extrapolated
}

fn chain<'c>(text: &'c str, kernel: &'c str, iterations: u32) -> Case<'c> {
    let one = 1.0f32.to_le_bytes();
    let case = Case::new(text, kernel).grid(2).block(96).buffer(0);
    let case = case.arg(iterations.to_le_bytes());
    match kernel {
        "fp64_chain" => case.arg(1.0f64.to_le_bytes()).arg(0.5f64.to_le_bytes()),
        "int_chain" => case.arg(3u32.to_le_bytes()).arg(5u32.to_le_bytes()),
        "issue_mix" => case.arg(one).arg(one).arg(7u32.to_le_bytes()),
        _ => case.arg(one).arg(one),
    }
}

/// Arguments of kernels that read the same data repeatedly: vectors, passes, trigger, hit counter.
fn passes<'c>(text: &'c str, kernel: &'c str, passes: u32) -> Case<'c> {
    let case = Case::new(text, kernel).grid(2).block(96);
    let trigger = 77u64.to_le_bytes();
    match kernel {
        "shared_stream" => {
            Case { dynamic_shared_bytes: 16 << 10, ..case.arg(1000u32.to_le_bytes()) }
        }
        "l1_stream" => case.buffer(0).arg(1000u32.to_le_bytes()),
        _ => case.buffer(0).arg(10_000u64.to_le_bytes()),
    }
    .arg(passes.to_le_bytes())
    .arg(trigger)
    .buffer(1)
}

#[test]
fn extrapolated_kernels_have_the_counts_of_execution() {
    let chains = [
        (FP32, "fp32_chain"),
        (FP64, "fp64_chain"),
        (INT, "int_chain"),
        (ISSUE, "issue_mix"),
        (TENSOR, "tensor_chain"),
    ];
    for (text, kernel) in chains {
        for iterations in [1, 2, 3, 12, 13, 500, 1001] {
            both(&chain(text, kernel, iterations));
        }
    }
    for (text, kernel) in [(SHARED, "shared_stream"), (L1, "l1_stream"), (L2, "l2_stream")] {
        for rounds in [1, 2, 11, 100] {
            both(&passes(text, kernel, rounds));
        }
    }
    both(
        &Case { params: Vec::new(), ..Case::new(COPY, "stream_copy").grid(2).block(96) }
            .buffer(0)
            .buffer(1)
            .arg(60_000u64.to_le_bytes()),
    );
}

#[test]
fn executed_work_does_not_grow_with_the_length() {
    let executed = |done: &Execution| done.counts.lanes() - done.extrapolated_lanes;
    for (text, kernel) in [
        (FP32, "fp32_chain"),
        (FP64, "fp64_chain"),
        (INT, "int_chain"),
        (ISSUE, "issue_mix"),
        (TENSOR, "tensor_chain"),
    ] {
        let [short, long] = [10_000, 10_000_000].map(|n| run(&chain(text, kernel, n), Some(0)));
        assert!(long.counts.lanes() > 900 * short.counts.lanes(), "{kernel}");
        let (less, more) = (executed(&short), executed(&long));
        assert!(more <= less + less / 10, "{kernel}: {less}, then {more}");
    }
    for (text, kernel) in [(SHARED, "shared_stream"), (L1, "l1_stream"), (L2, "l2_stream")] {
        let [short, long] = [100, 100_000].map(|n| run(&passes(text, kernel, n), Some(0)));
        assert!(long.counts.lanes() > 900 * short.counts.lanes(), "{kernel}");
        let (less, more) = (executed(&short), executed(&long));
        assert!(more <= less + less / 10, "{kernel}: {less}, then {more}");
    }
}

/// A loop of `body` with the label AGAIN, after `before`.
fn looping(before: &str, body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 p)\n{{
        .reg .pred %p<6>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
        ld.param.u64 %rd1, [p]; mov.u32 %r9, %tid.x; mov.u32 %r1, 0; mov.u32 %r2, 0;
        {before}
        AGAIN: {body}
        st.global.u32 [%rd1], %r2; ret;\n}}\n"
    )
}

#[test]
fn every_kind_of_exit_test_is_exact() {
    for (before, body) in [
        ("", "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN;"),
        ("", "add.u32 %r1, %r1, 7; setp.le.u32 %p1, %r1, 7000; @%p1 bra AGAIN;"),
        ("", "add.u32 %r1, %r1, 7; setp.gt.u32 %p1, %r1, 6999; @!%p1 bra AGAIN;"),
        ("mov.u32 %r1, 1000;", "sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN;"),
        ("mov.u32 %r1, 1000;", "sub.u32 %r1, %r1, 2; setp.eq.s32 %p1, %r1, 0; @!%p1 bra AGAIN;"),
        ("mov.u32 %r1, -900;", "add.s32 %r1, %r1, 3; setp.ne.s32 %p1, %r1, 0; @%p1 bra AGAIN;"),
        ("mov.u32 %r1, -900;", "add.s32 %r1, %r1, 3; setp.lt.s32 %p1, %r1, 900; @%p1 bra AGAIN;"),
        // Overflow: the counter wraps and is small again.
        ("mov.u32 %r1, -900;", "add.u32 %r1, %r1, 7; setp.gt.u32 %p1, %r1, 500; @%p1 bra AGAIN;"),
        (
            "mov.u32 %r1, 2147483000;",
            "add.s32 %r1, %r1, 5; setp.gt.s32 %p1, %r1, 0; @%p1 bra AGAIN;",
        ),
        // Both sides change, one is a sum of two counters, and values differ by lane.
        (
            "mov.u32 %r3, 5000;",
            "add.u32 %r1, %r1, 3; sub.u32 %r3, %r3, 2; \
          setp.lt.u32 %p1, %r1, %r3; @%p1 bra AGAIN;",
        ),
        (
            "",
            "add.u32 %r1, %r1, 4; add.u32 %r4, %r1, -8000; setp.ne.s32 %p1, %r4, 0; \
             @%p1 bra AGAIN;",
        ),
        (
            "add.u32 %r1, %r1, %r9;",
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN;",
        ),
        (
            "mov.u64 %rd2, 4294960000;",
            "add.s64 %rd2, %rd2, 3; setp.lt.u64 %p1, %rd2, 4294970000; @%p1 bra AGAIN;",
        ),
    ] {
        let text = looping(before, body);
        let done = both(&Case::new(&text, "k").buffer(0));
        assert!(done.extrapolated_lanes > 0, "{body}");
    }
}

#[test]
fn iterations_that_differ_are_executed() {
    for (before, body) in [
        // Growing steps; a branch, an address or a guard that depends on the counter.
        (
            "mov.u32 %r3, 1;",
            "add.u32 %r3, %r3, 1; add.u32 %r1, %r1, %r3; \
          setp.lt.u32 %p1, %r1, 90000; @%p1 bra AGAIN;",
        ),
        ("mov.u32 %r1, 1;", "add.u32 %r1, %r1, %r1; setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN;"),
        (
            "",
            "and.b32 %r3, %r1, 64; setp.eq.u32 %p2, %r3, 0; @%p2 bra OVER; add.u32 %r2, %r2, 1; \
          OVER: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN;",
        ),
        (
            "",
            "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; ld.global.u32 %r3, [%rd3]; \
          add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN;",
        ),
        (
            "",
            "shr.u32 %r3, %r1, 6; setp.eq.u32 %p2, %r3, 3; @%p2 ld.global.u32 %r4, [%rd1]; \
          add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN;",
        ),
        // An exit test that depends on a product, on memory, or on an atomic counter.
        (
            "mov.u32 %r1, 1;",
            "mul.lo.u32 %r1, %r1, 3; setp.ne.u32 %p1, %r1, 1870418611; @%p1 bra AGAIN;",
        ),
        (
            "",
            "ld.global.u32 %r3, [%rd1]; add.u32 %r3, %r3, 1; st.global.u32 [%rd1], %r3; \
          setp.lt.u32 %p1, %r3, 1000; @%p1 bra AGAIN;",
        ),
        (
            "",
            "atom.global.add.u32 %r3, [%rd1], 1; add.u32 %r1, %r1, 1; \
          setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN;",
        ),
        // The compared register changes again before the branch.
        ("", "setp.lt.u32 %p1, %r1, 1000; add.u32 %r1, %r1, 1; @%p1 bra AGAIN;"),
        (
            "",
            "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; add.u32 %r1, %r1, 1; @%p1 bra AGAIN;",
        ),
        // Lanes leave one after the other.
        (
            "mul.lo.u32 %r8, %r9, 40; add.u32 %r8, %r8, 5;",
            "add.u32 %r1, %r1, 1; \
          setp.lt.u32 %p1, %r1, %r8; @%p1 bra AGAIN;",
        ),
        // An exit in the middle.
        (
            "",
            "add.u32 %r1, %r1, 1; setp.gt.u32 %p2, %r1, 700; @%p2 bra OUT; \
          setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN; OUT:",
        ),
        // An inner loop with two iterations that keeps counting across outer iterations.
        (
            "mov.u32 %r4, 2;",
            "MORE: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r4; @%p2 bra MORE; \
          add.u32 %r4, %r4, 2; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN;",
        ),
    ] {
        let text = looping(before, body);
        let done = both(&Case::new(&text, "k").buffer(0));
        assert!(
            done.extrapolated_lanes * 2 < done.counts.lanes(),
            "{body}: {} of {}",
            done.extrapolated_lanes,
            done.counts.lanes()
        );
    }
}

/// Each run of the inner loop is extrapolated, the outer loop is not.
#[test]
fn an_inner_loop_is_extrapolated_by_itself() {
    let body = "shr.u32 %r3, %r1, 4; add.u32 %r3, %r3, 1; MORE: sub.u32 %r3, %r3, 1; \
                setp.ne.u32 %p2, %r3, 0; @%p2 bra MORE; add.u32 %r1, %r1, 1; \
                setp.lt.u32 %p1, %r1, 1000; @%p1 bra AGAIN;";
    let text = looping("", body);
    let done = both(&Case::new(&text, "k").buffer(0));
    assert!(done.extrapolated_lanes > 0);
}

#[test]
fn an_endless_loop_ends_at_the_limit() {
    let text = looping("", "add.u32 %r1, %r1, 1; setp.ge.u32 %p1, %r1, 0; @%p1 bra AGAIN;");
    let mut case = Case::new(&text, "k").buffer(0);
    case.limits.extrapolate_after = Some(0);
    case.limits.warp_instructions = 100_000;
    let fault = case.run(&mut [vec![0; 64]]).expect_err("never ends");
    let timed_out = matches!(fault.kind, FaultKind::LaunchTimeout { .. });
    assert!(timed_out, "{fault} at {:#x}", address(0));
}
