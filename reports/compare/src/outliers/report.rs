//! What is reported of a fleet.

use std::collections::BTreeMap;

use gpubench_stats::student_t::two_sided_quantile;
use gpubench_stats::summary::median_absolute_deviation;
use gpubench_stats::two_sample::new_against_baseline;
use gpubench_stats::{NoEstimate, Sorted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::RowKey;

/// Version of the JSON of this report.
pub const FORMAT: u32 = 1;
/// The devices that differ from their peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "gpubench outliers")]
pub struct Report {
    /// Version of this format.
    pub outliers_format: u32,
    /// What a device is called by.
    pub by: String,
    /// Smallest deviation that counts, as a share.
    pub margin: f64,
    /// Error of a false alarm in all rows of all devices together.
    pub alpha: f64,
    /// Comparisons that share it: devices times rows, over all groups.
    pub comparisons: u32,
    /// Whether any device is virtual.
    pub has_virtual: bool,
    /// Records that could not be read, and sessions without a name of a device; one line each.
    pub lost: Vec<String>,
    /// Devices with equal facts.
    pub groups: Vec<Group>,
    /// Exit status.
    pub exit: u8,
}

/// Devices that compare with each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// What they have in common, by name.
    pub facts: BTreeMap<String, String>,
    /// Devices.
    pub devices: u32,
    /// Their sessions.
    pub sessions: u32,
    /// Rows that enough devices measured; none in a group of under 5 devices.
    pub rows: Vec<RowReport>,
    /// Devices that differ, the farthest first.
    pub outliers: Vec<Outlier>,
}

/// One row over the devices of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowReport {
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// Unit of its figures.
    pub unit: String,
    /// Devices with the row.
    pub devices: u32,
    /// The median.
    pub median: f64,
    /// Robust standard deviation between devices, as a share.
    pub spread: f64,
    /// Distance from the median, in these deviations, from which a device differs.
    pub limit: f64,
    /// Smallest deviation that is found with 80 % power, as a share.
    pub detectable: f64,
}

/// A device that differs from its peers in one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    /// The device.
    pub device: String,
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// Unit of its figures.
    pub unit: String,
    /// The figure of the device, a mean over its sessions.
    pub value: f64,
    /// That of the median.
    pub median: f64,
    /// Deviation from the median, as a share.
    pub deviation: f64,
    /// The same in robust standard deviations.
    pub z: f64,
    /// From which a device differs.
    pub limit: f64,
    /// Whether the device is the worse for it.
    pub worse: bool,
    /// Its sessions.
    pub sessions: Vec<String>,
}

// Distances from the median in robust standard deviations.
//
// The median and the median absolute deviation follow the majority, so that a sick device changes
// neither. The deviation of n values is as uncertain as that of `0.37 (n - 1)` values by squares:
// its efficiency is 37 % (Rousseeuw and Croux, JASA 88(424), 1993). Student's t with so many
// degrees of freedom covers the tails: in 4 million simulated values of 5 to 300 normal peers each
// the fitted degrees are 0.37 to 0.63 times `n - 1`.

const EFFICIENCY: f64 = 0.37;
/// The normal quantile of the power of a detectable deviation, 80 %.
const POWER: f64 = 0.841_621_233_572_914_2;
/// Devices below which each is judged by the others.
const FEW: usize = 12;
/// Smallest deviation between devices, as a logarithm: devices without noise have none.
const SCALE_MIN: f64 = 1e-6;

/// The values of all devices in one row, as logarithms.
pub(super) struct Peers {
    pub median: f64,
    /// Robust standard deviation.
    pub scale: f64,
    /// Distance in such deviations from which a device differs.
    pub limit: f64,
}

impl Peers {
    /// `alpha` is the error of one comparison.
    pub(super) fn of(logs: &[f64], alpha: f64) -> Result<Self, NoEstimate> {
        let df = EFFICIENCY * (logs.len() as f64 - 1.0);
        Ok(Self {
            median: Sorted::new(logs.to_vec())?.median()?,
            scale: median_absolute_deviation(logs)?.max(SCALE_MIN),
            limit: two_sided_quantile(alpha, df)?,
        })
    }

    /// The others of a device among few: each is judged by the mean and the deviation of the rest,
    /// with Student's t of one more value (Hahn and Meeker, "Statistical Intervals", 1991, ch. 4).
    /// The median absolute deviation of so few would need a distance that nothing sick has.
    pub(super) fn without(&self, logs: &[f64], at: usize, alpha: f64) -> Result<Self, NoEstimate> {
        if logs.len() >= FEW {
            return Ok(Self { ..*self });
        }
        let rest: Vec<f64> = [&logs[..at], &logs[at + 1..]].concat();
        let one = new_against_baseline(&rest, &logs[at..=at])?;
        let centre = logs[at] - one.value;
        Ok(Self {
            median: centre,
            scale: one.se.max(SCALE_MIN),
            limit: two_sided_quantile(alpha, one.df)?,
        })
    }

    pub(super) fn z(&self, log: f64) -> f64 {
        (log - self.median) / self.scale
    }

    /// Whether a device is beyond the limit, and by at least the margin.
    pub(super) fn differs(&self, log: f64, margin: f64) -> bool {
        let far = (log - self.median).abs() >= margin.ln_1p();
        far && self.z(log).abs() > self.limit
    }

    /// The deviation that is found with 80 % power, as a logarithm.
    pub(super) fn detectable(&self, margin: f64) -> f64 {
        let by_limit = self.limit.max(margin.ln_1p() / self.scale);
        (by_limit + POWER) * self.scale
    }
}
