//! What is reported of a fleet.

use std::collections::BTreeMap;

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
