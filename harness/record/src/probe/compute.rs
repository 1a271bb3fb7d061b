//! What probes of compute and of the driver tell: where blocks ran, how much work was done when,
//! how long a launch took to begin, and how long calls of the driver took.
//!
//! Instants of the host are those of the run's clock; instants of the device are its
//! `%globaltimer`. The two are never mixed here: relating them is `score`'s.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The SMs on which blocks of each tenant ran while both launched at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SmPlacementPair {
    /// `%smid` of the victim's blocks, each once, in order.
    pub victim_sms: Vec<u32>,
    /// The same of its neighbour's.
    pub neighbour_sms: Vec<u32>,
}

/// Requests that a tenant completed, one after the other without a pause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// Before the first was submitted and after the last was seen to end, by the host's clock.
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
    /// Thousandths of a request done in each. One that spans windows counts in each of them for
    /// the part of its time that lies there.
    pub milli_requests: Vec<u32>,
}

/// One launch of the smallest kernel that leaves a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchStamp {
    /// Before the launch, by the host's clock.
    pub called_ns: u64,
    /// The first look of its block, by the device's clock.
    pub started_ns: u64,
    /// When its end was seen, by the host's clock.
    pub seen_ns: u64,
}

/// Begin and end of calls, by the host's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTimes {
    /// Creating a context.
    pub contexts_ns: Vec<(u64, u64)>,
    /// Loading a module from PTX.
    pub modules_ns: Vec<(u64, u64)>,
}

/// What one tenant launched and another did meanwhile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchTrials {
    /// The victim alone, before.
    pub before: Vec<LaunchStamp>,
    /// Beside a neighbour that works without a pause.
    pub beside: Vec<LaunchStamp>,
    /// First and last moment of the neighbour's work, by the device's clock.
    pub neighbour_ns: (u64, u64),
    /// The victim alone, afterwards.
    pub after: Vec<LaunchStamp>,
}

/// What the same calls took in three situations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTrials {
    /// The victim alone.
    pub alone: CallTimes,
    /// Beside a neighbour whose kernels run without a pause.
    pub beside_kernels: CallTimes,
    /// First and last moment of the neighbour's kernels, by the host's clock.
    pub kernels_ns: (u64, u64),
    /// Beside a neighbour that makes the same calls.
    pub beside_calls: CallTimes,
    /// First and last moment of the neighbour's calls, by the host's clock.
    pub calls_ns: (u64, u64),
}
