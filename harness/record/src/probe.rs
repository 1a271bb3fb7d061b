//! Probes: checks of tenants that do not produce a throughput. [`step`] has the steps that a tenant
//! does, [`finding`] what a whole probe found, and the figures made of it.

mod finding;
pub mod step;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use finding::{CapCall, ExhaustTrial, Exhausted, ProbeFigure, ProbeFound, ProbeResult};
pub use step::{ProbeReply, ProbeStep};

// Findings of probes of compute and of the driver: where blocks ran, how much work was done when,
// how long a launch took to start, and how long driver calls took.
//
// Host instants are those of the run's clock; device instants are `%globaltimer`. They are never
// mixed here: `score` relates the two clocks.

/// When one block of each tenant ran, by the device's clock: first and last read of each span.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracePair {
    /// The victim's.
    pub victim_ns: Vec<(u64, u64)>,
    /// Its neighbour's.
    pub neighbour_ns: Vec<(u64, u64)>,
}

/// The SMs on which blocks of each tenant ran while both launched at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SmPlacementPair {
    /// `%smid` of the victim's blocks, each once, in order.
    pub victim_sms: Vec<u32>,
    /// The same of its neighbour's.
    pub neighbour_sms: Vec<u32>,
}

/// Requests that a tenant completed one after the other without a pause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedRequests {
    /// Before the first was submitted and after the last ended, by the host's clock.
    pub host_ns: (u64, u64),
    /// When the device began, by its own clock.
    pub began_ns: u64,
    /// When each request ended, in nanoseconds since then.
    pub ended_ns: Vec<u64>,
}

/// Work that was done in each window of the device's time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkSeries {
    /// Length of a window.
    pub window_ns: u64,
    /// Thousandths of a request done in each window. A request that spans windows counts in each
    /// of them in proportion to its time there.
    pub milli_requests: Vec<u32>,
}

/// One launch of the smallest kernel that writes a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchStamp {
    /// Before the launch, by the host's clock.
    pub called_ns: u64,
    /// The first read of its block, by the device's clock.
    pub started_ns: u64,
    /// When the host observed its end, by the host's clock.
    #[serde(alias = "seen_ns")]
    pub ended_ns: u64,
}

/// Begin and end of calls, by the host's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTimes {
    /// Creating a context.
    pub contexts_ns: Vec<(u64, u64)>,
    /// Loading a module from PTX.
    pub modules_ns: Vec<(u64, u64)>,
}

/// Launches of the victim, alone and while a neighbour works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchTrials {
    /// The victim alone, before.
    pub before: Vec<LaunchStamp>,
    /// Beside a neighbour that works without a pause.
    pub beside: Vec<LaunchStamp>,
    /// First and last instant of the neighbour's work, by the device's clock.
    pub neighbour_ns: (u64, u64),
    /// The victim alone, afterwards.
    pub after: Vec<LaunchStamp>,
}

/// Times of the same calls in three situations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTrials {
    /// The victim alone.
    pub alone: CallTimes,
    /// Beside a neighbour that runs kernels without a pause.
    pub beside_kernels: CallTimes,
    /// First and last instant of the neighbour's kernels, by the host's clock.
    pub kernels_ns: (u64, u64),
    /// Beside a neighbour that makes the same calls.
    pub beside_calls: CallTimes,
    /// First and last instant of the neighbour's calls, by the host's clock.
    pub calls_ns: (u64, u64),
}

// Routes that were tried to get past a limit, and their outcomes.

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
