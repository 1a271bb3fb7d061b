//! What was tried to get past a limit, and how far it got.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A way to submit work that a limiter may overlook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BypassWay {
    /// `cuLaunchKernel`, a launch a request: what every limiter watches.
    Launches,
    /// The same launches by `cuLaunchKernel_ptsz`.
    PerThreadLaunches,
    /// Launches recorded in a graph, by `cuGraphLaunch`.
    Graphs,
    /// `cuLaunchCooperativeKernel`.
    CooperativeLaunches,
    /// `cuLaunchKernel`, with ten times the work in each launch.
    LongLaunches,
    /// The same with a single block.
    OneBlockLaunches,
    /// `cuLaunchKernel`, of as many blocks as run at once, each of which stays for two hundred
    /// requests' work: longer than a limiter waits before it looks again (HAMi-core 120 ms).
    PersistentLaunches,
}

impl BypassWay {
    /// All of them, the control first.
    pub const ALL: [Self; 7] = [
        Self::Launches,
        Self::PerThreadLaunches,
        Self::Graphs,
        Self::CooperativeLaunches,
        Self::LongLaunches,
        Self::OneBlockLaunches,
        Self::PersistentLaunches,
    ];

    /// As reports name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Launches => "cuLaunchKernel",
            Self::PerThreadLaunches => "cuLaunchKernel_ptsz",
            Self::Graphs => "cuGraphLaunch",
            Self::CooperativeLaunches => "cuLaunchCooperativeKernel",
            Self::LongLaunches => "long launches",
            Self::OneBlockLaunches => "long launches of one block",
            Self::PersistentLaunches => "persistent launches",
        }
    }
}

/// Work that was submitted in one way without a pause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BypassRun {
    /// Block iterations of a request.
    pub work_per_request: f64,
    /// When the first was submitted, by the host's clock.
    pub from_ns: u64,
    /// When each was seen to end, in nanoseconds since then.
    pub ended_ns: Vec<u64>,
}

/// One way past a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EscapeWay {
    /// What was done.
    pub way: String,
    /// What came of it.
    #[serde(flatten)]
    pub got: EscapeGot,
    /// What was seen: a refusal, or the file that answered.
    pub evidence: String,
}

/// How far a way got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "of")]
pub enum EscapeGot {
    /// Memory beside what the tenant has anyway.
    Memory {
        /// Least and most in any round.
        bytes: (u64, u64),
        /// How many rounds.
        rounds: u32,
    },
    /// Parts of the device's arithmetic, or of its time where that is what the mechanism limits, in
    /// millionths, one for each window of the time in which a limiter has had time to act.
    Compute {
        /// Each window.
        share_ppm: Vec<u32>,
    },
    /// It could not be tried; the evidence says why.
    Untried,
}
