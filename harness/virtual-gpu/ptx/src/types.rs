//! PTX's fundamental types and state spaces (PTX ISA, "State Spaces, Types, and Variables").

named! {
    pub enum Ty {
        /// Untyped 8 bits.
        B8 "b8",
        /// Untyped 16 bits.
        B16 "b16",
        /// Untyped 32 bits.
        B32 "b32",
        /// Untyped 64 bits.
        B64 "b64",
        /// Unsigned 8 bits.
        U8 "u8",
        /// Unsigned 16 bits.
        U16 "u16",
        /// Unsigned 32 bits.
        U32 "u32",
        /// Unsigned 64 bits.
        U64 "u64",
        /// Signed 8 bits.
        S8 "s8",
        /// Signed 16 bits.
        S16 "s16",
        /// Signed 32 bits.
        S32 "s32",
        /// Signed 64 bits.
        S64 "s64",
        /// IEEE 754 binary16.
        F16 "f16",
        /// The upper half of binary32.
        Bf16 "bf16",
        /// IEEE 754 binary32.
        F32 "f32",
        /// IEEE 754 binary64.
        F64 "f64",
        Pred "pred",
    }
}

impl Ty {
    /// Size in memory; a predicate has none.
    pub fn bytes(self) -> u32 {
        match self {
            Ty::Pred => 0,
            Ty::B8 | Ty::U8 | Ty::S8 => 1,
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 => 2,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 => 4,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 => 8,
        }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Ty::F32 | Ty::F64) || self.is_half()
    }

    pub(crate) fn is_half(self) -> bool {
        matches!(self, Ty::F16 | Ty::Bf16)
    }

    /// Whether a value of this type uses a 64-bit row.
    pub(crate) fn is_wide(self) -> bool {
        self.bytes() == 8
    }
}

named! {
    pub enum Space {
        /// Resolved by the address at run time.
        Generic,
        Global "global",
        /// Read-only device memory.
        Const "const",
        Shared "shared",
        Local "local",
        Param "param",
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
