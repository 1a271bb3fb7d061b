//! PTX's fundamental types and state spaces (PTX ISA, "State Spaces, Types, and Variables").

/// A fundamental type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ty {
    /// Untyped 8 bits.
    B8,
    /// Untyped 16 bits.
    B16,
    /// Untyped 32 bits.
    B32,
    /// Untyped 64 bits.
    B64,
    /// Unsigned 8 bits.
    U8,
    /// Unsigned 16 bits.
    U16,
    /// Unsigned 32 bits.
    U32,
    /// Unsigned 64 bits.
    U64,
    /// Signed 8 bits.
    S8,
    /// Signed 16 bits.
    S16,
    /// Signed 32 bits.
    S32,
    /// Signed 64 bits.
    S64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Predicate.
    Pred,
}

impl Ty {
    /// The type of a modifier (without its dot).
    pub(crate) fn parse(name: &str) -> Option<Ty> {
        Some(match name {
            "b8" => Ty::B8,
            "b16" => Ty::B16,
            "b32" => Ty::B32,
            "b64" => Ty::B64,
            "u8" => Ty::U8,
            "u16" => Ty::U16,
            "u32" => Ty::U32,
            "u64" => Ty::U64,
            "s8" => Ty::S8,
            "s16" => Ty::S16,
            "s32" => Ty::S32,
            "s64" => Ty::S64,
            "f32" => Ty::F32,
            "f64" => Ty::F64,
            "pred" => Ty::Pred,
            _ => return None,
        })
    }

    /// Size in memory; a predicate has none.
    pub fn bytes(self) -> u32 {
        match self {
            Ty::Pred => 0,
            Ty::B8 | Ty::U8 | Ty::S8 => 1,
            Ty::B16 | Ty::U16 | Ty::S16 => 2,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 => 4,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 => 8,
        }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Ty::F32 | Ty::F64)
    }

    /// Whether a value of this type uses a 64-bit row.
    pub(crate) fn is_wide(self) -> bool {
        self.bytes() == 8
    }
}

/// A state space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Resolved by the address at run time.
    Generic,
    /// Device memory.
    Global,
    /// Read-only device memory.
    Const,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Local,
    /// Arguments.
    Param,
}

impl Space {
    /// The space of a modifier (without its dot).
    pub(crate) fn parse(name: &str) -> Option<Space> {
        Some(match name {
            "global" => Space::Global,
            "const" => Space::Const,
            "shared" => Space::Shared,
            "local" => Space::Local,
            "param" => Space::Param,
            _ => return None,
        })
    }
}

/// Local memory of a thread (CUDA C++ Programming Guide, "Technical Specifications").
pub(crate) const MAX_LOCAL_BYTES: u32 = 512 * 1024;

/// The address windows of generic space, above all addresses that a driver allocates.
pub mod window {
    /// Where generic addresses of shared memory start.
    pub const SHARED_BASE: u64 = 0xFFFF_0000_0000_0000;
    /// Where generic addresses of local memory start.
    pub const LOCAL_BASE: u64 = 0xFFFF_0001_0000_0000;
    pub const WINDOW_BYTES: u64 = 0x0100_0000;
    /// Value of a pointer to the function of index 0.
    pub const CODE_BASE: u64 = 0xFFFE_0000_0000_0000;
    /// Distance between two function pointers.
    pub const CODE_STRIDE: u64 = 0x100;
}
