//! Runs a kernel text over plain buffers, and short instruction snippets over lanes.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::sync::Arc;

use gpubench_virtual_gpu_ptx::{
    CycleModel, DeviceMemory, Execution, KernelFault, Launch, Limits, Module, Program, Timer, parse,
};

/// A clock that shows the active time plus a fixed start.
pub struct PlainTimer(pub u64);

impl Timer for PlainTimer {
    fn globaltimer_ns(&mut self, active_ns: u64) -> u64 {
        self.0 + active_ns
    }
}

/// Device address of buffer `index`.
pub fn address(index: usize) -> u64 {
    0x7F00_0000_0000 + index as u64 * 0x1_0000_0000
}

/// A launch under construction.
pub struct Case<'c> {
    pub text: &'c str,
    pub kernel: &'c str,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared_bytes: u32,
    pub params: Vec<u8>,
    pub limits: Limits,
}

impl<'c> Case<'c> {
    pub fn new(text: &'c str, kernel: &'c str) -> Self {
        Self {
            text,
            kernel,
            grid: [1; 3],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            params: Vec::new(),
            limits: Limits { warp_instructions: 5_000_000, ..Limits::default() },
        }
    }

    pub fn grid(mut self, x: u32) -> Self {
        self.grid[0] = x;
        self
    }

    pub fn block(mut self, x: u32) -> Self {
        self.block[0] = x;
        self
    }

    /// Appends a naturally aligned argument.
    pub fn arg<const N: usize>(mut self, bytes: [u8; N]) -> Self {
        while !self.params.len().is_multiple_of(N) {
            self.params.push(0);
        }
        self.params.extend(bytes);
        self
    }

    /// Appends the address of buffer `index`.
    pub fn buffer(self, index: usize) -> Self {
        self.arg(address(index).to_le_bytes())
    }

    /// Runs all blocks over `buffers`; symbols of the module follow them in memory.
    pub fn run(&self, buffers: &mut [Vec<u8>]) -> Result<Execution, Box<KernelFault>> {
        let module = Arc::new(parse(self.text).expect("the text parses"));
        let count = module.symbols.len();
        let addresses: Vec<u64> = (0..count).map(|index| address(100 + index)).collect();
        let program = Program::bind(Arc::clone(&module), addresses.clone()).expect("binds");
        let mut symbols = symbol_memory(&module, &program);
        let mut memory = DeviceMemory::new();
        for (index, bytes) in buffers.iter_mut().enumerate() {
            memory.map(address(index), bytes, true).expect("maps");
        }
        for (bytes, base) in symbols.iter_mut().zip(addresses) {
            memory.map(base, bytes, true).expect("maps");
        }
        let model = CycleModel::default();
        let launch = Launch {
            kernel: self.kernel,
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            params: &self.params,
            block_smid: &|block| block as u32 % 7,
            block_start_ns: &|block| block * 1000,
            sm_count: 7,
            limits: self.limits.clone(),
            model: &model,
        };
        let blocks = 0..self.grid.iter().map(|side| u64::from(*side)).product();
        gpubench_virtual_gpu_ptx::execute(
            &program,
            &launch,
            blocks,
            &mut memory,
            &mut PlainTimer(1_000_000),
        )
    }
}

fn symbol_memory(module: &Module, program: &Program) -> Vec<Vec<u8>> {
    let symbols = module.symbols.iter().enumerate();
    let filled = symbols.map(|(index, symbol)| {
        let mut bytes = program.symbol_bytes(index);
        bytes.resize((symbol.bytes as usize).max(1), 0);
        bytes
    });
    filled.collect()
}

