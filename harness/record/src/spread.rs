//! How far figures of one device differ although nothing changed: from repeated cells of the same
//! condition (A/A), between the blocks of a session and between sessions.
//!
//! `gpubench doctor --calibrate` writes it as JSON, one file for each device.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The spread of one device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Version of this format: 1.
    pub version: u32,
    /// UUID of the device.
    pub device: String,
    /// Name of the device.
    pub name: String,
    /// `virtual` for a virtual GPU, else `real`.
    pub kind: String,
    /// Version of the driver. The spread of another driver can differ.
    pub driver: String,
    /// Hash of the calibration that sized the victims.
    pub calibration: String,
    /// Start of each session, UTC.
    pub sessions: Vec<String>,
    /// By victim.
    pub victims: BTreeMap<String, VictimSpread>,
}

/// The spread of one victim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VictimSpread {
    /// Standard deviation between blocks of the log ratio of two equal cells of a block, pooled
    /// over sessions: the spread of a retention that nothing changed.
    pub between_blocks: f64,
    /// Degrees of freedom of `between_blocks`.
    pub between_blocks_df: u32,
    /// Standard deviation between sessions of the log rate, without the part that blocks explain.
    /// `None` below two sessions.
    pub between_sessions: Option<f64>,
    /// Sessions in which the log ratios of blocks have two modes.
    pub bimodal_sessions: u32,
    /// 95th percentile of the absolute difference of two equal sessions, as a log ratio. `None`
    /// below two sessions.
    pub difference_p95: Option<f64>,
    /// Smallest change of a rate that a comparison of two sessions detects with 80 % power at 95 %
    /// confidence, as a ratio less 1. `None` below two sessions.
    pub smallest_detectable: Option<f64>,
    /// The data of the figures above: for each session, in the order of `Spread::sessions`, the
    /// log rates (requests a second) of both equal cells of each block.
    pub logs: Vec<Vec<[f64; 2]>>,
}
