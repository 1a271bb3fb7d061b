//! Fuzzing: parsing a broken text never panics, and running one that parses never panics and never
//! accesses unmapped memory.

mod support;

use std::sync::Arc;

use gpubench_virtual_gpu_ptx::{
    CycleModel, DeviceMemory, Launch, Limits, Module, Program, execute, parse,
};
use proptest::prelude::*;
use support::{PlainTimer, Random, address};

/// Output of NVRTC 11.8 for `forms.cu`, which uses every construct of compiled kernels.
const FORMS: &str = include_str!("support/forms.ptx");

const GUARD: u8 = 0xA5;
const GUARD_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 4096;
const CASES: u32 = 400;

/// Runs every kernel of a module under a small budget; true when any of them ends.
fn run_all(module: Module) -> bool {
    let module = Arc::new(module);
    let mut host = vec![GUARD; 2 * GUARD_BYTES + BUFFER_BYTES];
    host[GUARD_BYTES..GUARD_BYTES + BUFFER_BYTES].fill(0);
    // All symbols share the buffer, since their contents do not matter.
    let addresses = vec![address(0); module.symbols.len()];
    let Ok(program) = Program::bind(Arc::clone(&module), addresses) else { return false };
    let mut ended = false;
    for kernel in &module.kernels {
        let params: Vec<u8> = (0..600).flat_map(|_| address(0).to_le_bytes()).collect();
        let model = CycleModel::default();
        let launch = Launch {
            kernel: &kernel.name,
            grid: [2, 1, 1],
            block: kernel.required_threads.unwrap_or([33, 1, 1]),
            dynamic_shared_bytes: 64,
            params: &params,
            block_smid: &|_| 0,
            block_start_ns: &|_| u64::MAX / 2,
            sm_count: 1,
            limits: Limits { warp_instructions: 2_000, resident_blocks: 2, ..Limits::default() },
            model: &model,
        };
        let middle = &mut host[GUARD_BYTES..GUARD_BYTES + BUFFER_BYTES];
        let mut memory = DeviceMemory::new();
        memory.map(address(0), middle, true).expect("maps");
        let done = execute(&program, &launch, 0..2, &mut memory, &mut PlainTimer(u64::MAX / 4));
        ended |= done.is_ok();
    }
    assert!(host[..GUARD_BYTES].iter().all(|byte| *byte == GUARD), "wrote below the buffer");
    let above = &host[GUARD_BYTES + BUFFER_BYTES..];
    assert!(above.iter().all(|byte| *byte == GUARD), "wrote above the buffer");
    ended
}

/// Start of the first kernel, after declarations and variables.
fn head_end() -> usize {
    FORMS.find("\n.visible .entry").unwrap_or(0)
}

/// Definitions that start with `start`, each up to its closing brace.
fn definitions(start: &str) -> Vec<&'static str> {
    let rest = &FORMS[head_end()..];
    let body = |at: usize| rest[at..].find("\n}").map(|end| &rest[at..at + end + 2]);
    rest.match_indices(start).filter_map(|(at, _)| body(at)).collect()
}

/// One kernel of the corpus with all functions and module-scope declarations.
fn one_kernel(pick: usize) -> String {
    let kernels = definitions("\n.visible .entry");
    let functions = definitions("\n.func").concat();
    format!("{}{}\n{functions}\n", &FORMS[..head_end()], kernels[pick % kernels.len()])
}

/// A mutation of the words of a text.
#[derive(Debug, Clone)]
enum Change {
    Drop(usize),
    Double(usize),
    Swap(usize, usize),
    Number(usize, u64),
    Byte(usize, u8),
    DropLine(usize),
    SwapLines(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>();
    let edge = prop_oneof![
        Just(0u64),
        Just(1),
        Just(31),
        Just(64),
        Just(4096),
        Just(u64::from(u32::MAX)),
        Just(1 << 40),
        Just(i64::MAX as u64),
        Just(u64::MAX),
        any::<u64>(),
    ];
    prop_oneof![
        at.prop_map(Change::Drop),
        any::<usize>().prop_map(Change::Double),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Change::Swap(a, b)),
        (any::<usize>(), edge).prop_map(|(a, n)| Change::Number(a, n)),
        (any::<usize>(), any::<u8>()).prop_map(|(a, b)| Change::Byte(a, b)),
        any::<usize>().prop_map(Change::DropLine),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Change::SwapLines(a, b)),
    ]
}

