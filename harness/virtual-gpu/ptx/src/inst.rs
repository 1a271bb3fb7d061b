//! The decoded form: instructions over numbered register rows, all names resolved.
//!
//! A row holds one register of all 32 lanes. 32-bit and narrower registers, and the words of
//! parameters, share one bank; 64-bit registers have a second; predicates are one mask each.
//! Immediates are rows too, filled when a module is bound, so that operands are always rows.

use crate::operands::{Access, Atom, Bar, Cvt, Fetch, PredRef, Row, SetP, Shfl};
use crate::ops::{
    BoolOp, CountOp, FMode, FOp, FUn, IntOp, IntUn, PrmtMode, Special, TestOp, TriOp, VoteMode,
};
use crate::types::{Space, Ty};

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
    /// The 32-bit sum of a register and an offset, zero-extended.
    WidenU {
        d: Row,
        a: Row,
        offset: u32,
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
    Fetch(Fetch),
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
    Nanosleep(Row),
    /// Fences and prefetches: without effect, as one thread at a time runs on coherent memory.
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
