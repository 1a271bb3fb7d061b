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

named! {
    /// `prmt` modes (PTX ISA, "prmt").
    pub(crate) enum PrmtMode {
        Index,
        F4e "f4e",
        B4e "b4e",
        Rc8 "rc8",
        Ecl "ecl",
        Ecr "ecr",
        Rc16 "rc16",
    }

    /// Rounding of a floating result.
    pub(crate) enum Round {
        Nearest "rn",
        Zero "rz",
        Down "rm",
        Up "rp",
    }

    /// Comparisons of `setp`; `lo`, `ls`, `hi`, `hs` are the unsigned spellings.
    pub(crate) enum Cmp {
        Eq "eq",
        Ne "ne",
        Lt "lt" | "lo",
        Le "le" | "ls",
        Gt "gt" | "hi",
        Ge "ge" | "hs",
        /// The unordered forms are true when an operand is NaN.
        Equ "equ",
        Neu "neu",
        Ltu "ltu",
        Leu "leu",
        Gtu "gtu",
        Geu "geu",
        Num "num",
        Nan "nan",
    }

    /// Boolean operations on predicates.
    pub(crate) enum BoolOp {
        And "and",
        Or "or",
        Xor "xor",
    }

    /// Read-modify-write operations.
    pub(crate) enum AtomOp {
        Add "add",
        Min "min",
        Max "max",
        Inc "inc",
        Dec "dec",
        And "and",
        Or "or",
        Xor "xor",
        Exch "exch",
        Cas "cas",
    }

    pub(crate) enum ShflMode {
        Up "up",
        Down "down",
        Bfly "bfly",
        Idx "idx",
    }

    pub(crate) enum VoteMode {
        All "all",
        Any "any",
        Uni "uni",
        /// Writes a 32-bit row; the others write a predicate.
        Ballot "ballot",
    }

    /// Results of a block-wide barrier.
    pub(crate) enum BarKind {
        Sync,
        Arrive,
        /// Count of true predicates, to a 32-bit row.
        Popc "popc",
        And "and",
        Or "or",
    }

    pub(crate) enum Special {
        Tid(u8),
        Ntid(u8),
        Ctaid(u8),
        Nctaid(u8),
        Laneid "%laneid",
        Warpid "%warpid",
        Nwarpid "%nwarpid",
        Smid "%smid",
        Nsmid "%nsmid",
        Gridid "%gridid",
        LanemaskEq "%lanemask_eq",
        LanemaskLe "%lanemask_le",
        LanemaskLt "%lanemask_lt",
        LanemaskGe "%lanemask_ge",
        LanemaskGt "%lanemask_gt",
        Clock "%clock",
        ClockHi "%clock_hi",
        Clock64 "%clock64",
        Globaltimer "%globaltimer",
        GlobaltimerLo "%globaltimer_lo",
        GlobaltimerHi "%globaltimer_hi",
        DynamicSharedBytes "%dynamic_smem_size",
        TotalSharedBytes "%total_smem_size",
    }

    /// Tests of `testp`.
    pub(crate) enum TestOp {
        Finite "finite",
        Infinite "infinite",
        Number "number",
        NotANumber "notanumber",
        Normal "normal",
        Subnormal "subnormal",
    }
}
