//! What the user wrote: a TOML file laid over the built-in default, checked, and hashed.
//!
//! Nothing here knows a host. What will run on the host at hand is the plan's to say.

mod bounds;
pub mod built_in;
mod check;
mod error;
mod hash;
mod load;
pub mod options;
pub mod schema;
mod source;
mod tenants;
#[cfg(test)]
mod tests;
mod thresholds;
pub mod units;
mod wanted;

use gpubench_record::{Bursts, Thresholds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use check::TRIALS_MAX;
pub use error::ProfileError;
pub use hash::profile_hash;
pub use load::{Overrides, load, parse};
use options::{
    HamiOptions, MigMpsOptions, MigOptions, MpsMemoryOptions, MpsOptions, MpsQuotaOptions,
    MpsStaticOptions, TimeSlicingOptions, UserVictimOptions,
};
use units::{Share, Span};
pub use wanted::Wanted;

/// A run profile, complete: what a file leaves out has the value of the default profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "gpubench profile")]
pub struct Profile {
    /// Name of the built-in profile, or of the file without its ending.
    #[serde(skip)]
    pub name: String,
    /// Version of the profile format: 1.
    pub version: u32,
    /// One line for `gpubench list profiles`.
    pub summary: String,
    /// Whether results may be relied upon; a run that decides nothing says so in every report.
    pub decides: bool,
    /// Mechanisms to measure.
    pub mechanisms: Wanted,
    /// Axes, or sub-axes such as `bandwidth/dram`, to score.
    pub axes: Wanted,
    /// Victims to measure, each beside those of the aggressors that stress what it lives on.
    pub victims: Wanted,
    /// Aggressors to run; a sub-axis named in `axes` has its usual pair in any case.
    pub aggressors: Wanted,
    /// Tenants on the GPU in a contended cell: one victim, and neighbours with the aggressor.
    pub tenants: u32,
    /// What the neighbours of a contended cell do, in order, the last word for all that follow:
    /// `aggressor`, which the first does; the name of one more aggressor; or `peer`, which does
    /// what the victim does, at its load.
    pub neighbours: Vec<String>,
    /// Smaller numbers of tenants that contended cells are run with too.
    pub sweep: Vec<u32>,
    /// Share of every resource that the victim abides by.
    pub share: Share,
    /// Seed of the order of cells and of the arrival schedules.
    pub seed: u64,
    /// Native service time of one victim request, met within 10 % by calibration.
    pub service: Span,
    /// Open-loop load as a fraction of the native rate, divided by the number of tenants.
    pub load: f64,
    /// Latency that an open-loop request may take at most; 0 promises nothing.
    pub slo: Span,
    /// Share of the offered requests that has to keep it.
    pub slo_share: f64,
    /// How open-loop arrivals bunch.
    pub bursts: BurstOptions,
    /// Fractions of its native peak that the aggressor offers; scores are taken at 1.
    pub doses: Vec<f64>,
    /// Most time that the cells may keep the device busy.
    pub device_time: Span,
    /// Interval of the readings of power, clocks, temperature and utilisation.
    pub telemetry_period: Span,
    /// Lengths of the windows over which `matrix --probes` tells shares of the device.
    pub probe_windows: Vec<Span>,
    /// How many blocks; a block runs every cell once.
    pub blocks: Blocks,
    /// Length of the parts of every cell.
    pub cell: CellParts,
    /// How short the parts may become to meet `device_time`.
    pub cell_min: CellParts,
    /// How often faults are tried, where `matrix --faults` asks for them.
    pub faults: Faults,
    /// The conventions that turn figures into levels and words.
    #[serde(with = "thresholds::ThresholdsTable")]
    pub thresholds: Thresholds,
    /// A user's program as the victim.
    #[serde(rename = "user-victim")]
    pub user_victim: UserVictimOptions,
    /// Options of the mechanism `time-slicing`.
    #[serde(rename = "time-slicing")]
    pub time_slicing: TimeSlicingOptions,
    /// Options of every mechanism with an MPS server of the whole device.
    pub mps: MpsOptions,
    /// Options of the mechanism `mps-quota`.
    #[serde(rename = "mps-quota")]
    pub mps_quota: MpsQuotaOptions,
    /// Options of the mechanism `mps-static`.
    #[serde(rename = "mps-static")]
    pub mps_static: MpsStaticOptions,
    /// Options of the mechanism `mps-memory`.
    #[serde(rename = "mps-memory")]
    pub mps_memory: MpsMemoryOptions,
    /// Options of the mechanism `mig`.
    pub mig: MigOptions,
    /// Options of the mechanism `mig-mps`.
    #[serde(rename = "mig-mps")]
    pub mig_mps: MigMpsOptions,
    /// Options of the mechanism `hami`.
    pub hami: HamiOptions,
}

/// How open-loop arrivals bunch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstOptions {
    /// Mean requests of a burst; 0 for arrivals that do not bunch.
    pub requests: f64,
    /// Rate within a burst over the mean rate: above 1; pauses for thought take the rest of the
    /// time.
    pub peak: f64,
}

impl BurstOptions {
    /// The bursts, if there are any.
    #[must_use]
    pub fn shape(self) -> Option<Bursts> {
        (self.requests > 0.0).then_some(Bursts {
            requests: self.requests,
            peak: self.peak,
        })
    }
}

/// Bounds of the number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Fewest blocks: 8, or 6 in a profile that decides nothing.
    pub min: u32,
    /// Most blocks.
    pub max: u32,
}

/// Fault trials, which are no part of the profile's hash: those of several records add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// Trials of each fault under each mechanism in one run: 1 to 10000.
    pub trials: u32,
}

/// Length of the parts of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellParts {
    /// Closed loop whose samples are kept but not scored.
    pub warmup: Span,
    /// Closed loop that gives the rate.
    pub closed: Span,
    /// Pause in which outstanding work drains.
    pub gap: Span,
    /// Open loop that gives latencies and jitter.
    pub open: Span,
}

impl Profile {
    /// Open-loop arrivals of one victim over its native rate.
    #[must_use]
    pub fn load_of_one(&self) -> f64 {
        self.load / f64::from(self.tenants)
    }

    /// Open-loop arrivals per second of a victim that is calibrated exactly to `service`.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "service times are far below 2^53 ns"
    )]
    pub fn nominal_rate_per_s(&self) -> f64 {
        self.load_of_one() * 1e9 / self.service.ns as f64
    }
}
