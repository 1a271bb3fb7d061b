//! Why a context fails. Each cause has a row in the machine's fault table.

/// Why a context fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// A device-side assertion failed.
    Assert,
    /// `trap` or `brkpt`.
    Trap,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// An offset beyond the block's shared memory.
    SharedOutOfBounds,
    /// Calls exceeded the stack.
    StackOverflow,
    /// An access that its address space does not support.
    WrongAddressSpace,
    /// A call of an address without code.
    BadPc,
    /// An instruction that does not exist.
    IllegalInstruction,
    /// An address that is not mapped.
    IllegalAddress,
    /// Memory of another process that has ended.
    ExporterEnd,
    /// A kernel ran longer than the device allows.
    RunTimeLimit,
    /// All threads of a kernel wait for each other.
    Deadlock,
    /// A process ended with work on the device. The device cannot tell an exit from a signal.
    ProcessEnd,
    /// The MPS daemon ended a client.
    TerminateClient,
    /// The MPS server ended.
    ServerEnd,
}

/// Number of causes.
pub const CAUSES: usize = Cause::ALL.len();

impl Cause {
    /// Every cause, in the order of its number.
    pub const ALL: [Self; 15] = [
        Self::Assert,
        Self::Trap,
        Self::Misaligned,
        Self::SharedOutOfBounds,
        Self::StackOverflow,
        Self::WrongAddressSpace,
        Self::BadPc,
        Self::IllegalInstruction,
        Self::IllegalAddress,
        Self::ExporterEnd,
        Self::RunTimeLimit,
        Self::Deadlock,
        Self::ProcessEnd,
        Self::TerminateClient,
        Self::ServerEnd,
    ];

    /// Its fault in a machine file: where one exists, the name in `gpubench list faults`.
    #[must_use]
    pub const fn fault(self) -> &'static str {
        match self {
            Self::Assert => "assert",
            Self::Trap => "trap",
            Self::Misaligned => "misaligned",
            Self::SharedOutOfBounds => "shared-oob",
            Self::StackOverflow => "stack-overflow",
            Self::WrongAddressSpace => "wrong-address-space",
            Self::BadPc => "bad-pc",
            Self::IllegalInstruction => "illegal-instruction",
            Self::IllegalAddress => "illegal-address",
            Self::ExporterEnd => "ipc-exporter-exit",
            Self::RunTimeLimit => "run-time-limit",
            Self::Deadlock => "deadlock",
            Self::ProcessEnd => "sigkill",
            Self::TerminateClient => "mps-terminate-client",
            Self::ServerEnd => "mps-server-kill",
        }
    }
}
