//! Calls every exported function with null, invalid and freed handles and with numbers from 0 to
//! the maximum. Each call must return a documented code.
//!
//! The functions are parsed from the sources, so a new function is covered automatically. Host
//! pointers are null or point to as much memory as the numbers in the call can require; other host
//! pointers are outside the contract. `abi_fuzz` covers valid device memory and filled structures.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

mod fuzz_support;

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::io::Write;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::cuda::layout::IpcHandle;
use gpubench_virtual_gpu_driver::code::describe;
use gpubench_virtual_gpu_driver::handles::Handle;

use fuzz_support::{Dice, context, copy_kernel, joined};

/// Number of calls of each function.
const CALLS: usize = 60;
const FUNCTIONS_PER_CONTEXT: usize = 8;
/// Largest number for functions with a host pointer, and the size of that memory: as many of the
/// largest structure.
const COUNT: u64 = 64;
const BUFFER: usize = 1 << 16;
/// Words passed in registers and on the stack; no function takes more.
const ARGUMENTS: usize = 14;

/// A type larger than a word, and the number of calls with each of its values.
const WIDE: &str = "IpcHandle";
const WIDE_CALLS: usize = 20;

/// Functions that allocate memory outside a context, and the functions that free it.
const UNDO: [(&str, &str); 4] = [
    ("cuCtxCreate", "cuCtxDestroy_v2"),
    ("cuMemCreate", "cuMemRelease"),
    ("cuMemAllocHost", "cuMemFreeHost"),
    ("cuMemHostAlloc", "cuMemFreeHost"),
];

/// Last documented code of NVML, except 999.
const NVML_LAST: i32 = 30;
const NVML_UNKNOWN: i32 = 999;

/// A function: its name, the types of its arguments, and whether it returns a code.
struct Signature {
    name: String,
    arguments: Vec<String>,
    answers: bool,
}

/// Every exported function that the sources in a folder define; one row can name several.
fn signatures(folder: &Path, found: &mut Vec<Signature>) {
    for entry in std::fs::read_dir(folder).expect("sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            signatures(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for after in text.split("fn ").skip(1) {
            let Some((names, rest)) = after.split_once('(') else { continue };
            let (inside, behind) = closed(rest);
            let answer = behind.trim_start().strip_prefix("->").unwrap_or("");
            for name in names.split(',').map(str::trim).filter(|name| is_entry(name)) {
                found.push(Signature {
                    name: name.to_owned(),
                    arguments: types(inside),
                    answers: !answer.trim_start().starts_with('*'),
                });
            }
        }
    }
}

