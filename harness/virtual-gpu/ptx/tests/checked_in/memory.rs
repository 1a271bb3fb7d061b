//! Rows of forms that load and store.

use super::{Row, WORD, both, w};

/// Loads and stores of words and vectors, each with the form under test.
pub const MEMORY: [Row; 30] = [
    ("ld.param.u32", "ld.param.u32 %rd, [k_w];", "%rd", |_, _, _| u64::from(WORD)),
    (
        "ld.param.u64",
        "ld.param.u64 %y0, [k_in]; mul.wide.u32 %y1, %x7, 24; add.s64 %y0, %y0, %y1;
         ld.global.u64 %d, [%y0+16];",
        "%d",
        |_, _, c| c,
    ),
    ("ld.global.u32", "ld.global.u32 %rd, [%in+12];", "%rd", |_, b, _| b >> 32),
    ("ld.global.cg.u32", "ld.global.cg.u32 %rd, [%in+8];", "%rd", |_, b, _| w(b)),
    ("ld.volatile.global.u32", "ld.volatile.global.u32 %rd, [%in+4];", "%rd", |a, _, _| a >> 32),
    ("st.global.u32", "st.global.u32 [%in+4], %rc; ld.global.u64 %d, [%in];", "%d", |a, _, c| {
        w(a) | c << 32
    }),
    ("st.global.u64", "st.global.u64 [%in+8], %c; ld.global.u64 %d, [%in+8];", "%d", |_, _, c| c),
    (
        "ld.global.ca.v2.u64",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u64 [%y0], %a;
         st.global.u64 [%y0+8], %b; ld.global.ca.v2.u64 {%y1, %y2}, [%y0];
         mad.lo.s64 %d, %y1, 3, %y2;",
        "%d",
        |a, b, _| both(a, b),
    ),
    (
        "ld.global.cg.v2.u64",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u64 [%y0], %b;
         st.global.u64 [%y0+8], %c; ld.global.cg.v2.u64 {%y1, %y2}, [%y0];
         mad.lo.s64 %d, %y1, 3, %y2;",
        "%d",
        |_, b, c| both(b, c),
    ),
    (
        "ld.global.nc.v2.u64",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u64 [%y0], %c;
         st.global.u64 [%y0+8], %a; ld.global.nc.v2.u64 {%y1, %y2}, [%y0];
         mad.lo.s64 %d, %y1, 3, %y2;",
        "%d",
        |a, _, c| both(c, a),
    ),
    (
        "st.global.v2.u64",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.v2.u64 [%y0], {%a, %c};
         ld.global.u64 %y1, [%y0]; ld.global.u64 %y2, [%y0+8]; mad.lo.s64 %d, %y1, 3, %y2;",
        "%d",
        |a, _, c| both(a, c),
    ),
    (
        "ld.global.nc.v4.u32",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u64 [%y0], %a;
         st.global.u64 [%y0+8], %b; ld.global.nc.v4.u32 {%x0, %x1, %x2, %x3}, [%y0];
         mov.b64 %y1, {%x0, %x1}; mov.b64 %y2, {%x2, %x3}; mad.lo.s64 %d, %y1, 3, %y2;",
        "%d",
        |a, b, _| both(a, b),
    ),
    (
        "ld.global.nc.v4.f32",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u64 [%y0], %a;
         st.global.u64 [%y0+8], %b; ld.global.nc.v4.f32 {%fa, %fb, %fc, %fd}, [%y0];
         mov.b32 %x0, %fa; mov.b32 %x1, %fb; mov.b32 %x2, %fc; mov.b32 %x3, %fd;
         mov.b64 %y1, {%x0, %x1}; mov.b64 %y2, {%x2, %x3}; mad.lo.s64 %d, %y1, 3, %y2;",
        "%d",
        |a, b, _| both(a, b),
    ),
    (
        "st.global.v4.u32",
        "mov.b64 {%x0, %x1}, %a; mov.b64 {%x2, %x3}, %b; mov.u64 %y0, room;
         add.s64 %y0, %y0, %y7; st.global.v4.u32 [%y0], {%x0, %x1, %x2, %x3};
         ld.global.u64 %y1, [%y0]; ld.global.u64 %y2, [%y0+8]; mad.lo.s64 %d, %y1, 3, %y2;",
        "%d",
        |a, b, _| both(a, b),
    ),
    ("st.shared.u32", SHARED_WORD, "%rd", |a, b, _| w(a ^ b)),
    ("ld.shared.u32", SHARED_WORD, "%rd", |a, b, _| w(a ^ b)),
    ("st.shared.v2.u64", SHARED_PAIR, "%d", |a, b, _| both(a, b)),
    ("ld.shared.v2.u64", SHARED_PAIR, "%d", |a, b, _| both(a, b)),
    ("st.local.u32", LOCAL_WORD, "%rd", |a, b, _| w(a ^ b)),
    ("ld.local.u32", LOCAL_WORD, "%rd", |a, b, _| w(a ^ b)),
    ("st.local.v2.u32", LOCAL_PAIR, "%d", |a, b, _| w(b) | w(a) << 32),
    ("ld.local.v2.u32", LOCAL_PAIR, "%d", |a, b, _| w(b) | w(a) << 32),
    (
        "atom.add.u32",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u32 [%y0], %ra;
         atom.add.u32 %x0, [%y0], %rb; ld.global.u32 %x1, [%y0]; mov.b64 %d, {%x0, %x1};",
        "%d",
        |a, b, _| w(a) | w(a.wrapping_add(b)) << 32,
    ),
    (
        "atom.global.add.u32",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u32 [%y0+4], %rb;
         atom.global.add.u32 %x0, [%y0+4], %ra; ld.global.u32 %x1, [%y0+4];
         mov.b64 %d, {%x0, %x1};",
        "%d",
        |a, b, _| w(b) | w(a.wrapping_add(b)) << 32,
    ),
    ("cvta.global.u64", CVTA_GLOBAL, "%d", |a, b, _| both(a, b)),
    ("cvta.to.global.u64", CVTA_GLOBAL, "%d", |a, b, _| both(a, b)),
    (
        "cvta.local.u64",
        "mov.u64 %y0, spot; st.local.u32 [%y0+4], %ra; cvta.local.u64 %y1, %y0;
         ld.u32 %rd, [%y1+4];",
        "%rd",
        |a, _, _| w(a),
    ),
    // Neighbouring bytes keep their values.
    (
        "st.global.u32",
        "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; st.global.u64 [%y0], %a;
         st.global.u32 [%y0+4], %rb; ld.global.u64 %d, [%y0];",
        "%d",
        |a, b, _| w(a) | b << 32,
    ),
    (
        "ld.global.u32",
        "@%pa ld.global.u32 %rd, [%in+8];",
        "%rd",
        |a, b, _| if a & 1 == 1 { w(b) } else { 0 },
    ),
    ("st.global.u64", "@%pa st.global.u64 [%in], %b; ld.global.u64 %d, [%in];", "%d", |a, b, _| {
        if a & 1 == 1 { b } else { a }
    }),
];

