//! Faults with kind and location; printf and assertions; errors of loading.

mod support;

use gpubench_virtual_gpu_ptx::{FaultKind, KernelFault, parse, window};
use support::{Case, HEAD, address};

fn kernel(before: &str, body: &str) -> String {
    format!(
        "{HEAD}{before}
.visible .entry k(.param .u64 k_a)
{{
        .reg .pred %p<9>; .reg .b32 %t, %x<20>; .reg .b64 %a, %d<9>; .reg .f32 %f<4>;
        ld.param.u64 %a, [k_a]; mov.u32 %t, %tid.x; mul.wide.u32 %d1, %t, 4;
        add.s64 %d1, %a, %d1;
        {body}
        ret;
}}
"
    )
}

fn fault_in(before: &str, body: &str) -> KernelFault {
    let text = kernel(before, body);
    let mut buffers = [vec![0; 256]];
    let case = Case::new(&text, "k").grid(2).block(64).buffer(0);
    *case.run(&mut buffers).expect_err(body)
}

fn kind(body: &str) -> FaultKind {
    fault_in("", body).kind
}

#[test]
fn addresses_outside_memory_fault_with_the_address() {
    let at = address(0);
    let illegal = |addr, write| FaultKind::IllegalAddress { addr, write };
    assert_eq!(kind("ld.global.u32 %x1, [%d1+256];"), illegal(at + 256, false));
    assert_eq!(kind("st.global.u32 [%d1+256], %t;"), illegal(at + 256, true));
    assert_eq!(kind("ld.global.u32 %x1, [%a+-4];"), illegal(at - 4, false));
    assert_eq!(kind("st.u32 [0], %t;"), illegal(0, true));
    assert_eq!(kind("atom.global.add.u32 %x1, [%a+256], 1;"), illegal(at + 256, true));
    // The offset wraps around the address space instead of failing in the interpreter.
    assert_eq!(kind("mov.u64 %d2, -8; ld.global.u64 %d3, [%d2+16];"), illegal(8, false));
    assert_eq!(kind("ld.global.v4.u32 {%x1,%x2,%x3,%x4}, [%a+256];"), illegal(at + 256, false));
    // Only the last of 32 adjacent lanes leaves the buffer.
    let fault = fault_in("", "ld.global.u32 %x1, [%d1+132];");
    assert_eq!((fault.kind, fault.thread), (illegal(at + 256, false), [31, 0, 0]));
}

#[test]
fn a_fault_has_its_location() {
    let body = "mov.u32 %x1, %ctaid.x; setp.eq.u32 %p1, %x1, 1; setp.eq.u32 %p2, %t, 37;
        and.pred %p1, %p1, %p2; @%p1 trap;";
    let fault = fault_in("", body);
    assert_eq!((&fault.kind, fault.block, fault.thread), (&FaultKind::Trap, [1, 0, 0], [37, 0, 0]));
    assert_eq!(fault.function, "k");
    let line = kernel("", body).lines().position(|line| line.contains("trap")).expect("is there");
    assert_eq!(fault.line as usize, line + 1);
    assert_eq!(fault.counts.blocks, 2, "work before the fault is counted");
    assert_eq!(kind("brkpt;"), FaultKind::Breakpoint);
}

#[test]
fn misaligned_accesses_of_every_kind() {
    for (body, bytes) in [
        ("ld.global.u32 %x1, [%a+2];", 4),
        ("st.global.u16 [%a+1], %x1;", 2),
        ("ld.global.v2.u32 {%x1, %x2}, [%a+4];", 8),
        ("ld.global.v4.u32 {%x1, %x2, %x3, %x4}, [%a+8];", 16),
        ("atom.global.add.u64 %d2, [%a+4], 1;", 8),
        (".shared .align 8 .b8 s[64]; ld.shared.u64 %d2, [s+4];", 8),
    ] {
        let found = kind(body);
        assert!(matches!(found, FaultKind::Misaligned { bytes: b, .. } if b == bytes), "{found}");
    }
    let in_one_lane = "add.s64 %d2, %d1, 0; setp.eq.u32 %p1, %t, 3; @%p1 add.s64 %d2, %d2, 1;
        ld.global.u32 %x1, [%d2];";
    let fault = fault_in("", in_one_lane);
    assert_eq!(fault.kind, FaultKind::Misaligned { addr: address(0) + 13, bytes: 4 });
    assert_eq!(fault.thread, [3, 0, 0]);
}

