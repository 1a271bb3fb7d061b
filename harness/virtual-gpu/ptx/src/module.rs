//! What a loaded text holds: kernels with their properties, symbols to place, decoded code.

use super::counts::Class;
use super::inst::{CallSite, Inst, ParamWords, PredRef, Product, Row};
use super::repeats::Loop;
use super::types::Space;

/// A parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name in the text.
    pub name: String,
    /// Byte offset in the argument buffer.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// What a kernel does, its callees included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Properties {
    /// Reads `%globaltimer`: its run time depends on the clock.
    pub reads_globaltimer: bool,
    /// Has atomics or reductions: running it twice differs from running it once.
    pub uses_atomics: bool,
    /// Prints.
    pub calls_printf: bool,
    /// Has a block-wide barrier.
    pub has_barrier: bool,
    /// What it loads from memory may decide where it goes or what it touches, not only what it
    /// stores: what it costs then depends on the contents of memory.
    pub follows_data: bool,
    /// All that it does to device memory is to add whole numbers to words of so many bytes, and
    /// what it adds does not depend on what is there.
    pub adds_bytes: Option<u64>,
}

/// A kernel of a module.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Name in the text.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Size of the argument buffer.
    pub param_bytes: u32,
    /// Statically allocated shared memory of a block. Module-scope variables and those of device
    /// functions count for every kernel, used or not.
    pub static_shared_bytes: u32,
    /// Local memory of a thread, without that of the functions it calls.
    pub local_bytes: u32,
    /// Estimate of the 32-bit registers of a thread: the most that are live at once, with two for
    /// a 64-bit value. A real compiler schedules and spills, so its figure differs.
    pub registers: u32,
    /// `.maxntid`.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub min_blocks_per_sm: Option<u32>,
    /// What it does.
    pub properties: Properties,
    pub(crate) function: usize,
}

/// What a pointer in an initialiser points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Index among the module's symbols.
    Symbol(usize),
    /// Index among the module's functions.
    Function(usize),
}

/// A pointer in an initialiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// Where in the symbol's bytes the eight bytes of the pointer lie.
    pub offset: u64,
    /// What it points to.
    pub target: Target,
    /// Bytes beyond the target's start.
    pub addend: i64,
}

/// A variable that the caller places in device memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Name in the text.
    pub name: String,
    /// `Global` or `Const`.
    pub space: Space,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// Leading bytes; the rest is zero.
    pub init: Vec<u8>,
    /// Pointers to be put into the bytes once addresses are known.
    pub relocations: Vec<Relocation>,
}

/// A parsed, checked and decoded text.
#[derive(Debug, Clone)]
pub struct Module {
    /// `.version`.
    pub version: (u32, u32),
    /// `.target`.
    pub target: String,
    /// Kernels in order of the text.
    pub kernels: Vec<Kernel>,
    /// Variables in order of the text.
    pub symbols: Vec<Symbol>,
    pub(crate) functions: Vec<FuncCode>,
    /// Opcodes as written, by the index in `Info`.
    pub(crate) opcodes: Vec<String>,
}

impl Module {
    /// The kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// Names of all functions with a body, kernels included.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|function| function.name.as_str())
    }
}

/// A 64-bit constant, known when the module is bound to addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Const64 {
    Bits(u64),
    Symbol(u32, i64),
    Function(u32),
}

/// What the executor needs to know of an instruction besides what it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Info {
    pub class: Class,
    /// False for the further steps of a PTX instruction that decodes to several.
    pub counted: bool,
    pub guard: Option<PredRef>,
    pub line: u32,
    /// Index into `Module::opcodes`.
    pub opcode: u32,
    /// Flat row numbers read: start and end in `FuncCode::deps`.
    pub reads: (u32, u32),
    /// Flat row numbers written.
    pub writes: (u32, u32),
}

/// A function in decoded form.
#[derive(Debug, Clone)]
pub(crate) struct FuncCode {
    pub name: String,
    pub code: Vec<Inst>,
    pub info: Vec<Info>,
    /// Flat row numbers: the 32-bit bank, then the 64-bit bank, then predicates.
    pub deps: Vec<u32>,
    pub rows32: u16,
    pub rows64: u16,
    pub preds: u16,
    pub const32: Vec<(Row, u32)>,
    pub const64: Vec<(Row, Const64)>,
    pub params: Vec<ParamWords>,
    pub returns: Vec<ParamWords>,
    pub local_bytes: u32,
    pub calls: Vec<CallSite>,
    pub products: Vec<Product>,
    pub tables: Vec<Vec<u32>>,
    /// Loops that may repeat themselves, in the order of their ends.
    pub loops: Vec<Loop>,
    /// Estimate of 32-bit registers; see [`Kernel::registers`].
    pub registers: u32,
    pub properties: Properties,
}

impl FuncCode {
    /// Number of rows in all banks.
    pub(crate) fn flat_rows(&self) -> usize {
        usize::from(self.rows32) + usize::from(self.rows64) + usize::from(self.preds)
    }
}
