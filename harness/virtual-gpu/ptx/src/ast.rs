//! PTX as written: names unresolved, nothing checked beyond the grammar.

use crate::types::{Space, Ty};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'a> {
    /// Register, symbol, label or special register; a symbol may carry a byte offset.
    Name(&'a str, i64),
    /// `!%p1`.
    Not(&'a str),
    Int(u64),
    /// Bits of a single-precision literal.
    F32(u32),
    /// Bits of a double-precision literal.
    F64(u64),
    /// `[base+offset]`; no base for an absolute address.
    Memory(Option<&'a str>, i64),
    /// `[object, {x, ...}]`: a place in a texture.
    Texel(&'a str, Vec<Operand<'a>>),
    /// `{a, b, ...}`.
    Vector(Vec<Operand<'a>>),
    /// `%r1|%p1`.
    Pair(&'a str, &'a str),
    /// `(a, b, ...)`: the argument lists of `call`.
    List(Vec<&'a str>),
}

#[derive(Debug, Clone)]
pub(crate) struct RawInst<'a> {
    pub line: u32,
    pub guard: Option<(&'a str, bool)>,
    pub opcode: &'a str,
    pub operands: Vec<Operand<'a>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawInit<'a> {
    Int(u64),
    F32(u32),
    F64(u64),
    Symbol(&'a str, i64),
}

/// A variable in any state space but registers.
#[derive(Debug, Clone)]
pub(crate) struct RawVar<'a> {
    pub line: u32,
    pub space: Space,
    pub ty: Ty,
    pub align: u32,
    pub name: &'a str,
    /// Elements in total; `None` for `name[]`.
    pub elements: Option<u64>,
    pub init: Vec<RawInit<'a>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Stmt<'a> {
    Inst(RawInst<'a>),
    Label(u32, &'a str),
    /// `.reg`: names, each with the count of `name<count>`.
    Reg(u32, Ty, Vec<(&'a str, Option<u64>)>),
    Var(RawVar<'a>),
    /// `name: .branchtargets a, b;`
    Targets(&'a str, Vec<&'a str>),
    Open,
    Close,
}

/// `.entry` or `.func`.
#[derive(Debug, Clone)]
pub(crate) struct RawFunc<'a> {
    pub line: u32,
    pub name: &'a str,
    pub entry: bool,
    pub returns: Vec<RawVar<'a>>,
    pub params: Vec<RawVar<'a>>,
    pub max_threads: Option<[u32; 3]>,
    pub required_threads: Option<[u32; 3]>,
    /// `None` for a declaration.
    pub body: Option<Vec<Stmt<'a>>>,
}

#[derive(Debug, Clone)]
pub(crate) struct RawModule<'a> {
    pub version: (u32, u32),
    pub target: &'a str,
    pub vars: Vec<RawVar<'a>>,
    pub funcs: Vec<RawFunc<'a>>,
}
