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
    /// Those of at least [`LONG_GAP_NS`]; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongGaps>,
}

/// Shortest gap that can cost a turn on the device beside its own length: a twentieth of the usual
/// time slice of 2 ms. A scheduler that takes the turn from a tenant that is idle for less would
/// also take it between two requests of an undisturbed closed loop.
pub const LONG_GAP_NS: u64 = 100_000;

/// Gaps of at least [`LONG_GAP_NS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongGaps {
    /// How many.
    pub gaps: u64,
    /// Their sum.
    pub gap_ns_sum: u64,
}

impl Gaps {
    /// Adds a gap.
    pub fn add(&mut self, gap_ns: u64) {
        self.gaps += 1;
        self.gap_ns_sum += gap_ns;
        self.gap_ns_max = self.gap_ns_max.max(gap_ns);
        if gap_ns >= LONG_GAP_NS {
            let long = self.long.get_or_insert_default();
            long.gaps += 1;
            long.gap_ns_sum += gap_ns;
        }
    }
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
    /// Ends of requests whose stamps the reaper's gaps can have made late, each with the most by
    /// which they can; absent in the closed loop, and where they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ends: Option<Gaps>,
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