/// The bytes of 32-bit words.
pub fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The bytes of 64-bit words.
pub fn longs(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    values.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Memory as 32-bit words.
pub fn as_words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Memory as 64-bit words.
pub fn as_longs(bytes: &[u8]) -> Vec<u64> {
    let long = |b: &[u8]| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
    bytes.chunks_exact(8).map(long).collect()
}

/// The first lines of every text.
pub const HEAD: &str = ".version 7.8\n.target sm_70\n.address_size 64\n";

/// A kernel that loads three 64-bit inputs per thread, runs `snippet` and stores `%d`.
///
/// Inputs stand in `%a %b %c` (64 bits), `%ra..` (32), `%ha..` (16), `%fa..` (f32), `%da..`
/// (f64), predicates `%pa..` (input odd); results go to `%d`, `%rd`, `%hd`, `%fd`, `%dd` or `%pd`
/// and are stored zero-extended, whichever `result` names.
pub fn snippet_kernel(snippet: &str, result: &str) -> String {
    let mut text = String::from(HEAD);
    text += ".visible .entry k(.param .u64 k_in, .param .u64 k_out)\n{\n";
    text += ".reg .b64 %a,%b,%c,%d,%in,%out,%off; .reg .b32 %ra,%rb,%rc,%rd,%t;\n";
    text += ".reg .b16 %ha,%hb,%hc,%hd; .reg .f32 %fa,%fb,%fc,%fd; .reg .f64 %da,%db,%dc,%dd;\n";
    text += ".reg .pred %pa,%pb,%pc,%pd,%pe; .reg .b32 %x<8>; .reg .b64 %y<8>;\n";
    text += "ld.param.u64 %in, [k_in];\nld.param.u64 %out, [k_out];\n";
    text += "mov.u32 %t, %tid.x;\nmul.wide.u32 %off, %t, 24;\nadd.s64 %in, %in, %off;\n";
    text += "mul.wide.u32 %off, %t, 8;\nadd.s64 %out, %out, %off;\nmov.u64 %d, 0;\n";
    text += "mov.u32 %rd, 0;\nmov.u16 %hd, 0;\nmov.f32 %fd, 0f00000000;\n";
    text += "mov.f64 %dd, 0d0000000000000000;\nsetp.ne.u32 %pd, 0, 0;\n";
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        let offset = 8 * at;
        text +=
            &format!("ld.global.u64 %{name}, [%in+{offset}];\ncvt.u32.u64 %r{name}, %{name};\n");
        text += &format!("cvt.u16.u64 %h{name}, %{name};\nmov.b32 %f{name}, %r{name};\n");
        text += &format!("mov.b64 %d{name}, %{name};\nand.b32 %t, %r{name}, 1;\n");
        text += &format!("setp.ne.u32 %p{name}, %t, 0;\n");
    }
    text += snippet;
    text += "\n";
    text += match result {
        "%rd" => "cvt.u64.u32 %d, %rd;\n",
        "%hd" => "cvt.u64.u16 %d, %hd;\n",
        "%fd" => "mov.b32 %rd, %fd;\ncvt.u64.u32 %d, %rd;\n",
        "%dd" => "mov.b64 %d, %dd;\n",
        "%pd" => "selp.u64 %d, 1, 0, %pd;\n",
        _ => "",
    };
    text += "st.global.u64 [%out], %d;\nret;\n}\n";
    text
}

/// The results of `snippet` over `inputs`, one thread each.
pub fn run_snippet(snippet: &str, result: &str, inputs: &[[u64; 3]]) -> Vec<u64> {
    let text = snippet_kernel(snippet, result);
    let mut out = Vec::new();
    for chunk in inputs.chunks(1024) {
        let mut buffers = [longs(chunk.iter().flatten().copied()), vec![0; 8 * chunk.len()]];
        let case = Case::new(&text, "k").block(chunk.len() as u32).buffer(0).buffer(1);
        case.run(&mut buffers).unwrap_or_else(|fault| panic!("{snippet}: {fault}"));
        out.extend(as_longs(&buffers[1]));
    }
    out
}

/// Deterministic pseudo-random numbers (SplitMix64, Steele et al. 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// What a register holds: the one with a result of this type, and its bits in 64.
pub trait Value: Copy + 'static {
    const REGISTER: &'static str;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! values {
    ($($kind:ty: $register:literal, |$bits:ident| $of:expr, |$value:ident| $to:expr;)*) => {$(
        impl Value for $kind {
            const REGISTER: &'static str = $register;
            fn of($bits: u64) -> Self {
                $of
            }
            fn bits(self) -> u64 {
                let $value = self;
                $to
            }
        }
    )*};
}

values! {
    u16: "%hd", |bits| bits as u16, |value| value.into();
    i16: "%hd", |bits| bits as i16, |value| u64::from(value as u16);
    u32: "%rd", |bits| bits as u32, |value| value.into();
    i32: "%rd", |bits| bits as i32, |value| u64::from(value as u32);
    u64: "%d", |bits| bits, |value| value;
    i64: "%d", |bits| bits as i64, |value| value as u64;
    f32: "%fd", |bits| f32::from_bits(bits as u32), |value| value.to_bits().into();
    f64: "%dd", |bits| f64::from_bits(bits), |value| value.to_bits();
    bool: "%pd", |bits| bits & 1 == 1, |value| value.into();
}

/// A snippet, the register with its result, and the same in Rust.
pub struct Row {
    snippet: &'static str,
    result: &'static str,
    reference: Box<dyn Fn(u64, u64, u64) -> u64>,
}

