//! Faults of the MPS service, caused with the daemon's rights: MPS ends a client, or its server or
//! its control daemon is killed. The process itself only keeps a kernel on the device.
//!
//! The codes are those of cuda.h for lost connections of MPS (805 to 810). The documents do not
//! specify which of them applies, so several are listed.

use super::hang::waits;
use super::{Answer, Class, FAULT, Fault, HostAct, Needs, Severity};

/// The entries of the catalogue.
pub(super) const FAULTS: &[Fault] = &[TERMINATE_CLIENT, KILL_SERVER, KILL_DAEMON];

/// MPS_CLIENT_TERMINATED, as `terminate_client` is documented.
const TERMINATE_CLIENT: Fault = Fault {
    name: "mps-terminate-client",
    class: Class::Process,
    severity: Severity::Abrupt,
    summary: "is ended as a client by the MPS daemon while its kernel runs",
    resource: "the end of a client at work",
    needs: Needs::MpsDaemon,
    act: HostAct::TerminateClient,
    answer: Answer::Codes(&[810]),
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..FAULT
};

/// MPS_RPC_FAILURE or MPS_CONNECTION_FAILED.
const KILL_SERVER: Fault = Fault {
    name: "mps-server-kill",
    act: HostAct::KillServer,
    summary: "the MPS server is killed by SIGKILL while kernels of its clients run",
    resource: "the server that all clients share",
    xids: &[45],
    ..LOST
};

/// As for the server, which does not outlive its daemon for long.
const KILL_DAEMON: Fault = Fault {
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
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..FAULT
};
