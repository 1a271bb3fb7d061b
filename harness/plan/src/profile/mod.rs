//! Run profiles: a TOML file laid over the built-in default, checked, and hashed.
//!
//! No knowledge of a host. The room `plan` decides what runs on the host.

mod check;
mod error;
pub mod load;
pub mod options;
pub mod schema;
mod tables;
#[cfg(test)]
mod tests;
pub mod units;

use gpubench_record::{Bursts, Event, Margins, Meter, Thresholds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use check::TRIALS_MAX;
pub use check::{AGGRESSOR, PEER};
pub use error::ProfileError;
pub use load::{Overrides, built_in, parse, restored};
use options::{
    HamiOptions, MigMpsOptions, MigOptions, MpsMemoryOptions, MpsOptions, MpsQuotaOptions,
    MpsStaticOptions, TimeSlicingOptions, UserVictimOptions,
};
pub use schema::profile_hash;
pub use tables::SoakOptions;
pub use tables::{OpenLoops, PairsOf, RotationOptions};
pub use units::Wanted;
use units::{Share, Span};

/// A complete run profile: a key that a file leaves out has the value of the default profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "gpubench profile")]
pub struct Profile {
    /// Name of the built-in profile, or of the file without its ending.
    #[serde(skip)]
    pub name: String,
    /// The run of the rotation, which the command line selects.
    #[serde(skip)]
    pub run: u32,
    /// Version of the profile format: 1.
    pub version: u32,
    /// One line for `gpubench list profiles`.
    pub summary: String,
    /// Whether the run may decide levels; every report of a run that decides nothing says so.
    pub decides: bool,
    /// Mechanisms to measure.
    pub mechanisms: Wanted,
    /// Axes, or sub-axes such as `bandwidth/dram`, to score.
    pub axes: Wanted,
    /// Victims to measure, each beside the aggressors that stress its resource.
    pub victims: Wanted,
    /// Aggressors to run; a sub-axis named in `axes` has at least its first pair.
    pub aggressors: Wanted,
    /// Tenants on the GPU in a contended cell: one victim, and neighbours with the aggressor.
    pub tenants: u32,
    /// The roles of the neighbours of a contended cell, in order; the last one counts for all that
    /// follow: `aggressor`, which the first must be; the name of another aggressor; or `peer`,
    /// which runs the victim's workload at its load.
    pub neighbours: Vec<String>,
    /// Smaller numbers of tenants, with which contended cells run as well.
    pub sweep: Vec<u32>,
    /// Which neighbours a victim meets: `resource`, the aggressors that stress its resource; `all`
    /// aggressors; or `equal`, tenants that do what it does.
    #[serde(default, skip_serializing_if = "PairsOf::is_usual")]
    pub pairs: PairsOf,
    /// Numbers of requests that victim and neighbours keep outstanding in closed loops, in every
    /// combination, beside the usual 1 and 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depths: Vec<u32>,
    /// Open-loop loads in percent of the native rate, solo and contended, beside `load`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<u32>,
    /// What happens to the neighbours in the middle of a closed loop, each in cells of its own:
    /// `start`, `stop`, `kill`, `restart`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Limits of compute that are asked for the victim and for each neighbour, in percent of the
    /// device: each is a variant of `mps-quota` and `hami`, in place of their options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<[u32; 2]>,
    /// The asked limits of this variant, set where the profile is that of one.
    #[serde(skip)]
    pub asked: Option<[u32; 2]>,
    /// Share of every resource to which the victim limits itself.
    pub share: Share,
    /// Seed of the order of cells and of the arrival schedules.
    pub seed: u64,
    /// Native service time of one victim request, met within 10 % by calibration.
    pub service: Span,
    /// Open-loop load as a fraction of the native rate, divided by the number of tenants.
    pub load: f64,
    /// Promised latency of an open-loop request; 0 for no promise.
    pub slo: Span,
    /// Share of the offered requests that must keep the promised latency.
    pub slo_share: f64,
    /// How open-loop arrivals bunch.
    pub bursts: BurstOptions,
    /// Fractions of its native peak that the aggressor offers; scores use 1.
    pub doses: Vec<f64>,
    /// What one run leaves to the others of its cycle (`--rotation`).
    pub rotation: RotationOptions,
    /// Cells with an open loop: `all`, or `jitter`, those that jitter is scored from.
    pub open_loops: OpenLoops,
    /// Sub-axes beside whose aggressors service jitter is measured, in sparse phases.
    pub jitter_pairs: Wanted,
    /// Longest time for all cells together.
    pub device_time: Span,
    /// Interval between readings of power, clocks, temperature and utilisation.
    pub telemetry_period: Span,
    /// Counters of the vendor that are read at the ends of closed loops: `energy`; `utilisation`,
    /// by process and instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<Meter>,
    /// Lengths of the windows over which `matrix --probes` measures shares of the device.
    pub probe_windows: Vec<Span>,
    /// What keeps the device at one speed.
    pub soak: SoakOptions,
    /// Number of blocks; a block runs every cell once.
    pub blocks: Blocks,
    /// Lengths of the parts of every cell.
    pub cell: CellParts,
    /// Shortest parts, where cells are shortened to fit `device_time`.
    pub cell_min: CellParts,
    /// Number of fault trials under `matrix --faults`.
    pub faults: Faults,
    /// The bounds that turn figures into levels and words.
    #[serde(with = "tables::ThresholdsTable")]
    pub thresholds: Thresholds,
    /// The smallest changes that matter to `gpubench diff`.
    #[serde(with = "tables::MarginsTable")]
    pub margins: Margins,
    /// The user's own program as the victim.
    #[serde(rename = "user-victim")]
    pub user_victim: UserVictimOptions,
    /// Options of the mechanism `time-slicing`.
    #[serde(rename = "time-slicing")]
    pub time_slicing: TimeSlicingOptions,
    /// Options of the mechanism `time-slicing-capped`.
    #[serde(rename = "time-slicing-capped")]
    pub time_slicing_capped: MpsMemoryOptions,
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
    /// Mean requests of a burst; 0 for arrivals without bursts.
    pub requests: f64,
    /// Rate within a burst over the mean rate: above 1. Pauses fill the rest of the time.
    pub peak: f64,
}

impl BurstOptions {
    /// The bursts; `None` for arrivals without bursts.
    pub fn shape(self) -> Option<Bursts> {
        (self.requests > 0.0).then_some(Bursts { requests: self.requests, peak: self.peak })
    }
}

/// Bounds of the number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Fewest blocks: at least 8, or 6 in a profile that decides nothing.
    pub min: u32,
    /// Most blocks.
    pub max: u32,
    /// Whether rows that straddle a boundary of levels get the blocks that decide them, once, in
    /// the time that the planned blocks leave.
    pub top_up: bool,
    /// Half-width of the interval of a retention, as a part of it, above which rows get more blocks
    /// too, at most 20; 0 for no such rule.
    pub half_width: f64,
}

