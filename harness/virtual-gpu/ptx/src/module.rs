//! A loaded module: kernels with their properties, symbols, decoded code.

use crate::code::{FuncCode, Properties};
use crate::types::Space;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    pub name: String,
    /// Byte offset in the argument buffer.
    pub offset: u32,
    pub bytes: u32,
    pub align: u32,
}

#[derive(Debug, Clone)]
pub struct Kernel {
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    pub param_bytes: u32,
    /// Static shared memory of a block. Variables of the module and of device functions count for
    /// every kernel.
    pub static_shared_bytes: u32,
    /// Local memory of a thread, without that of the functions it calls.
    pub local_bytes: u32,
    /// Estimate of the 32-bit registers of a thread: the maximum live at once, with two for a
    /// 64-bit value. A real compiler schedules and spills, so its number differs.
    pub registers: u32,
    /// `.maxntid`.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    pub properties: Properties,
    pub(crate) function: usize,
}

/// Target of a pointer in an initialiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Index among the module's symbols.
    Symbol(usize),
    /// Index among the module's functions.
    Function(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// Offset of the pointer's eight bytes in the symbol.
    pub offset: u64,
    pub target: Target,
    /// Bytes beyond the target's start.
    pub addend: i64,
}

/// A variable to which the caller assigns device memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    /// `Global` or `Const`.
    pub space: Space,
    pub bytes: u64,
    pub align: u32,
    /// Leading bytes; the rest is zero.
    pub init: Vec<u8>,
    /// Pointers to fill in once addresses are known.
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
}

impl Module {
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// Names of all functions with a body, kernels included.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|function| function.name.as_str())
    }
}
