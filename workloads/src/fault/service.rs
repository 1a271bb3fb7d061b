//! Faults of the MPS service, caused with the daemon's rights: MPS ends a client, or its server or
//! its control daemon is killed. The process itself only keeps a kernel on the device.
//!
//! The codes are those of cuda.h for lost connections of MPS (805 to 810). The documents do not
//! specify which of them applies, so several are listed.

use gpubench_catalogue::fault::entries;

use super::hang::waits;
use super::{INJECTOR, Injector};

/// The entries of the catalogue.
pub(super) const FAULTS: &[Injector] = &[TERMINATE_CLIENT, KILL_SERVER, KILL_DAEMON];

const TERMINATE_CLIENT: Injector = Injector {
    facts: &entries::TERMINATE_CLIENT,
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..INJECTOR
};

const KILL_SERVER: Injector = Injector {
    facts: &entries::KILL_SERVER,
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..INJECTOR
};

const KILL_DAEMON: Injector = Injector {
    facts: &entries::KILL_DAEMON,
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..INJECTOR
};
