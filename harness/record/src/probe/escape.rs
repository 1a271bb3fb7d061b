//! Routes that were tried to get past a limit, and their outcomes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A route to submit work that a limiter may overlook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubmitRoute {
    /// `cuLaunchKernel`, one launch for each request: every limiter covers it.
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
    /// `cuLaunchKernel` with as many blocks as are resident at once, each with the work of two
    /// hundred requests: longer than the sampling period of a limiter (HAMi-core 120 ms).
    PersistentLaunches,
}

impl SubmitRoute {
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

    /// Its name in reports.
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

/// Work that was submitted by one route without a pause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BypassRun {
    /// Block iterations of a request.
    pub work_per_request: f64,
    /// When the first was submitted, by the host's clock.
    pub from_ns: u64,
    /// When the host observed the end of each, in nanoseconds since then.
    pub ended_ns: Vec<u64>,
}

/// One route past a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EscapeRoute {
    /// Its name.
    pub route: String,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: EscapeOutcome,
    /// What was observed: a refusal, or the file that has the called function.
    pub evidence: String,
}

/// What a tenant obtained by a route.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "of")]
pub enum EscapeOutcome {
    /// Memory beside what the tenant had in use before.
    Memory {
        /// Minimum and maximum of all rounds.
        bytes: (u64, u64),
        /// How many rounds.
        rounds: u32,
    },
    /// Shares of the device's arithmetic, or of its time where the mechanism limits time, in
    /// millionths, one for each window after a limiter has had time to act.
    Compute {
        /// Each window.
        share_ppm: Vec<u32>,
        /// The windows of the denominator: the device without a mechanism, over their mean. Empty
        /// in format 1.0.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        native_ppm: Vec<u32>,
    },
    /// It could not be tried; the evidence says why.
    Untried,
}
