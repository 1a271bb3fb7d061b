//! Functions in decoded form.

use crate::counts::Class;
use crate::inst::Inst;
use crate::operands::{CallSite, ParamWords, PredRef, Product, Row};

/// Properties of a kernel, its callees included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Properties {
    /// Reads `%globaltimer`: its run time depends on the clock.
    pub reads_globaltimer: bool,
    pub calls_printf: bool,
    /// Branches or addresses may depend on loaded data, so the cost depends on memory contents.
    pub data_dependent: bool,
}

/// A 64-bit constant, known when the module is bound to addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Const64 {
    Bits(u64),
    Symbol(u32, i64),
    Function(u32),
}

/// Scheduling information of an instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Info {
    pub class: Class,
    /// False for the further steps of a PTX instruction that decodes to several.
    pub counted: bool,
    pub guard: Option<PredRef>,
    pub line: u32,
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
    /// Candidates for loop extrapolation, in the order of their back edges.
    pub loops: Vec<Loop>,
    /// Estimate of 32-bit registers; see [`Kernel::registers`].
    pub registers: u32,
    pub properties: Properties,
}

impl FuncCode {
    pub(crate) fn flat_rows(&self) -> usize {
        usize::from(self.rows32) + usize::from(self.rows64) + usize::from(self.preds)
    }
}

/// A loop, from its first step to the branch back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loop {
    pub head: u32,
    pub back: u32,
    pub test: u32,
}
