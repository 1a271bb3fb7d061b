//! The decoded form: instructions over numbered register rows, all names resolved.
//!
//! A row holds one register of all 32 lanes. 32-bit and narrower registers, and the words of
//! parameters, share one bank; 64-bit registers have a second; predicates are one mask each.
//! Immediates are rows too, filled when a module is bound, so that operands are always rows.

pub(crate) use super::ops::{
    AtomOp, BarKind, BoolOp, Cmp, CmpKind, CountOp, FMode, FOp, FUn, IntOp, IntUn, PrmtMode, Round,
    ShflMode, Special, TestOp, TriOp, VoteMode,
};
use super::types::{Space, Ty};

/// Index of a register row in its bank.
pub(crate) type Row = u16;
/// No row: an absent operand.
pub(crate) const NO_ROW: Row = u16::MAX;

/// A predicate operand.
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
    /// Whether a floating result is rounded to an integral value (`.rni` and kin).
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
    /// Whether L1 may serve it.
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

/// One decoded instruction. `d` is the destination, `a`, `b`, `c` the sources.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Inst {
    Mov32 {
        d: Row,
        a: Row,
    },
    Mov64 {
        d: Row,
        a: Row,
    },
    MovP {
        d: Row,
        a: PredRef,
    },
    Special32 {
        d: Row,
        which: Special,
    },
    Special64 {
        d: Row,
        which: Special,
    },
    /// Sign or zero extension of the low 8 or 16 bits.
    Extend {
        d: Row,
        a: Row,
        ty: Ty,
    },
    /// The bits of `ty` at bit `shift`, extended.
    Extract {
        d: Row,
        a: Row,
        ty: Ty,
        shift: u8,
    },
    /// The low bits of `a`, as wide as `ty`, put at bit `shift` of `d`.
    Insert {
        d: Row,
        a: Row,
        ty: Ty,
        shift: u8,
    },
    WidenU {
        d: Row,
        a: Row,
    },
    WidenS {
        d: Row,
        a: Row,
    },
    Low {
        d: Row,
        a: Row,
    },
    High {
        d: Row,
        a: Row,
    },
    Pack64 {
        d: Row,
        low: Row,
        high: Row,
    },
    Int32 {
        op: IntOp,
        d: Row,
        a: Row,
        b: Row,
    },
    Int64 {
        op: IntOp,
        d: Row,
        a: Row,
        b: Row,
    },
    IntUn32 {
        op: IntUn,
        d: Row,
        a: Row,
    },
    IntUn64 {
        op: IntUn,
        d: Row,
        a: Row,
    },
    Count32 {
        op: CountOp,
        d: Row,
        a: Row,
    },
    Count64 {
        op: CountOp,
        d: Row,
        a: Row,
    },
    MulWide {
        signed: bool,
        d: Row,
        a: Row,
        b: Row,
    },
    Tri32 {
        op: TriOp,
        d: Row,
        a: Row,
        b: Row,
        c: Row,
    },
    /// Adds `a + b + carry` or `a - b - borrow`; `carry` is a predicate row.
    Carry {
        wide: bool,
        sub: bool,
        reads: bool,
        writes: bool,
        carry: Row,
        d: Row,
        a: Row,
        b: Row,
    },
    Bfe64 {
        signed: bool,
        d: Row,
        a: Row,
        start: Row,
        len: Row,
    },
    Bfi32 {
        d: Row,
        a: Row,
        b: Row,
        start: Row,
        len: Row,
    },
    Bfi64 {
        d: Row,
        a: Row,
        b: Row,
        start: Row,
        len: Row,
    },
    Prmt {
        mode: PrmtMode,
        d: Row,
        a: Row,
        b: Row,
        c: Row,
    },
    Lop3 {
        table: u8,
        d: Row,
        a: Row,
        b: Row,
        c: Row,
    },
    Select64 {
        float: bool,
        d: Row,
        a: Row,
        b: Row,
        c: Row,
    },
    F32 {
        op: FOp,
        mode: FMode,
        d: Row,
        a: Row,
        b: Row,
    },
    F64 {
        op: FOp,
        d: Row,
        a: Row,
        b: Row,
    },
    Fma32 {
        mode: FMode,
        d: Row,
        a: Row,
        b: Row,
        c: Row,
    },
    Fma64 {
        d: Row,
        a: Row,
        b: Row,
        c: Row,
    },
    FUn32 {
        op: FUn,
        mode: FMode,
        d: Row,
        a: Row,
    },
    FUn64 {
        op: FUn,
        d: Row,
        a: Row,
    },
    Testp {
        wide: bool,
        what: TestOp,
        d: Row,
        a: Row,
    },
    SetP(SetP),
    Logic {
        op: BoolOp,
        d: Row,
        a: PredRef,
        b: PredRef,
    },
    Sel32 {
        d: Row,
        a: Row,
        b: Row,
        p: PredRef,
    },
    Sel64 {
        d: Row,
        a: Row,
        b: Row,
        p: PredRef,
    },
    Cvt(Cvt),
    Load(Access),
    Store(Access),
    Atom(Atom),
    Shfl(Shfl),
    Vote {
        mode: VoteMode,
        d: Row,
        p: PredRef,
        members: Row,
    },
    Match {
        wide: bool,
        all: bool,
        d: Row,
        p: Row,
        a: Row,
        members: Row,
    },
    ActiveMask {
        d: Row,
    },
    BarWarp {
        members: Row,
    },
    Bar(Bar),
    /// `wmma.mma`: an index into `FuncCode::products`, and the row of a full mask of lanes.
    Wmma {
        product: u32,
        members: Row,
    },
    /// Address of a variable of this call's frame in local memory.
    LocalAddr {
        d: Row,
        offset: u32,
    },
    /// Address of the dynamic part of shared memory.
    DynSharedAddr {
        d: Row,
    },
    IsSpace {
        space: Space,
        d: Row,
        a: Row,
    },
    Nanosleep {
        a: Row,
    },
    /// Fences and prefetches: nothing to do where one thread at a time runs on coherent memory.
    Nop,
    Trap,
    Brkpt,
    Exit,
    Ret,
    Bra {
        target: u32,
    },
    BraTable {
        index: Row,
        table: u32,
    },
    Call {
        site: u32,
    },
}

/// Rows of the fragments of `wmma.mma`: `d = a b + c`. Those of `a` and `b` hold pairs of halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Product {
    pub d: [Row; 8],
    pub a: [Row; 8],
    pub b: [Row; 8],
    pub c: [Row; 8],
}

/// What a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callee {
    /// Function index of the module.
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

/// A call with its arguments.
#[derive(Debug, Clone)]
pub(crate) struct CallSite {
    pub callee: Callee,
    pub args: Vec<ParamWords>,
    pub returns: Vec<ParamWords>,
}