const SHARED_WORD: &str = "mov.u64 %y0, tile; add.s64 %y0, %y0, %y7; st.shared.u32 [%y0+8], %ra;
st.shared.u32 [%y0+12], %rb; ld.shared.u32 %x0, [%y0+8]; ld.shared.u32 %x1, [%y0+12];
xor.b32 %rd, %x0, %x1;";

const SHARED_PAIR: &str = "mov.u64 %y0, tile; add.s64 %y0, %y0, %y7;
st.shared.v2.u64 [%y0], {%a, %b}; ld.shared.v2.u64 {%y1, %y2}, [%y0];
mad.lo.s64 %d, %y1, 3, %y2;";

const LOCAL_WORD: &str = "mov.u64 %y0, spot; st.local.u32 [%y0+8], %ra;
st.local.u32 [%y0+12], %rb; ld.local.u32 %x0, [%y0+8]; ld.local.u32 %x1, [%y0+12];
xor.b32 %rd, %x0, %x1;";

const LOCAL_PAIR: &str = "mov.u64 %y0, spot; st.local.v2.u32 [%y0+8], {%ra, %rb};
ld.local.v2.u32 {%x1, %x0}, [%y0+8]; mov.b64 %d, {%x0, %x1};";

const CVTA_GLOBAL: &str = "mov.u64 %y0, room; add.s64 %y0, %y0, %y7; cvta.global.u64 %y1, %y0;
st.u64 [%y1], %a; st.u64 [%y1+8], %b; cvta.to.global.u64 %y2, %y1;
ld.global.u64 %y3, [%y2]; ld.global.u64 %y4, [%y2+8]; mad.lo.s64 %d, %y3, 3, %y4;";
