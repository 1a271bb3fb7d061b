//! Operations, modes and modifiers of decoded instructions.

/// Two-operand integer operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntOp {
    Add,
    Sub,
    MulLo,
    MulHiS,
    MulHiU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    /// The three shifts have a 32-bit amount also for 64-bit values.
    Shl,
    ShrS,
    ShrU,
    /// 24-bit multiplies exist for 32-bit rows only.
    Mul24LoS,
    Mul24LoU,
    Mul24HiS,
    Mul24HiU,
}

/// One-operand integer operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntUn {
    Neg,
    Abs,
    Not,
    Cnot,
    Brev,
}

/// Integer operations with a 32-bit result for any operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountOp {
    Popc,
    Clz,
    BfindU,
    BfindS,
    BfindShiftU,
    BfindShiftS,
}

/// Three-operand operations on 32-bit rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TriOp {
    MadLo,
    MadHiS,
    MadHiU,
    SadS,
    SadU,
    BfeS,
    BfeU,
    ShfLeftWrap,
    ShfLeftClamp,
    ShfRightWrap,
    ShfRightClamp,
    /// `slct` with an integer selector: `c >= 0 ? a : b`.
    SelectS,
    /// `slct` with a floating selector.
    SelectF,
    Dp4aSS,
    Dp4aSU,
    Dp4aUS,
    Dp4aUU,
}

/// `prmt` modes (PTX ISA, "prmt").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrmtMode {
    Index,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Rounding of a floating result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

/// Modifiers of a floating instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FMode {
    pub round: Round,
    pub ftz: bool,
    pub sat: bool,
}

impl FMode {
    /// Whether the host's operation alone gives the result.
    pub(crate) fn is_plain(self) -> bool {
        self.round == Round::Nearest && !self.ftz && !self.sat
    }
}

/// Two-operand floating operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FOp {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    /// Minimum and maximum that return NaN when an operand is NaN.
    MinNan,
    MaxNan,
    Copysign,
}

/// One-operand floating operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FUn {
    Neg,
    Abs,
    Sqrt,
    Rcp,
    Rsqrt,
    Sin,
    Cos,
    Lg2,
    Ex2,
    Tanh,
}

/// Comparisons of `setp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The unordered forms are true when an operand is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// Operand types of `setp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CmpKind {
    U32,
    S32,
    U64,
    S64,
    F32,
    F32Ftz,
    F64,
}

/// Boolean operations on predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

/// Read-modify-write operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exch,
    Cas,
}

/// `shfl` modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `vote.sync` modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
    /// Writes a 32-bit row; the others write a predicate.
    Ballot,
}

/// Results of a block-wide barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarKind {
    Sync,
    Arrive,
    /// Count of true predicates, to a 32-bit row.
    Popc,
    /// Conjunction, to a predicate.
    And,
    /// Disjunction, to a predicate.
    Or,
}

/// Special registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clock,
    ClockHi,
    Clock64,
    Globaltimer,
    GlobaltimerLo,
    GlobaltimerHi,
    DynamicSharedBytes,
    TotalSharedBytes,
}

/// Tests of `testp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestOp {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}
