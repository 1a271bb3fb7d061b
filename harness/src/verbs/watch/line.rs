//! The lines of the event log of a watch: one JSON object each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// Version of the lines.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Line {
    /// Seconds since the start of the watch.
    pub at_s: f64,
    /// Time of day in UTC; absent in virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(flatten)]
    pub event: Event,
}

/// What a line says.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Started(Started),
    /// What the canary does to others, measured before the watch.
    Effect(Effect),
    /// What requests take without a neighbour, from now on.
    Learned {
        /// Whether it was learned before, beside a neighbour that has gone.
        again: bool,
        /// Mean time of a request by resource, in nanoseconds.
        mean_ns: BTreeMap<String, f64>,
    },
    /// A resource is contended since `at_s`, to within one window.
    Contended {
        resource: String,
        /// Mean time of a request over the learned one, by resource.
        slowdowns: BTreeMap<String, f64>,
    },
    /// It is contended no more.
    Over {
        /// The resource with the largest slowdown in all windows of the event.
        resource: String,
        /// First and last instant, each to within one window, in seconds since the start.
        from_s: f64,
        to_s: f64,
        slowdowns: BTreeMap<String, f64>,
    },
    /// Requests are faster than what was learned, which is learned again.
    Faster {},
    Ended(Ended),
}

/// How the watch was started.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Started {
    /// Version of the lines.
    pub version: u32,
    /// Name of the GPU.
    pub gpu: String,
    pub uuid: String,
    /// `virtual` or `wall`.
    pub clock: String,
    /// Share of the device's time that the canary may use.
    pub duty: f64,
    pub window_s: f64,
    /// The least slowdown that is an event.
    pub least: f64,
    /// False events a day, at most.
    pub alarms_per_day: f64,
    /// The resources that are watched.
    pub resources: Vec<String>,
    /// Resources that are not, each with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub waived: BTreeMap<String, String>,
}

/// The effect of the canary.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Effect {
    /// Share of the device's time that its requests took, between their events.
    pub duty: f64,
    /// Device memory that it holds, with its context; absent where NVML does not report it.
    pub memory_bytes: Option<u64>,
    /// Change of the rate of the user's program beside the canary; absent without a program.
    pub program: Option<Change>,
}

/// The rate of a program with the canary over that without, less 1.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Change {
    pub change: f64,
    /// Its interval of 95 %.
    pub lo: f64,
    pub hi: f64,
    /// Pairs of windows.
    pub n: u32,
    /// Mean rate without the canary.
    pub without_per_s: f64,
}

/// The end.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Ended {
    /// Whether a signal ended it, and not its time.
    pub by_signal: bool,
    /// Windows that were learned from, and in which no event is found.
    pub windows_learned: u64,
    /// Windows that were judged.
    pub windows: u64,
    pub events: u64,
    /// Windows with contention, in seconds, by resource.
    pub contended_s: BTreeMap<String, f64>,
    /// Share of the device's time that the canary took.
    pub duty: f64,
    /// Resident memory that gpubench and its canary share with no file or process, at the start and
    /// at the end.
    pub resident_bytes: [u64; 2],
    /// Mean rate of the user's program in windows without and with contention; absent without.
    pub program_per_s: Option<[Option<f64>; 2]>,
}
