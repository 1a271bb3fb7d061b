//! Operands of decoded instructions.

use crate::ops::{AtomOp, BarKind, BoolOp, Cmp, CmpKind, Round, ShflMode};
use crate::types::{Space, Ty};

/// Index of a register row in its bank.
pub(crate) type Row = u16;

/// No row: an absent operand.
pub(crate) const NO_ROW: Row = u16::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PredRef {
    pub row: Row,
    pub negated: bool,
}

/// `setp` and its optional second operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetP {
    pub cmp: Cmp,
    pub kind: CmpKind,
    pub p: Row,
    /// Complement, or `NO_ROW`.
    pub q: Row,
    pub a: Row,
    pub b: Row,
    pub combine: Option<(BoolOp, PredRef)>,
}

/// `cvt` between two types.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cvt {
    pub from: Ty,
    pub to: Ty,
    pub round: Round,
    /// Whether a floating result is rounded to an integral value (`.rni` and the like).
    pub integral: bool,
    pub ftz: bool,
    pub sat: bool,
    pub d: Row,
    pub a: Row,
}

/// A load or a store of up to four elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub space: Space,
    pub ty: Ty,
    /// Whether it goes through L1.
    pub cached: bool,
    pub lanes_of_vector: u8,
    pub rows: [Row; 4],
    /// 64-bit row of the address, or `NO_ROW`.
    pub base: Row,
    pub offset: i64,
}

/// `atom` or `red` (then `d` is `NO_ROW`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Atom {
    pub op: AtomOp,
    pub ty: Ty,
    pub space: Space,
    pub d: Row,
    pub base: Row,
    pub offset: i64,
    pub b: Row,
    pub c: Row,
}

/// `tex`: a texel of an object at coordinates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetch {
    pub d: [Row; 4],
    /// 64-bit row with the address of the object.
    pub object: Row,
    /// Coordinates, `NO_ROW` in dimensions that the texture does not have.
    pub at: [Row; 2],
    /// Whether coordinates are floating-point numbers.
    pub by_float: bool,
}

/// `shfl.sync`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shfl {
    pub mode: ShflMode,
    pub d: Row,
    /// Whether the source lane was in range, or `NO_ROW`.
    pub p: Row,
    pub a: Row,
    pub b: Row,
    pub c: Row,
    pub members: Row,
}

/// `bar` in any form; absent operands are `NO_ROW`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bar {
    pub kind: BarKind,
    pub id: Row,
    pub threads: Row,
    pub d: Row,
    pub p: Option<PredRef>,
}

/// Rows of the fragments of `wmma.mma`: `d = a b + c`. Those of `a` and `b` hold pairs of halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Product {
    pub d: [Row; 8],
    pub a: [Row; 8],
    pub b: [Row; 8],
    pub c: [Row; 8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callee {
    Direct(u32),
    /// 64-bit row holding a function pointer.
    Indirect(Row),
    Vprintf,
    AssertFail,
}

/// A parameter variable: consecutive words of the 32-bit bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParamWords {
    pub row: Row,
    pub bytes: u32,
}

impl ParamWords {
    /// Rows that hold the bytes.
    pub(crate) fn words(self) -> u16 {
        self.bytes.div_ceil(4) as u16
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CallSite {
    pub callee: Callee,
    pub args: Vec<ParamWords>,
    pub returns: Vec<ParamWords>,
}
