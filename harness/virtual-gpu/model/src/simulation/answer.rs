//! How the driver answers a fault: the machine's fault table in the form of the simulation.

use crate::noise::{self, Kind};
use crate::state::{CAUSES, Cause, NONE, State};

pub const XIDS_OF_FAULT: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    /// `CUresult` of the context that causes it; 0 if none of its calls fails.
    pub own: i32,
    /// `CUresult` of the other clients of its MPS server; 0 if they are unharmed.
    pub peer: i32,
    /// Xids of the kernel's log without an NVML event and without a process, which come first; 0
    /// ends the list.
    pub log_before: [u32; XIDS_OF_FAULT],
    /// Xids with an NVML event and the name of a process in the kernel's log; 0 ends the list.
    pub xids: [u32; XIDS_OF_FAULT],
    /// The Xids name the MPS server, not its client.
    pub names_server: bool,
    /// Time from the fault until calls fail: the 5 %, 50 % and 95 % points; 0 for at once.
    pub noticed_ns: [u64; 3],
    /// The MPS server refuses new clients until those that the fault reached have left.
    pub refuses_new_clients: bool,
    /// It does not reach clients in other static SM partitions.
    pub partitions_contain: bool,
}

/// The answers to every cause: of a context by itself, and of an MPS client.
pub type Answers = [[Answer; 2]; CAUSES];

/// Which contexts a fault reaches, and how the driver answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRules {
    /// The machine's fault table.
    pub answers: Answers,
    /// Planted: faults of an MPS client stay with that client.
    pub mps_contained: bool,
    pub cross_compute_instances: bool,
    /// Planted: a fault reaches every context on the device.
    pub cross_contexts: bool,
    /// Planted: probability that a contained fault reaches another context, in parts per million.
    pub escape_ppm: u32,
    /// Planted: the death of an MPS client with work queued ends the other clients, whatever the
    /// table says.
    pub mps_kill_reaches_peers: bool,
    /// Planted: Xid that follows those of a fatal fault; 0 for none.
    pub next_xid: u32,
    /// Recovery time of an MPS server after the last client affected by a fault has disconnected.
    pub mps_recovery_ns: u64,
    /// Relative standard deviation of that time, in parts per million.
    pub recovery_noise_ppm: u32,
}

impl FaultRules {
    /// The answer to a fault of a context, which is a client of this MPS server or of none
    /// ([`NONE`]).
    pub const fn answer(&self, cause: Cause, server: u32) -> &Answer {
        let [alone, client] = &self.answers[cause as usize];
        if server == NONE { alone } else { client }
    }
}

impl Answer {
    /// When calls begin to fail after a fault at the present instant; `what` selects the draw.
    pub(super) fn noticed_at_ns(&self, state: &State, what: u64) -> u64 {
        let after_ns = noise::between_ns(self.noticed_ns, state.seed, Kind::Notice, what);
        state.now_ns + after_ns
    }
}
