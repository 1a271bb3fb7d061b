//! CPU time that the threads of a tenant lost while their loops ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The gaps of one thread in one phase of a cell.
///
/// A gap is the time between two iterations of the thread's own loop, if it is longer than 5 us and
/// no call in between may block: the thread did not run although nothing blocked it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gaps {
    /// How many.
    pub gaps: u64,
    /// Their sum.
    pub gap_ns_sum: u64,
    /// The longest.
    pub gap_ns_max: u64,
}

/// The gaps of the threads that work in a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseGaps {
    /// Of the thread that submits requests and, in the closed loop, waits for them.
    pub issuer: Gaps,
    /// Of the thread that waits for the requests of the open loop; absent in the closed loop, where
    /// it sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaper: Option<Gaps>,
}

/// The gaps of a tenant in one cell. Only tenants that poll for completions on the wall clock count
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuGaps {
    /// In the closed loop, without its warm-up.
    pub closed: PhaseGaps,
    /// In the open loop.
    pub open: PhaseGaps,
}
