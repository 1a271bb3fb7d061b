//! Every instruction form of the checked-in PTX has a test against plain Rust on random inputs. The
//! forms are read from the texts, so a kernel with a new form fails here until it has a row.
//!
//! Rows in `forms_*.rs` count; the rows here cover forms that are in none of them. `ELSEWHERE`
//! lists forms without an effect on a single thread (barriers, pauses, traps).

mod arithmetic;
mod memory;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use arithmetic::{DOUBLES, INTEGERS, OF_CALLS, SINGLES};
use memory::MEMORY;
use support::{
    Case, Random, as_longs, check_kernel, doubles, integer_inputs, longs, singles, snippet_kernel,
};

/// A form, a snippet that contains it, the register with its result, and the same in Rust.
type Row = (&'static str, &'static str, &'static str, fn(u64, u64, u64) -> u64);

/// Files with tables of rows that run on random inputs.
const TABLES: [&str; 4] = [
    include_str!("../forms_bits.rs"),
    include_str!("../forms_convert.rs"),
    include_str!("../forms_float.rs"),
    include_str!("../forms_int.rs"),
];

/// Forms with an effect on other threads or on the launch, and the file that tests them.
const ELSEWHERE: [(&str, &str); 4] = [
    ("bar.sync", include_str!("../divergence.rs")),
    ("nanosleep.u32", include_str!("../divergence.rs")),
    ("trap", include_str!("../faults.rs")),
    (WMMA, include_str!("main.rs")),
];

const WMMA: &str = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32";

/// Arguments of a kernel beside its inputs.
const WORD: u32 = 0x89AB_CDEF;
const SINGLE: f32 = -1.0e-39;
const DOUBLE: f64 = 1.0e-310;

/// Memory of every space, and functions to call.
const MODULE: &str = ".global .align 16 .b8 room[16384];
.func (.param .b32 back) less(.param .b32 low, .param .b64 wide)
{
.reg .b32 %r<3>; .reg .b64 %l;
ld.param.b32 %r0, [low];
ld.param.u64 %l, [wide];
cvt.u32.u64 %r1, %l;
sub.s32 %r2, %r0, %r1;
st.param.b32 [back], %r2;
ret;
}
";
const INSIDE: &str = ".shared .align 16 .b8 tile[16384]; .local .align 16 .b8 spot[16];
mov.u32 %x7, %tid.x; mul.wide.u32 %y7, %x7, 16;
";

fn kernel(snippet: &str, result: &str) -> String {
    let params = "(.param .u64 k_in, .param .u64 k_out, .param .u32 k_w, .param .f32 k_f, \
                  .param .f64 k_g)";
    snippet_kernel(&format!("{INSIDE}{snippet}"), result)
        .replacen(".visible", &format!("{MODULE}.visible"), 1)
        .replacen("(.param .u64 k_in, .param .u64 k_out)", params, 1)
}

fn check_rows(inputs: &[[u64; 3]], rows: &[Row]) {
    for &(form, snippet, result, reference) in rows {
        assert!(
            snippet.contains(&format!("{form} ")) || snippet.contains(&format!("{form};")),
            "{snippet} has no {form}"
        );
        let run = |chunk: &[[u64; 3]]| {
            let text = kernel(snippet, result);
            let case = Case::new(&text, "k").block(chunk.len() as u32);
            let case = case.buffer(0).buffer(1).arg(WORD.to_le_bytes());
            let case = case.arg(SINGLE.to_le_bytes()).arg(DOUBLE.to_le_bytes());
            let mut buffers = [longs(chunk.iter().flatten().copied()), vec![0; 8 * chunk.len()]];
            case.run(&mut buffers).unwrap_or_else(|fault| panic!("{snippet}: {fault}"));
            as_longs(&buffers[1])
        };
        check_kernel(inputs, (snippet, result, reference), run);
    }
}

fn w(value: u64) -> u64 {
    value & 0xFFFF_FFFF
}

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn g(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn single(value: f32) -> u64 {
    u64::from(value.to_bits())
}

/// Two results in one value.
fn both(a: u64, b: u64) -> u64 {
    a.wrapping_mul(3).wrapping_add(b)
}

#[test]
fn integer_and_control_forms() {
    check_rows(&integer_inputs(), &INTEGERS);
}

#[test]
fn float_forms() {
    check_rows(&singles(), &SINGLES);
    check_rows(&doubles(), &DOUBLES);
}

#[test]
fn memory_forms() {
    check_rows(&integer_inputs(), &MEMORY);
}

/// Equal elements in each matrix, small integers so that every sum is exact. (The unit tests of
/// `exec/tensor.rs` test the layout of unequal elements.)
#[test]
fn matrices_are_multiplied_and_added() {
    // Bits of 0 to 8 in half precision (IEEE 754 binary16).
    const HALVES: [u32; 9] = [0, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800];
    let eight = |name: &str| [name; 8].join(", ");
    let out = "%o0, %o1, %o2, %o3, %o4, %o5, %o6, %o7";
    let mut snippet = format!(
        ".reg .f32 %o<8>;\n{WMMA} {{{out}}}, {{{}}}, {{{}}}, {{{}}};\nmov.f32 %fd, %o0;\n",
        eight("%ra"),
        eight("%rb"),
        eight("%fc")
    );
    // All eight must be equal, or the result is NaN.
    for at in 1..8 {
        snippet += &format!("setp.neu.f32 %pe, %o{at}, %o0;\n@%pe mov.f32 %fd, 0f7FC00000;\n");
    }
    let text = snippet_kernel(&snippet, "%fd");
    let mut random = Random(17);
    for _ in 0..40 {
        let [a, b] = [0; 2].map(|_| (random.next() % 9) as usize);
        let c = (random.next() % 4096) as f32 - 2048.0;
        let two = |at: usize| u64::from(HALVES[at] << 16 | HALVES[at]);
        let inputs = [[two(a), two(b), single(c)]; 32];
        let mut buffers = [longs(inputs.into_iter().flatten()), vec![0; 8 * 32]];
        let case = Case::new(&text, "k").buffer(0).buffer(1);
        case.run(&mut buffers).expect("it runs");
        let want = single(16.0 * a as f32 * b as f32 + c);
        assert_eq!(as_longs(&buffers[1]), [want; 32], "16 * {a} * {b} + {c}");
    }
}

/// The instruction forms of a text, without labels, directives and guards.
fn forms(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    code.flat_map(|line| line.split(';')).filter_map(|statement| {
        let mut words = statement.trim_matches(|c: char| c.is_whitespace() || "{}".contains(c));
        if words.starts_with('@') {
            words = words.split_once(char::is_whitespace)?.1.trim_start();
        }
        let form = words.split_whitespace().next()?;
        let is_form = form.starts_with(|c: char| c.is_ascii_lowercase())
            && !form.ends_with(':')
            && !words.contains(".callprototype");
        // A continuation line of a call or a vector holds no form.
        is_form.then_some(form).filter(|form| {
            let letters = |c: char| c.is_ascii_alphanumeric() || "._:".contains(c);
            form.chars().all(letters) && !is_name_of_argument(form)
        })
    })
}

/// NVRTC writes the results, the arguments and the prototypes of a call on separate lines.
fn is_name_of_argument(word: &str) -> bool {
    ["retval", "param", "prototype_"].iter().any(|start| word.starts_with(start))
}

#[test]
fn every_checked_in_form_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../kernels/ptx");
    let mut used: BTreeMap<String, String> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        for form in forms(&text) {
            used.insert(form.to_owned(), file.clone().into_owned());
        }
    }
    assert!(used.len() > 90, "too few forms: {used:?}");
    let own = [&INTEGERS[..], &SINGLES, &DOUBLES, &MEMORY].concat();
    let own: Vec<&str> =
        own.iter().map(|row| row.0).chain(OF_CALLS.iter().map(|(form, _)| *form)).collect();
    for (form, snippet) in OF_CALLS {
        assert!(snippet.contains(&format!("{form} ")), "{form}");
    }
    let missing: Vec<_> = used
        .iter()
        .filter(|(form, _)| {
            let row = format!("\"{form} ");
            let is_elsewhere = |(name, text): &(&str, &str)| name == form && text.contains(name);
            !own.contains(&form.as_str())
                && !TABLES.iter().any(|table| table.contains(&row))
                && !ELSEWHERE.iter().any(is_elsewhere)
        })
        .collect();
    assert!(missing.is_empty(), "forms without a test: {missing:?}");
    let stale: Vec<_> = own.iter().filter(|form| !used.contains_key(**form)).collect();
    assert!(stale.is_empty(), "rows of forms that no kernel has: {stale:?}");
}