/// A row whose operands have types of their own.
pub fn mixed<A: Value, B: Value, C: Value, R: Value>(
    snippet: &'static str,
    reference: fn(A, B, C) -> R,
) -> Row {
    let reference = move |a, b, c| reference(A::of(a), B::of(b), C::of(c)).bits();
    Row { snippet, result: R::REGISTER, reference: Box::new(reference) }
}

pub fn row<T: Value, R: Value>(snippet: &'static str, reference: fn(T, T, T) -> R) -> Row {
    mixed(snippet, reference)
}

/// What `.ftz` makes of a value.
pub fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

/// Runs every row of a table over all inputs. NaNs compare as equal; the tests of canonical NaNs
/// compare their bits.
pub fn check(inputs: &[[u64; 3]], table: &[Row]) {
    for Row { snippet, result, reference } in table {
        let run = |chunk: &[[u64; 3]]| run_snippet(snippet, result, chunk);
        check_kernel(inputs, (snippet, result, reference), run);
    }
}

/// The same for one row, with `run` called for as many inputs as a block has threads.
pub fn check_kernel(
    inputs: &[[u64; 3]],
    (snippet, result, reference): (&str, &str, impl Fn(u64, u64, u64) -> u64),
    run: impl Fn(&[[u64; 3]]) -> Vec<u64>,
) {
    let got = inputs.chunks(1024).flat_map(run);
    let nan = |bits: u64| match result {
        "%fd" => f32::from_bits(bits as u32).is_nan(),
        "%dd" => f64::from_bits(bits).is_nan(),
        _ => false,
    };
    let mut count = 0;
    for ([a, b, c], got) in inputs.iter().zip(got) {
        let want = reference(*a, *b, *c);
        let same = got == want || nan(got) && nan(want);
        assert!(same, "{snippet} of {a:#x}, {b:#x}, {c:#x}: {got:#x}, not {want:#x}");
        count += 1;
    }
    assert_eq!(count, inputs.len(), "{snippet}");
}

const INTEGER_EDGES: [u64; 14] = [
    0,
    1,
    2,
    31,
    32,
    63,
    64,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0xFFFF_FFFF_FFFF_FFFF,
    0x0123_4567_89AB_CDEF,
];

/// Integer operands: edges against edges, random ones, random ones with small amounts.
pub fn integer_inputs() -> Vec<[u64; 3]> {
    let mut all = Vec::new();
    let mut random = Random(11);
    for a in INTEGER_EDGES {
        for b in INTEGER_EDGES {
            all.push([a, b, random.next()]);
            all.push([a, b, b]);
        }
    }
    all.extend((0..200).map(|_| [random.next(), random.next(), random.next()]));
    // Small third operands: shift amounts, positions, lengths.
    all.extend((0..200).map(|_| [random.next(), random.next() % 80, random.next() % 80]));
    all
}

/// Edge values of rounding, flushing and comparing in single precision.
const SINGLE_EDGES: [u32; 20] = [
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x8000_0001,
    0x007F_FFFF,
    0x0080_0000,
    0x3F80_0000,
    0xBF80_0000,
    0x3F00_0000,
    0x3FC0_0000,
    0x4020_0000,
    0xC020_0000,
    0x4F00_0000,
    0xCF00_0000,
    0x4F80_0000,
    0x5F00_0000,
    0x7F7F_FFFF,
    0x7F80_0000,
    0xFF80_0000,
    0x7FC0_0000,
];

/// Single-precision operands in the low halves.
pub fn singles() -> Vec<[u64; 3]> {
    let mut all = Vec::new();
    let mut random = Random(5);
    for a in SINGLE_EDGES {
        for b in SINGLE_EDGES {
            let c = SINGLE_EDGES[(random.next() % 20) as usize];
            all.push([u64::from(a), u64::from(b), u64::from(c)]);
        }
    }
    // Random bits, and close values that cancel.
    all.extend((0..400).map(|_| [random.next(), random.next(), random.next()]));
    all.extend((0..400).map(|_| {
        let near = |r: u64| u64::from(0x3F80_0000 + (r as u32 & 0xFFFF) - 0x8000);
        let c = near(random.next()) | 0x8000_0000;
        [near(random.next()), near(random.next()), c]
    }));
    all
}

/// Double-precision operands.
pub fn doubles() -> Vec<[u64; 3]> {
    let widen = |bits: u64| f64::from(f32::from_bits(bits as u32)).to_bits();
    let mut all: Vec<[u64; 3]> = singles().into_iter().map(|row| row.map(widen)).collect();
    let mut random = Random(6);
    all.extend((0..400).map(|_| [random.next(), random.next(), random.next()]));
    all
}
