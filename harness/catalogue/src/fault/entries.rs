//! The faults, by what causes them.

use super::{Answer, Class, FAULT, Fault, HostAct, Needs, Severity};

/// Control: must affect no victim.
pub const PLACEBO: Fault = Fault {
    name: super::PLACEBO,
    severity: Severity::Control,
    resource: "none: the instrument itself",
    class: Class::Control,
    summary: "launches an empty kernel and waits for it: must affect no victim",
    ..FAULT
};

/// Control: its effect must always be detected. The victim's death may reach this process too:
/// under MPS the effect of a client's death on other clients is undefined (MPS documentation, "When
/// to use MPS").
pub const CANARY: Fault = Fault {
    name: super::CANARY,
    severity: Severity::Control,
    resource: "none: the instrument itself",
    xids: &[45],
    class: Class::Control,
    summary: "the coordinator kills the first victim: must always be detected",
    act: HostAct::KillVictim,
    answer: Answer::Open(&[]),
    ..FAULT
};

/// INVALID_VALUE (cuda.h).
pub const EMPTY_LAUNCH: Fault = Fault {
    name: "empty-launch",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "launches blocks without threads, which the driver refuses",
    answer: Answer::Codes(&[1]),
    ..FAULT
};

/// INVALID_VALUE, or LAUNCH_OUT_OF_RESOURCES (cuda.h).
pub const BAD_LAUNCH: Fault = Fault {
    name: "bad-launch",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "launches blocks of 2048 threads, which the driver refuses",
    answer: Answer::Codes(&[1, 701]),
    ..FAULT
};

/// INVALID_VALUE (cuda.h).
pub const DOUBLE_FREE: Fault = Fault {
    name: "double-free",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "frees device memory twice, which the driver refuses",
    answer: Answer::Codes(&[1]),
    ..FAULT
};

pub const ASSERT: Fault = Fault {
    name: "assert",
    resource: "exceptions of the SMs",
    xids: &[43],
    summary: "fails a device-side assertion",
    answer: Answer::Codes(&[710]),
    ..FAULT
};

pub const TRAP: Fault = Fault {
    name: "trap",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "executes the trap instruction",
    answer: Answer::Codes(&[719, 715]),
    ..FAULT
};

pub const MISALIGNED: Fault = Fault {
    name: "misaligned",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "loads a word from an address that is not a multiple of four",
    answer: Answer::Codes(&[716]),
    ..FAULT
};

pub const SHARED_OOB: Fault = Fault {
    name: "shared-oob",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "stores far beyond its window of shared memory",
    answer: Answer::Codes(&[719, 700]),
    ..FAULT
};

pub const STACK: Fault = Fault {
    name: "stack-overflow",
    resource: "exceptions of the SMs",
    xids: &[13, 31],
    summary: "calls itself deeper than its stack allows",
    answer: Answer::Codes(&[714, 700, 719]),
    ..FAULT
};

/// The documents leave the effect of such an address undefined. An H100 raised no error, which
/// makes a trial invalid (`h100-80.toml`).
pub const BAD_SPACE: Fault = Fault {
    name: "wrong-address-space",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "adds atomically through a pointer to local memory",
    answer: Answer::Codes(&[717]),
    ..FAULT
};

pub const BAD_PC: Fault = Fault {
    name: "bad-pc",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "calls a function at an address without code",
    answer: Answer::Codes(&[718]),
    ..FAULT
};

/// PTX has no illegal instruction; a machine file plants one for launches of many threads.
pub const ILLEGAL_INSTRUCTION: Fault = Fault {
    name: "illegal-instruction",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "executes an instruction that does not exist, where a machine file plants one",
    answer: Answer::Codes(&[715]),
    planted_only: true,
    ..FAULT
};

pub const ILLEGAL_ADDRESS: Fault = Fault {
    name: "illegal-address",
    resource: "translation of addresses",
    xids: &[31],
    class: Class::Mmu,
    summary: "stores to an address that is not mapped",
    answer: Answer::Codes(&[700]),
    ..FAULT
};

/// No error: the buffer is circular (CUDA C++ Programming Guide, "Formatted output").
pub const PRINTF_FLOOD: Fault = Fault {
    name: "printf-flood",
    class: Class::Api,
    severity: Severity::Benign,
    resource: "the printf buffer of kernels",
    summary: "prints twice as much from the device as its buffer holds",
    ..FAULT
};