fn is_entry(word: &str) -> bool {
    let rest = word.strip_prefix("cu").or(word.strip_prefix("nvml"));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Splits a text at the parenthesis that closes the first open one.
fn closed(text: &str) -> (&str, &str) {
    let mut depth = 1;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    let end = end.unwrap_or(text.len());
    (&text[..end], text.get(end + 1..).unwrap_or(""))
}

fn types(list: &str) -> Vec<String> {
    let mut depth = 0;
    let parts = list.split(|c| {
        depth += i32::from("([<".contains(c)) - i32::from(")]>".contains(c));
        c == ',' && depth == 0
    });
    parts
        .filter_map(|part| part.split_once(':'))
        .map(|(_, of)| of.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// Functions for which an address outside device memory is a host address.
const UNIFIED: [&str; 4] = ["cuMemcpy", "cuMemcpy_ptds", "cuMemcpyAsync", "cuMemcpyAsync_ptsz"];

struct Draw {
    dice: Dice,
    /// Handles of live objects, of freed ones, and invalid ones.
    handles: Vec<u64>,
    /// Memory, zeroed before each call, since a call can leave a pointer in it.
    buffers: Vec<Vec<u64>>,
    strings: [CString; 2],
}

extern "C" fn nothing() -> usize {
    0
}

impl Draw {
    /// An argument of a type; with `far`, numbers can be huge and plain memory is null.
    fn argument(&mut self, of: &str, at: usize, far: bool) -> u64 {
        const NUMBERS: [u64; 12] =
            [0, 1, 2, 3, 4, 7, COUNT, 1 << 20, 1 << 31, u32::MAX as u64, 1 << 45, u64::MAX];
        match of {
            "*const c_char" | "*const std::ffi::c_char" => {
                let string = self.dice.of(&[0, 1, 2]);
                self.strings.get(string).map_or(0, |s| s.as_ptr() as u64)
            }
            // The first slot receives a result. A list behind it would need as many entries as a
            // number in the call says.
            _ if of.starts_with('*') => {
                let is_null = far && at > 0 || self.dice.of(&[true, false, false]);
                self.buffers[at].fill(0);
                if is_null { 0 } else { self.buffers[at].as_mut_ptr() as u64 }
            }
            _ if of.starts_with("Option<") => self.dice.of(&[0, nothing as *const () as u64]),
            _ if of.contains("Handle") => {
                let wild = self.dice.roll() & 0xFFFF_FFF0;
                let known = self.dice.roll() as usize % self.handles.len();
                self.dice.of(&[0, 1, wild, self.handles[known], self.handles[known]])
            }
            _ if far => self.dice.of(&NUMBERS),
            _ => self.dice.roll() % (COUNT + 1),
        }
    }
}

fn address(name: &str) -> *mut c_void {
    let name = CString::new(name).expect("a name");
    // SAFETY: a C string; the default handle searches the program and its libraries.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Calls with as many words as registers and stack hold; a function reads the ones it needs.
///
/// # Safety
/// The first words match the function at `at`, none of them wider than a register.
unsafe fn call(at: *mut c_void, w: &[u64; ARGUMENTS]) -> i32 {
    type Words = unsafe extern "C" fn(
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
    ) -> i32;
    // SAFETY: by the caller's contract; the calling convention ignores unused words.
    unsafe {
        let function = std::mem::transmute::<*mut c_void, Words>(at);
        function(
            w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13],
        )
    }
}

/// Values of a 64-byte handle: zeros, ones, random, that of existing memory, and that with one bit
/// changed.
fn wide_handles(dice: &mut Dice) -> [[u8; 64]; 5] {
    let random: [u8; 64] = std::array::from_fn(|_| dice.roll() as u8);
    let (mut memory, mut own) = (0, IpcHandle([0; 64]));
    // SAFETY: valid pointers.
    unsafe {
        assert_eq!(cuMemAlloc_v2(&raw mut memory, 1 << 20), 0);
        assert_eq!(cuIpcGetMemHandle(&raw mut own, memory), 0);
    }
    let mut changed = own.0;
    changed[(dice.roll() % 64) as usize] ^= 1 << (dice.roll() % 8);
    [[0; 64], [0xFF; 64], random, own.0, changed]
}

/// Calls a function that takes a handle by value with every value.
fn call_wide(function: &Signature, draw: &mut Draw) {
    let at = address(&function.name);
    assert!(!at.is_null(), "{} is not exported", function.name);
    let place = draw.buffers[0].as_mut_ptr() as u64;
    for _ in 0..WIDE_CALLS {
        for bytes in wide_handles(&mut draw.dice) {
            for (to, flags) in [(place, 1), (place, 0), (0, 1), (place, u64::MAX)] {
                let shape: Vec<&str> = function.arguments.iter().map(String::as_str).collect();
                // SAFETY: the function takes these arguments; the pointer is null or valid.
                let code = unsafe {
                    match shape[..] {
                        [_, WIDE, "c_uint"] => {
                            type Function = unsafe extern "C" fn(u64, IpcHandle, u64) -> i32;
                            let call = std::mem::transmute::<*mut c_void, Function>(at);
                            call(to, IpcHandle(bytes), flags)
                        }
                        [_, WIDE] => {
                            type Function = unsafe extern "C" fn(u64, IpcHandle) -> i32;
                            let call = std::mem::transmute::<*mut c_void, Function>(at);
                            call(to, IpcHandle(bytes))
                        }
                        _ => panic!("{}: no call of the shape {shape:?}", function.name),
                    }
                };
                let name = &function.name;
                assert!(is_named(function, code), "{name} {bytes:x?} answers {code}");
                // Opening an invalid handle, or one's own, must fail.
                assert_ne!(code, 0, "{name} {bytes:x?}");
            }
        }
    }
}

/// A new context with objects of each kind, half of them freed. The previous context is destroyed.
fn begin(before: Option<u64>) -> Vec<u64> {
    let mut handles = Vec::new();
    // SAFETY: every pointer is valid, and every handle is new.
    unsafe {
        if let Some(before) = before {
            // A call may have destroyed it.
            let _ = cuCtxDestroy_v2(before as Handle);
        }
        let context = context();
        for is_kept in [true, false] {
            let (mut stream, mut event, mut graph): (Handle, Handle, Handle) =
                (null_mut(), null_mut(), null_mut());
            let (module, function) = copy_kernel();
            assert_eq!(cuStreamCreate(&raw mut stream, 0), 0);
            assert_eq!(cuEventCreate(&raw mut event, 0), 0);
            assert_eq!(cuGraphCreate(&raw mut graph, 0), 0);
            handles.extend([stream, event, graph, module, function].map(|h| h as u64));
            if !is_kept {
                assert_eq!(cuStreamDestroy_v2(stream), 0);
                assert_eq!(cuEventDestroy_v2(event), 0);
                assert_eq!(cuGraphDestroy(graph), 0);
                assert_eq!(cuModuleUnload(module), 0);
            }
        }
        handles.push(context as u64);
    }
    handles
}

/// Number of panics; the interface turns each into a documented code.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Whether a code is documented and does not come from a panic.
fn is_named(function: &Signature, code: i32) -> bool {
    if PANICS.load(Ordering::Relaxed) > 0 {
        return false;
    }
    if !function.answers {
        return true;
    }
    if function.name.starts_with("cu") {
        return describe(code).is_some();
    }
    (0..=NVML_LAST).contains(&code) || code == NVML_UNKNOWN
}

/// The calls that clients make, with the code of those that are only refused.
fn listed() -> BTreeMap<&'static str, Option<i32>> {
    let (mut calls, mut refused) = (BTreeMap::new(), None);
    for line in include_str!("../src/calls.txt").lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with(' ') {
            calls.extend(line.split_whitespace().map(|name| (name, refused)));
        } else {
            refused = line.split(' ').next_back().and_then(|word| word.parse().ok());
        }
    }
    calls
}

#[test]
fn the_calls_of_listed_clients_are_answered_and_no_others_are_written() {
    let (listed, mut functions) = (listed(), Vec::new());
    signatures(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut functions);
    let plain = |name: &str| name.trim_end_matches("_ptsz").trim_end_matches("_ptds").to_owned();
    for function in &functions {
        let known = listed.contains_key(plain(&function.name).as_str());
        assert!(known, "no client in src/calls.txt makes the call {}", function.name);
    }
    assert!(listed.len() > 200, "only {} calls", listed.len());
    for (name, refused) in listed {
        let at = address(name);
        assert!(!at.is_null(), "{name} is not exported");
        let is_written = functions.iter().any(|function| function.name == name);
        assert_eq!(is_written, refused.is_none(), "{name}: is it answered or refused?");
        if let Some(code) = refused {
            // SAFETY: a stub reads no argument.
            assert_eq!(unsafe { call(at, &[0; ARGUMENTS]) }, code, "{name}");
        }
    }
}

#[test]
fn every_function_returns_a_documented_code() {
    let (_dir, _device) = joined("hopper");
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        before(info);
    }));
    let mut functions = Vec::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    signatures(&sources, &mut functions);
    functions.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(functions.len() > 240, "only {} functions", functions.len());
    let mut draw = Draw {
        dice: Dice::new(),
        handles: Vec::new(),
        buffers: vec![vec![0; BUFFER / 8]; ARGUMENTS],
        strings: [c"".to_owned(), c"/no/such/place".to_owned()],
    };
    let mut wide = 0;
    for (index, function) in functions.iter().enumerate() {
        if function.arguments.iter().any(|of| of == WIDE) {
            draw.handles = begin(draw.handles.last().copied());
            call_wide(function, &mut draw);
            wide += 1;
            continue;
        }
        let at = address(&function.name);
        assert!(!at.is_null(), "{} is not exported", function.name);
        assert!(function.arguments.len() <= ARGUMENTS, "{}", function.name);
        // Bypasses the output capture of the test, which a crash would lose.
        let _ = writeln!(std::io::stderr(), "{}", function.name);
        // NVML goes last, since it can take away the device that contexts need.
        if function.name.starts_with("cu") && index % FUNCTIONS_PER_CONTEXT == 0 {
            draw.handles = begin(draw.handles.last().copied());
        }
        for _ in 0..CALLS {
            let far = draw.dice.of(&[true, false]);
            let mut words = [0; ARGUMENTS];
            for (at, of) in function.arguments.iter().enumerate() {
                let is_unified = UNIFIED.contains(&function.name.as_str());
                let of = if is_unified && of == "u64" { "*mut u64" } else { of };
                words[at] = draw.argument(of, at, far && !is_unified);
            }
            // SAFETY: words of the right kinds; pointers are null or point to enough memory.
            let code = unsafe { call(at, &words) };
            let undo = UNDO.iter().find(|(start, _)| function.name.starts_with(start));
            if let Some((_, undo)) = undo.filter(|_| code == 0) {
                let mut made = [0; ARGUMENTS];
                made[0] = draw.buffers[0][0];
                // SAFETY: a new handle.
                assert_eq!(unsafe { call(address(undo), &made) }, 0, "{undo}");
            }
            let given = &words[..function.arguments.len()];
            let name = &function.name;
            assert!(is_named(function, code), "{name}{given:x?} answers {code}");
        }
    }
    assert!(wide >= 2, "only {wide} functions with a handle by value");
}
