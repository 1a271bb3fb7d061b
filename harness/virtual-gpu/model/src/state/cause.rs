//! Why a context fails. Each cause has a row in the machine's fault table.

macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident $fault:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Cause {
            $($(#[$doc])* $cause),*
        }

        pub const CAUSES: usize = [$($fault),*].len();

        impl Cause {
            /// Every cause, in the order of its number.
            pub const ALL: [Self; CAUSES] = [$(Self::$cause),*];

            /// Its fault in a machine file: where one exists, the name in `gpubench list faults`.
            pub const fn fault(self) -> &'static str {
                [$($fault),*][self as usize]
            }
        }
    };
}

causes! {
    /// A device-side assertion failed.
    Assert "assert",
    /// `trap` or `brkpt`.
    Trap "trap",
    /// An address that is not a multiple of the access size.
    Misaligned "misaligned",
    /// An offset beyond the block's shared memory.
    SharedOutOfBounds "shared-oob",
    /// Calls exceeded the stack.
    StackOverflow "stack-overflow",
    /// An access that its address space does not support.
    WrongAddressSpace "wrong-address-space",
    /// A call of an address without code.
    BadPc "bad-pc",
    /// An instruction that does not exist.
    IllegalInstruction "illegal-instruction",
    /// An address that is not mapped.
    IllegalAddress "illegal-address",
    /// Memory of another process that has ended.
    ExporterEnd "ipc-exporter-exit",
    /// A kernel ran longer than the device allows.
    RunTimeLimit "run-time-limit",
    /// All threads of a kernel wait for each other.
    Deadlock "deadlock",
    /// A process ended with work on the device. The device cannot tell an exit from a signal.
    ProcessEnd "sigkill",
    /// The MPS daemon ended a client.
    TerminateClient "mps-terminate-client",
    /// The MPS server ended.
    ServerEnd "mps-server-kill",
}