/// Words with their trailing blanks, so that joining restores the text.
fn pieces(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let kind = |c: char| (c.is_ascii_alphanumeric() || "._$%".contains(c), c.is_whitespace());
    let mut last = None;
    for c in text.chars() {
        let same = last == Some(kind(c)) && (kind(c).0 || kind(c).1);
        match all.last_mut() {
            Some(piece) if same => piece.push(c),
            _ => all.push(c.to_string()),
        }
        last = Some(kind(c));
    }
    all
}

fn apply(text: String, change: &Change) -> String {
    let mut all = pieces(&text);
    let n = all.len().max(1);
    let mut lines: Vec<&str> = text.lines().collect();
    let rows = lines.len().max(1);
    match *change {
        _ if all.is_empty() => return text,
        Change::Drop(at) => drop(all.remove(at % n)),
        Change::Double(at) => all.insert(at % n, all[at % n].clone()),
        Change::Swap(a, b) => all.swap(a % n, b % n),
        Change::Number(at, value) => {
            let numbers: Vec<usize> =
                (0..n).filter(|at| all[*at].starts_with(|c: char| c.is_ascii_digit())).collect();
            if let Some(found) = numbers.get(at % numbers.len().max(1)) {
                all[*found] = value.to_string();
            }
        }
        Change::Byte(at, byte) => {
            let mut bytes = text.clone().into_bytes();
            let len = bytes.len();
            bytes[at % len] = byte;
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        Change::DropLine(at) => {
            lines.remove(at % rows);
            return lines.join("\n");
        }
        Change::SwapLines(a, b) => {
            lines.swap(a % rows, b % rows);
            return lines.join("\n");
        }
    }
    all.concat()
}

#[test]
fn the_corpus_parses_and_runs() {
    let module = parse(FORMS).unwrap_or_else(|error| panic!("{error}"));
    assert!(module.kernels.len() >= 25);
    assert!(run_all(module.clone()));
    for pick in 0..module.kernels.len() {
        parse(&one_kernel(pick)).unwrap_or_else(|error| panic!("{error} in {}", one_kernel(pick)));
    }
}

#[test]
fn many_mutated_texts_still_parse_and_run() {
    let mut random = Random(3);
    let (mut read, mut ran) = (0, 0);
    for pick in 0..200 {
        let (at, other) = (random.next() as usize, random.next() as usize);
        let changes =
            [Change::DropLine(at), Change::Number(other, 64), Change::SwapLines(at, other)];
        let text = apply(one_kernel(pick), &changes[pick % 3]);
        if let Ok(module) = parse(&text) {
            read += 1;
            ran += usize::from(run_all(module));
        }
    }
    assert!(read >= 50 && ran >= 20, "{read} of 200 read, {ran} ran");
}

/// Failures are printed, not stored beside the sources.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_text_never_panics(text in "\\PC{0,200}") {
        let _ = parse(&text).is_ok();
    }

    #[test]
    fn random_words_never_panic(
        words in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
    ) {
        let pool = pieces(FORMS);
        let body: String = words.iter().map(|at| at.get(&pool).as_str()).collect();
        let text = format!(".version 7.8\n.target sm_70\n.visible .entry k(){{\n{body}\n}}");
        if let Ok(module) = parse(&text) {
            run_all(module);
        }
    }

    #[test]
    fn broken_kernels_never_panic(
        pick in any::<usize>(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let text = changes.iter().fold(one_kernel(pick), apply);
        if let Ok(module) = parse(&text) {
            run_all(module);
        }
    }
}
