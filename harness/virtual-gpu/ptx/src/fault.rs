//! Faults of kernels, with their position.

use crate::counts::Counts;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// No mapped range holds the address, or it forbids the access.
    #[error("illegal {} of address {addr:#x}", if *.write { "write" } else { "read" })]
    IllegalAddress {
        /// Address.
        addr: u64,
        /// Whether it was a store or an atomic.
        write: bool,
    },
    /// The address is no multiple of the access size.
    #[error("misaligned address {addr:#x} of an access of {bytes} bytes")]
    Misaligned {
        /// Address.
        addr: u64,
        /// Size of the access.
        bytes: u32,
    },
    /// The instruction does not work on the space of the address.
    #[error("address {addr:#x} is in the wrong address space")]
    InvalidAddressSpace {
        /// Address.
        addr: u64,
    },
    /// An offset beyond the block's shared memory.
    #[error("shared memory offset {offset:#x} is out of range of {bytes} bytes")]
    SharedOutOfRange {
        /// Offset in shared memory.
        offset: u64,
        /// Shared memory of the block.
        bytes: u32,
    },
    /// `trap`.
    #[error("trap instruction")]
    Trap,
    /// `brkpt`.
    #[error("breakpoint instruction")]
    Breakpoint,
    /// A device-side assertion.
    #[error("{file}:{line}: {function}: assertion `{message}` failed")]
    Assert {
        /// The asserted expression.
        message: String,
        /// Source file.
        file: String,
        /// Source line.
        line: u32,
        /// Function it stands in.
        function: String,
    },
    /// Calls nest deeper than the stack holds.
    #[error("call stack exceeds its limit of {limit_bytes} bytes")]
    StackOverflow {
        /// Limit per thread.
        limit_bytes: u32,
    },
    /// A call or a jump to an address without code.
    #[error("invalid program counter {addr:#x}")]
    InvalidPc {
        /// Value of the pointer or index.
        addr: u64,
    },
    /// An instruction whose result the PTX ISA leaves undefined.
    #[error("illegal instruction `{opcode}`")]
    IllegalInstruction {
        /// Opcode as written.
        opcode: String,
    },
    /// The budget of lane-instructions is spent.
    #[error("launch exceeded its budget of {lane_instructions} lane-instructions")]
    LaunchTimeout {
        /// The budget.
        lane_instructions: u64,
    },
    /// All live threads wait for each other.
    #[error("all remaining threads wait at barriers")]
    Deadlock,
    /// The launch has impossible arguments.
    #[error("launch refused: {0}")]
    BadLaunch(String),
}

/// A fault with its position and the counts until then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} in {function} at line {line}, block {block:?}, thread {thread:?}")]
pub struct KernelFault {
    /// What went wrong.
    pub kind: FaultKind,
    /// Function whose code was running.
    pub function: String,
    /// Line of the PTX text.
    pub line: u32,
    /// Block index in the grid.
    pub block: [u32; 3],
    /// Thread index in the block: the first lane that faulted.
    pub thread: [u32; 3],
    /// Work done until then.
    pub counts: Counts,
    /// Text printed until then.
    pub printed: Vec<String>,
}