/// Fault trials. They are not part of the profile's hash, because trials of several records count
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// Trials of each fault under each mechanism in one run: 1 to 10000.
    pub trials: u32,
}

/// Lengths of the parts of a cell.
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
    /// The profile of each variant that the asked shares make; this one without any.
    pub fn with_asked(&self) -> Vec<Self> {
        let of = |asked: &[u32; 2]| Self { asked: Some(*asked), ..self.clone() };
        if self.shares.is_empty() {
            vec![self.clone()]
        } else {
            self.shares.iter().map(of).collect()
        }
    }

    /// The limit of compute of each tenant under a mechanism with this option: what is asked for
    /// the victim, in slot 0, and for each neighbour.
    pub fn limit_of(&self, option: u32, slot: usize) -> u32 {
        self.asked.map_or(option, |asked| asked[slot.min(1)])
    }

    /// The limits as a variant has them: `50`, or `10/90` where they are asked for.
    pub fn limits_as_text(&self, option: u32) -> String {
        match self.asked {
            Some([victim, neighbour]) => format!("{victim}/{neighbour}"),
            None => option.to_string(),
        }
    }

    /// Open-loop arrivals of one victim over its native rate.
    pub fn load_of_one(&self) -> f64 {
        self.load / f64::from(self.tenants)
    }

    /// Open-loop arrivals per second of a victim with a native service time of exactly `service`.
    #[expect(clippy::cast_precision_loss, reason = "service times are far below 2^53 ns")]
    pub fn nominal_rate_per_s(&self) -> f64 {
        self.load_of_one() * 1e9 / self.service.ns as f64
    }
}