#[test]
fn instructions_refuse_other_spaces() {
    let local = ".local .align 4 .b8 l[8]; mov.u64 %d2, l; cvta.local.u64 %d2, %d2;";
    let wrong = |addr| FaultKind::InvalidAddressSpace { addr };
    let body = format!("{local} atom.add.u32 %x1, [%d2], 1;");
    assert_eq!(kind(&body), wrong(window::LOCAL_BASE));
    let body = format!("{local} ld.global.u32 %x1, [%d2];");
    assert_eq!(kind(&body), wrong(window::LOCAL_BASE));
    let shared = ".shared .align 4 .b8 s[8]; mov.u64 %d2, s;";
    let out = |offset| FaultKind::SharedOutOfRange { offset, bytes: 8 };
    assert_eq!(kind(&format!("{shared} st.shared.u32 [%d2+8], %t;")), out(8));
    assert_eq!(kind(&format!("{shared} ld.shared.u32 %x1, [%d2+-4];")), out(0xFFFF_FFFF_FFFF_FFFC));
    let body = format!("{shared} cvta.shared.u64 %d2, %d2; ld.u32 %x1, [%d2+400];");
    assert_eq!(kind(&body), out(400));
    let body = format!("{local} ld.u32 %x1, [%d2+4096];");
    let addr = window::LOCAL_BASE + 4096;
    assert_eq!(kind(&body), FaultKind::IllegalAddress { addr, write: false });
}

const DEEP: &str = ".func deep(.param .b64 n)
{ .local .align 8 .b8 pad[64]; .reg .b64 %d<3>; ld.param.u64 %d1, [n]; st.local.u64 [pad], %d1;
  { .param .b64 p; st.param.b64 [p], %d1; call deep, (p); } ret; }";

#[test]
fn calls_have_limits_and_pointers_must_be_functions() {
    let fault = fault_in(DEEP, "{ .param .b64 p; st.param.b64 [p], %a; call deep, (p); }");
    assert_eq!(fault.kind, FaultKind::StackOverflow { limit_bytes: 1024 });
    assert_eq!(fault.function, "deep");
    for pointer in ["%a", "0", "%d2"] {
        let body = format!(
            "mov.u64 %d2, deep; add.s64 %d2, %d2, 8; mov.u64 %d3, {pointer};
            {{ .param .b64 p; st.param.b64 [p], %a; call %d3, (p), proto; }}"
        );
        let found = fault_in(DEEP, &body).kind;
        assert!(matches!(found, FaultKind::InvalidPc { .. }), "{pointer}: {found}");
    }
    // The right function with wrong arguments.
    let found = fault_in(DEEP, "mov.u64 %d2, deep; call %d2, (), proto;").kind;
    assert!(matches!(found, FaultKind::InvalidPc { .. }), "{found}");
    let table = "T: .branchtargets L; brx.idx %t, T; L: mov.u32 %x1, 0;";
    assert_eq!(kind(table), FaultKind::InvalidPc { addr: 1 });
}

#[test]
fn endless_loops_time_out_and_deadlocks_are_detected() {
    let counts = "L: add.u64 %d2, %d2, 1; setp.ne.u64 %p1, %d2, 0; @%p1 bra L;";
    let warp_instructions = 5_000_000;
    assert_eq!(kind(counts), FaultKind::LaunchTimeout { warp_instructions });
    // They repeat themselves. No lane executes the body of the second one.
    let (polled, not_started) = (None, 0);
    let endless = FaultKind::Endless { polled, not_started };
    for body in ["L: bra L;", "L: @%p1 bra M; bra L; M: ret;"] {
        assert_eq!(kind(body), endless, "{body}");
    }
    let body = "setp.lt.u32 %p1, %t, 32; @%p1 bra A; bar.sync 1; A: bar.sync 0;";
    assert_eq!(kind(body), FaultKind::Deadlock);
    assert_eq!(kind("bar.sync 0, 96;"), FaultKind::Deadlock);
}