/// OUT_OF_MEMORY (cuda.h).
pub const OOM: Fault = Fault {
    name: "oom",
    severity: Severity::Greedy,
    resource: "device memory",
    class: Class::Starvation,
    summary: "allocates all the device memory that it can get and holds it for a while",
    answer: Answer::Codes(&[2]),
    victim: "alloc",
    // Filling the 80 GB of an H100 took 97 and 222 ms (reports/examples).
    takes_ns: 300_000_000,
    ..FAULT
};

pub const HANG: Fault = Fault {
    name: "hang",
    severity: Severity::Greedy,
    resource: "time on the device",
    class: Class::Starvation,
    summary: "runs a kernel that spins until its deadline",
    ..FAULT
};

pub const STOP: Fault = Fault {
    name: "sigstop",
    severity: Severity::Abrupt,
    resource: "a stopped process",
    class: Class::Process,
    summary: "is stopped by SIGSTOP while its kernel runs, and continues later",
    act: HostAct::Stop,
    ..FAULT
};

pub const DESTROY: Fault = Fault {
    name: "context-destroy",
    severity: Severity::Abrupt,
    resource: "destruction of a context at work",
    class: Class::Process,
    summary: "destroys a context while its kernel runs",
    ..FAULT
};

pub const EXIT: Fault = Fault {
    name: "exit-pending",
    severity: Severity::Abrupt,
    resource: "the end of a process at work",
    xids: &[45],
    class: Class::Process,
    summary: "exits while its kernel runs",
    answer: Answer::Ends,
    ..FAULT
};

pub const KILL: Fault = Fault {
    name: "sigkill",
    severity: Severity::Abrupt,
    resource: "the end of a process at work",
    xids: &[45],
    class: Class::Process,
    summary: "is killed by SIGKILL while its kernel runs",
    act: HostAct::Kill,
    answer: Answer::Ends,
    ..FAULT
};

pub const HOLDER_KILLED: Fault = Fault {
    name: "hami-lock-holder-kill",
    class: Class::Process,
    severity: Severity::Abrupt,
    summary: "allocates after a process of the same HAMi region was killed while it allocated",
    resource: "the lock of the shared accounting",
    needs: Needs::AccountingLibrary,
    act: HostAct::KillHelper,
    has_helper: true,
    ..FAULT
};

pub const EXPORTER_EXIT: Fault = Fault {
    name: "ipc-exporter-exit",
    class: Class::Mmu,
    summary: "reads memory that another process exported by CUDA IPC before it was killed",
    resource: "memory shared between processes",
    act: HostAct::KillHelper,
    answer: Answer::Open(&[700, 1]),
    xids: &[31],
    has_helper: true,
    ..FAULT
};

/// MPS_CLIENT_TERMINATED, as `terminate_client` is documented.
pub const TERMINATE_CLIENT: Fault = Fault {
    name: "mps-terminate-client",
    class: Class::Process,
    severity: Severity::Abrupt,
    summary: "is ended as a client by the MPS daemon while its kernel runs",
    resource: "the end of a client at work",
    needs: Needs::MpsDaemon,
    act: HostAct::TerminateClient,
    answer: Answer::Codes(&[810]),
    ..FAULT
};

/// MPS_RPC_FAILURE or MPS_CONNECTION_FAILED.
pub const KILL_SERVER: Fault = Fault {
    name: "mps-server-kill",
    act: HostAct::KillServer,
    summary: "the MPS server is killed by SIGKILL while kernels of its clients run",
    resource: "the server that all clients share",
    xids: &[45],
    ..LOST
};

/// As for the server, which does not outlive its daemon for long.
pub const KILL_DAEMON: Fault = Fault {
    name: "mps-daemon-kill",
    act: HostAct::KillDaemon,
    summary: "the MPS control daemon is killed by SIGKILL; later clients run without MPS",
    resource: "the daemon that starts servers",
    ..LOST
};

/// The common values of both. If the clients of a killed daemon see no error, the trial still
/// counts.
const LOST: Fault = Fault {
    class: Class::Service,
    severity: Severity::Systemic,
    needs: Needs::MpsDaemon,
    answer: Answer::Open(&[806, 805]),
    ..FAULT
};
