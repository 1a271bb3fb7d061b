//! Faults of kernels, with their location.

use crate::counts::Counts;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// No mapped range holds the address, or it forbids the access.
    #[error("illegal {} of address {addr:#x}", if *.write { "write" } else { "read" })]
    IllegalAddress {
        addr: u64,
        /// Whether it was a store or an atomic.
        write: bool,
    },
    /// The address is not a multiple of the access size.
    #[error("misaligned address {addr:#x} of an access of {bytes} bytes")]
    Misaligned { addr: u64, bytes: u32 },
    /// The instruction does not support the address space.
    #[error("address {addr:#x} is in the wrong address space")]
    InvalidAddressSpace { addr: u64 },
    /// An offset beyond the block's shared memory.
    #[error("shared memory offset {offset:#x} is out of range of {bytes} bytes")]
    SharedOutOfRange {
        /// Offset in shared memory.
        offset: u64,
        bytes: u32,
    },
    /// `trap`.
    #[error("trap instruction")]
    Trap,
    /// `brkpt`.
    #[error("breakpoint instruction")]
    Breakpoint,
    #[error("{file}:{line}: {function}: assertion `{message}` failed")]
    Assert { message: String, file: String, line: u32, function: String },
    #[error("call stack exceeds its limit of {limit_bytes} bytes")]
    StackOverflow { limit_bytes: u32 },
    /// A call or a jump to an address without code.
    #[error("invalid program counter {addr:#x}")]
    InvalidPc { addr: u64 },
    /// An instruction with a result that the PTX ISA leaves undefined.
    #[error("illegal instruction `{opcode}`")]
    IllegalInstruction { opcode: String },
    /// The budget of warp-instructions is used up.
    #[error("launch exceeded its budget of {warp_instructions} warp-instructions")]
    LaunchTimeout { warp_instructions: u64 },
    /// All live threads wait, and some of them for a change of memory.
    #[error("{}no running thread can end a loop{}", left_text(.not_started), polled_text(.polled))]
    Endless {
        /// The address that the first of them polls, where it is known.
        polled: Option<u64>,
        /// Blocks that cannot start before others end.
        not_started: u64,
    },
    #[error("all remaining threads wait at barriers")]
    Deadlock,
    #[error("launch refused: {0}")]
    BadLaunch(String),
}

fn polled_text(polled: &Option<u64>) -> String {
    polled.map_or_else(String::new, |address| format!(" that polls {address:#x}"))
}

fn left_text(not_started: &u64) -> String {
    match not_started {
        0 => String::new(),
        left => format!("{left} blocks find no room to start, and "),
    }
}

/// A fault with its location and the counts so far.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} in {function} at line {line}, block {block:?}, thread {thread:?}")]
pub struct KernelFault {
    pub kind: FaultKind,
    pub function: String,
    pub line: u32,
    pub block: [u32; 3],
    /// Thread index in the block: the first lane that faulted.
    pub thread: [u32; 3],
    pub counts: Counts,
    pub printed: Vec<String>,
}