#[test]
fn invalid_launches_are_refused() {
    let text = kernel("", "").replacen("\n{", "\n.maxntid 128, 1, 1\n{", 1);
    let refused = |change: fn(Case<'_>) -> Case<'_>| {
        let case = change(Case::new(&text, "k").buffer(0));
        match case.run(&mut [vec![0; 8]]).expect_err("is refused").kind {
            FaultKind::BadLaunch(what) => what,
            other => panic!("{other}"),
        }
    };
    assert!(refused(|case| case.block(0)).contains("1 to 1024"));
    assert!(refused(|case| case.block(1025)).contains("1 to 1024"));
    assert!(refused(|case| case.block(160)).contains(".maxntid"));
    assert!(refused(|case| Case { params: Vec::new(), ..case }).contains("0 bytes"));
    assert!(refused(|case| Case { kernel: "other", ..case }).contains("no kernel `other`"));
    assert!(refused(|case| Case { dynamic_shared_bytes: 1 << 20, ..case }).contains("shared"));
    assert!(refused(|case| case.grid(0)).contains("at least one block"));
}

const PRINTING: &str = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,
    .param .b64 e);
.global .align 1 .b8 fmt[8] = {116, 61, 37, 100, 33, 10, 0, 0};
.global .align 1 .b8 file[5] = {107, 46, 99, 117, 0};";

const PRINT: &str = ".local .align 8 .b8 args[8]; mov.u64 %d2, args; st.local.u32 [%d2], %t;
    cvta.local.u64 %d2, %d2; mov.u64 %d3, fmt; cvta.global.u64 %d3, %d3;
    { .param .b64 p0; st.param.b64 [p0], %d3; .param .b64 p1; st.param.b64 [p1], %d2;
      .param .b32 r; call (r), vprintf, (p0, p1); ld.param.b32 %x5, [r]; }";

#[test]
fn printed_text_is_limited() {
    let text = kernel(PRINTING, PRINT);
    assert!(parse(&text).expect("parses").kernels[0].properties.calls_printf);
    let mut case = Case::new(&text, "k").buffer(0);
    let done = case.run(&mut [vec![0; 256]]).expect("runs");
    let want: Vec<String> = (0..32).map(|t| format!("t={t}!\n")).collect();
    assert_eq!(done.printed, want);
    case.limits.printf_bytes = 18;
    let done = case.run(&mut [vec![0; 256]]).expect("runs");
    assert_eq!(done.printed, want[29..], "the oldest entries are dropped");
}

#[test]
fn an_assertion_has_its_texts() {
    let body = format!(
        "{PRINT} mov.u64 %d4, file; cvta.global.u64 %d4, %d4; setp.eq.u32 %p1, %t, 5;
        @!%p1 bra OK;
        {{ .param .b64 q0; st.param.b64 [q0], %d3; .param .b64 q1; st.param.b64 [q1], %d4;
          .param .b32 q2; st.param.b32 [q2], 12; .param .b64 q3; st.param.b64 [q3], %d4;
          .param .b64 q4; st.param.b64 [q4], 1; call __assertfail, (q0, q1, q2, q3, q4); }}
        OK:"
    );
    let fault = fault_in(PRINTING, &body);
    let (message, file) = ("t=%d!\n".to_owned(), "k.cu".to_owned());
    let function = file.clone();
    assert_eq!(fault.kind, FaultKind::Assert { message, file, line: 12, function });
    assert_eq!(fault.thread, [5, 0, 0]);
    assert_eq!(fault.printed.len(), 32);
}

