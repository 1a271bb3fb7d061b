//! Rows of forms that compute, branch and call.

use super::{DOUBLE, Row, SINGLE, f, g, single, w};

/// Whole numbers, branches and calls.
pub const INTEGERS: [Row; 22] = [
    ("add.u64", "add.u64 %d, %a, %b;", "%d", |a, b, _| a.wrapping_add(b)),
    ("and.b64", "and.b64 %d, %a, %b;", "%d", |a, b, _| a & b),
    ("or.b32", "or.b32 %rd, %ra, %rb;", "%rd", |a, b, _| w(a | b)),
    ("xor.b32", "xor.b32 %rd, %ra, %rb;", "%rd", |a, b, _| w(a ^ b)),
    ("min.u64", "min.u64 %d, %a, %b;", "%d", |a, b, _| a.min(b)),
    ("sub.s32", "sub.s32 %rd, %ra, %rb;", "%rd", |a, b, _| w(a.wrapping_sub(b))),
    ("selp.u32", "selp.u32 %rd, %ra, %rb, %pc;", "%rd", |a, b, c| {
        w(if c & 1 == 1 { a } else { b })
    }),
    ("setp.eq.s64", "setp.eq.s64 %pd, %a, %b;", "%pd", |a, b, _| u64::from(a == b)),
    ("setp.ne.s64", "setp.ne.s64 %pd, %a, %b;", "%pd", |a, b, _| u64::from(a != b)),
    ("setp.ne.s32", "setp.ne.s32 %pd, %ra, %rb;", "%pd", |a, b, _| u64::from(w(a) != w(b))),
    ("setp.ge.u32", "setp.ge.u32 %pd, %ra, %rb;", "%pd", |a, b, _| u64::from(w(a) >= w(b))),
    ("setp.lt.u32", "setp.lt.u32 %pd, %ra, %rb;", "%pd", |a, b, _| u64::from(w(a) < w(b))),
    ("setp.le.u64", "setp.le.u64 %pd, %a, %b;", "%pd", |a, b, _| u64::from(a <= b)),
    ("setp.lt.u64", "setp.lt.u64 %pd, %a, %b;", "%pd", |a, b, _| u64::from(a < b)),
    ("cvt.rn.f32.u32", "cvt.rn.f32.u32 %fd, %ra;", "%fd", |a, _, _| single(a as u32 as f32)),
    ("cvt.rn.f64.u32", "cvt.rn.f64.u32 %dd, %ra;", "%dd", |a, _, _| f64::from(a as u32).to_bits()),
    ("mov.u64", "mov.u64 %d, %a;", "%d", |a, _, _| a),
    ("bra", "mov.u64 %d, %b; @%pa bra over; mov.u64 %d, %c;\nover:\n", "%d", |a, b, c| {
        if a & 1 == 1 { b } else { c }
    }),
    (
        "bra.uni",
        "@%pa bra odd; mov.u64 %d, %c; bra.uni met;\nodd:\nmov.u64 %d, %b;\nmet:\n",
        "%d",
        |a, b, c| if a & 1 == 1 { b } else { c },
    ),
    (
        "ret",
        "st.global.u64 [%out], %a; @!%pa bra stay; ret;\nstay:\nmov.u64 %d, %b;",
        "%d",
        |a, b, _| if a & 1 == 1 { a } else { b },
    ),
    ("call.uni", CALL_UNI, "%rd", |a, b, _| w(a.wrapping_sub(b))),
    ("call", CALL, "%rd", |a, b, _| w(a.wrapping_sub(b))),
];

const CALL_UNI: &str = "{ .param .b32 low; .param .b64 wide; .param .b32 back;
st.param.b32 [low+0], %ra; st.param.b64 [wide+0], %b;
call.uni (back), less, (low, wide);
ld.param.b32 %rd, [back+0]; }";

const CALL: &str = "mov.u64 %y0, less;
{ .param .b32 low; .param .b64 wide; .param .b32 back;
st.param.b32 [low+0], %ra; st.param.b64 [wide+0], %b;
shape : .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);
call (back), %y0, (low, wide), shape;
ld.param.b32 %rd, [back+0]; }";

/// Forms used inside the two calls.
pub const OF_CALLS: [(&str, &str); 3] =
    [("st.param.b32", CALL_UNI), ("st.param.b64", CALL_UNI), ("ld.param.b32", CALL_UNI)];

/// Single precision and its storage.
pub const SINGLES: [Row; 8] = [
    ("add.rn.f32", "add.rn.f32 %fd, %fa, %fb;", "%fd", |a, b, _| single(f(a) + f(b))),
    ("mul.rn.f32", "mul.rn.f32 %fd, %fa, %fb;", "%fd", |a, b, _| single(f(a) * f(b))),
    ("ld.param.f32", "ld.param.f32 %fd, [k_f];", "%fd", |_, _, _| single(SINGLE)),
    (
        "st.global.f32",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.f32 [%y0+4], %fa;
         ld.global.u32 %rd, [%y0+4];",
        "%rd",
        |a, _, _| w(a),
    ),
    (
        "ld.global.f32",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u32 [%y0+8], %ra;
         ld.global.f32 %fd, [%y0+8];",
        "%fd",
        |a, _, _| w(a),
    ),
    ("ld.global.nc.f32", "ld.global.nc.f32 %fd, [%in+8];", "%fd", |_, b, _| w(b)),
    (
        "st.shared.f32",
        "mov.u64 %y0, tile; add.s64 %y0, %y0, %y7; st.shared.f32 [%y0+4], %fa;
         ld.shared.u32 %rd, [%y0+4];",
        "%rd",
        |a, _, _| w(a),
    ),
    (
        "ld.shared.f32",
        "mov.u64 %y0, tile; add.s64 %y0, %y0, %y7; st.shared.u32 [%y0+12], %ra;
         ld.shared.f32 %fd, [%y0+12];",
        "%fd",
        |a, _, _| w(a),
    ),
];

pub const DOUBLES: [Row; 3] = [
    ("add.rn.f64", "add.rn.f64 %dd, %da, %db;", "%dd", |a, b, _| (g(a) + g(b)).to_bits()),
    ("ld.param.f64", "ld.param.f64 %dd, [k_g];", "%dd", |_, _, _| DOUBLE.to_bits()),
    (
        "st.global.f64",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.f64 [%y0+8], %da;
         ld.global.u64 %d, [%y0+8];",
        "%d",
        |a, _, _| a,
    ),
];