#[test]
fn unsupported_forms_are_refused_with_their_line() {
    // Each row has one error, on the line of the body.
    let line = kernel("", "HERE").lines().position(|line| line.contains("HERE")).expect("is there");
    for (body, says) in [
        ("wgmma.fence.sync.aligned;", "`wgmma.fence.sync.aligned` is not supported"),
        ("add.rn.sat.s32.foo %x1, %x2, %x3;", "not supported"),
        ("add.rz.f16 %x1, %x2, %x3;", "not supported"),
        ("add.rz.f64 %d2, %d2, %d2;", "not supported"),
        ("div.rz.f32 %f1, %f2, %f3;", "not supported"),
        ("sin.rn.f32 %f1, %f2;", "not supported"),
        ("setp.ltu.s32 %p1, %x1, %x2;", "not supported"),
        ("setp.lt.b32 %p1, %x1, %x2;", "not supported"),
        ("atom.global.add.f16x2 %x1, [%a], %x2;", "not supported"),
        ("atom.global.min.f32 %f1, [%a], %f2;", "not supported"),
        ("atom.local.add.u32 %x1, [%a], 1;", "not supported"),
        ("ld.global.v4.u64 {%d1,%d2,%d3,%d4}, [%a];", "not supported"),
        ("ld.global.v2.u32 %x1, [%a];", "in braces"),
        ("ld.global.u64 %x1, [%a];", "64 bits, its register only 32"),
        ("st.const.u32 [%a], %x1;", "not supported"),
        ("st.param.u32 [k_a], %x1;", "cannot store to its parameters"),
        ("add.s32 %x1, %x2;", "takes 3 operands, found 2"),
        ("add.s32 %x1, %x2, %d1;", "`%d1` has 64 bits, the instruction takes 32"),
        ("add.s32 %d1, %x2, %x3;", "the result has 32 bits, its register 64"),
        ("add.s32 %x1, %x2, 0f3F800000;", "constant of the right type"),
        ("add.f32 %f1, %f2, 1;", "constant of the right type"),
        ("add.s32 5, %x2, %x3;", "a destination must be a register"),
        ("add.s32 %x99, %x2, %x3;", "not a declared register"),
        ("add.s32 %x01, %x2, %x3;", "not a declared register"),
        ("@%x1 add.s32 %x1, %x2, %x3;", "is not a predicate"),
        ("mov.u32 %x1, %nosuch;", "`%nosuch` is not declared"),
        ("mov.u32 %x1, %clock64;", "moved as 64 bits"),
        ("bra NOWHERE;", "label `NOWHERE` is not declared"),
        ("L: L: ret;", "label `L` is declared twice"),
        ("call nothing;", "`nothing` has no body"),
        ("shfl.up.b32 %x1, %x2, 1, 0;", "not supported"),
        ("cvt.s32.f32 %x1, %f1;", "needs .rni"),
        ("lop3.b32 %x1, %x2, %x3, %x4, 256;", "0 to 255"),
        (".reg .b128 %q;", "register type `.b128`"),
        (".reg .b32 %z; .reg .b32 %z;", "declared twice"),
        (".shared .align 4 .b8 s[50000];", "exceeds 49152 bytes"),
        (".local .align 4 .b8 s[600000];", "exceeds 524288 bytes"),
        (".local .align 3 .b8 s[6];", "power of two"),
        ("ld.global.u32 %x1, [%a;", "expected `]`"),
        ("add.s32 %x1, %x2, 18446744073709551616;", "at most 64 bits"),
        ("tex.3d.v4.f32.f32 {%f1,%f2,%f3,%f1}, [t, {%f1,%f2,%f3,%f1}];", "not supported"),
    ] {
        let error = parse(&kernel("", body)).expect_err(body);
        assert_eq!(error.line as usize, line + 1, "{body}: {error}");
        assert!(error.message.contains(says), "{body}: {error}");
        assert_eq!(error.message.lines().count(), 1, "{error}");
    }
}

#[test]
fn errors_of_modules_are_refused() {
    let module = |text: &str| parse(text).expect_err(text).message;
    assert!(module("").contains("`.version`"));
    assert!(module(".version 99.9\n.target sm_70\n").contains("newer than 9.5"));
    assert!(module(".version 7.8\n.target compute_70\n").contains("sm_NN"));
    assert!(module(".version 7.8\n.target sm_70\n.address_size 32\n").contains("64"));
    assert!(module(&format!("{HEAD}.entry k() {{ ret;")).contains("end of the text"));
    assert!(module(&format!("{HEAD}.entry k() {{ }} .entry k() {{ }}")).contains("defined twice"));
    assert!(
        module(&format!("{HEAD}.global .u32 g[1] = {{1, 2}};")).contains("more initial values")
    );
    assert!(module(&format!("{HEAD}.global .u64 g = h;")).contains("`h` is neither a variable"));
    let wrong_call = format!("{HEAD}.func f(.param .b32 a) {{ }} .entry k() {{ call f; }}");
    assert!(module(&wrong_call).contains("does not fit its parameters"));
    // The text may end with the NUL of the driver's interface.
    assert!(parse(&format!("{HEAD}.entry k() {{ ret; }}\0")).is_ok());
}
