//! The calibration of a run: the request of each workload on one device, and its rates there.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::WorkloadSpec;
use crate::output::OutputCheck;
use crate::provenance::DeviceKind;

/// The calibration of a run: one entry for each workload, what its victims do, and its device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// BLAKE3 over the canonical JSON of `basis` and of the parameters of its victims: equal where
    /// victims do the same work. In format 1.0 it covered `entries`. Empty without entries.
    pub hash: String,
    /// By workload name.
    pub entries: BTreeMap<String, CalibrationEntry>,
    /// What the hash covers beside parameters. Absent in format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<CalibrationBasis>,
    /// The device that the rates belong to. Absent in format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<CalibrationBinding>,
    /// The rate of each aggressor without neighbours, beside the peak of its resource; by name. Not
    /// part of the hash: it describes the aggressors, not the victims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peaks: BTreeMap<String, PeakEntry>,
    /// Workloads that this device cannot run, with what it lacks; by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waived: BTreeMap<String, String>,
    /// Workloads whose entry an earlier run on this device measured; empty where all were measured
    /// in this run, and in format 1.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// The output of each workload without neighbours, by name, as this run found it on its device
    /// before the first cell. Absent in records of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, OutputCheck>,
    /// The cost of observing; absent in virtual time, where observations take no time, and in
    /// records of format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation_cost: Option<ObservationCost>,
}

/// What it costs a victim that the coordinator observes the device during a cell. A victim without
/// neighbours is measured in pairs: with observations back to back, and without. A cell has one
/// observation, so this bounds what it loses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObservationCost {
    /// The victim.
    pub victim: String,
    /// Its rate of work with observations over that without, of each pair.
    pub ratios: Vec<f64>,
    /// Observations in all pairs.
    pub observations: u64,
    /// Mean time that one takes.
    pub mean_ns: u64,
}

/// The target of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationBasis {
    /// Workloads of the victims, in the order of their names.
    pub victims: Vec<String>,
    /// Service time of a victim's request.
    pub service_ns: u64,
    /// Share of the device that a victim uses, 0 to 1.
    pub share: f64,
    /// Hash over the PTX of every kernel.
    pub ptx_hash: String,
}

impl CalibrationBasis {
    /// Whether both size the same request of the same kernels for the same share.
    pub fn has_target_of(&self, other: &Self) -> bool {
        let target = |of: &Self| (of.service_ns, of.share.to_bits(), of.ptx_hash.clone());
        target(self) == target(other)
    }
}

/// The device that a calibration was made on. It is reused on no other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationBinding {
    /// UUID of the device.
    pub uuid: String,
    /// Its product name.
    pub name: String,
    /// Real or virtual.
    pub kind: DeviceKind,
    /// Its peaks by NVML's maximal clocks and widths, by name; a peak that NVML does not report is
    /// absent.
    pub peaks: BTreeMap<String, f64>,
    /// BLAKE3 over the canonical JSON of the entries, which shows changes by hand.
    pub entries_hash: String,
}

/// The rate of one aggressor on the native device, and the peak of its resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakEntry {
    /// The aggressor's work per second, in requests of the same size as in cells.
    pub alone_per_s: f64,
    /// The peak of its resource: the ceiling that the aggressor is held against.
    pub peak_per_s: f64,
    /// What the ceiling is. In format 1.0 it was always a detector.
    #[serde(default)]
    pub ceiling: CeilingKind,
    /// The reported clocks and widths that give it, or the detector workload with that rate.
    #[serde(alias = "canary")]
    pub source: String,
    /// Unit of the work.
    pub unit: String,
}

named! {
    /// What an aggressor is held against.
    #[derive(Default)]
    pub enum CeilingKind {
        /// The highest rate of the hardware, by the clocks and widths that it reports.
        Hardware = "hardware",
        /// The highest measured rate of any detector workload on the same resource.
        #[default]
        Detector = "detector",
    }
}

/// The calibration of one workload on this device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationEntry {
    /// The workload with its parameters for this device.
    pub spec: WorkloadSpec,
    /// Closed-loop rate at depth 1 for a victim, peak rate for an aggressor, of a single tenant on
    /// the whole device. While MIG mode is on, it is the rate of a single tenant in the victim's
    /// instance; a warning of the run says so, and no guarantee is scored against it.
    pub native_rate_per_s: f64,
    /// Service time of one request, where that rate was found.
    pub service_ns: u64,
    /// Work of one request, in the workload's unit (bytes, operations, launches).
    pub work_per_request: f64,
    /// The unit.
    pub unit: String,
}

impl Calibration {
    /// The calibration of these workloads on this device, with its hashes.
    pub fn new(
        entries: BTreeMap<String, CalibrationEntry>,
        basis: CalibrationBasis,
        binding: CalibrationBinding,
    ) -> Self {
        Self {
            hash: hash_of_work(&entries, &basis),
            binding: Some(CalibrationBinding { entries_hash: hash(&entries), ..binding }),
            basis: Some(basis),
            entries,
            ..Self::default()
        }
    }

    /// Whether its hashes are those of its content. In format 1.0 there is one, over all
    /// entries.
    pub fn is_intact(&self) -> bool {
        let of_entries = hash(&self.entries);
        let of_work = match &self.basis {
            Some(basis) => hash_of_work(&self.entries, basis),
            None => of_entries.clone(),
        };
        let bound = self.binding.as_ref();
        self.hash == of_work && bound.is_none_or(|bound| bound.entries_hash == of_entries)
    }

    /// Why a cell of this victim and aggressor cannot run on this device, if it cannot.
    pub fn waived(&self, victim: &str, aggressor: Option<&str>) -> Option<String> {
        let of = |name: &str| Some(format!("{name}: {}", self.waived.get(name)?));
        of(victim).or_else(|| of(aggressor?))
    }
}

/// The hash over what victims do: no rate and nothing of a single device.
fn hash_of_work(entries: &BTreeMap<String, CalibrationEntry>, basis: &CalibrationBasis) -> String {
    let victims = basis.victims.iter();
    let specs: Vec<_> =
        victims.filter_map(|name| entries.get(name)).map(|entry| &entry.spec).collect();
    hash(&(basis, specs))
}

/// BLAKE3 over canonical JSON.
fn hash(content: &impl Serialize) -> String {
    // Maps and plain structs always serialise; the hash of an empty text differs from that of every
    // real calibration, so a comparison of hashes would show it.
    let text = serde_json::to_string(content).unwrap_or_default();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

// How the device was kept at one speed: heating before the first cell, load after an idle, and the
// rate of one kernel between cells.

/// What a plan does to keep the device at one speed; 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoakPlan {
    /// Longest heating before the first cell.
    pub limit_ns: u64,
    /// Length of a window of the heating.
    pub window_ns: u64,
    /// Idle time after which the device is loaded before the next cell.
    pub keep_warm_ns: u64,
    /// Length of one measurement of the check kernel.
    pub check_ns: u64,
    /// Longest time between two of them.
    pub every_ns: u64,
}

/// What was done to keep the device at one speed, and its speed between cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSpeed {
    /// The heating before the first cell; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heating: Option<Heating>,
    /// How often the device was loaded after an idle.
    pub kept_warm: u32,
    /// The measurements of the check kernel, in order.
    pub checks: Vec<SpeedCheck>,
}

/// Heating under load until rate and temperature are steady.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heating {
    /// Whether both were steady before the limit.
    pub steady: bool,
    /// How long it took.
    pub elapsed_ns: u64,
    /// The first window.
    pub first: SpeedCheck,
    /// The last window.
    pub last: SpeedCheck,
}

/// The rate of a kernel that always does the same work, alone on the device, with the readings
/// at its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpeedCheck {
    /// When it ended, on the clock of the run.
    pub at_ns: u64,
    /// Completed requests per second of device time.
    pub rate_per_s: f64,
    /// The clock of the SMs; absent where NVML does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<f64>,
    /// The temperature of the GPU; absent where NVML does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
}

// How far figures of one device differ although nothing changed: from repeated cells of the same
// condition (A/A), between the blocks of a session and between sessions.
//
// `gpubench doctor --calibrate` writes it as JSON, one file for each device.

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
    /// Latencies of each session, in the same order; absent in older files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<SessionLatencies>,
}

/// Latencies of the native cells of one victim in a session, where it has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionLatencies {
    /// Mean over blocks of the logarithm of the median of the open loop, in ns.
    pub ln_p50: Option<f64>,
    /// The same of the 99th percentile.
    pub ln_p99: Option<f64>,
    /// Jitter of the repeated cells against the first ones, in native medians.
    pub jitter: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(uuid: &str, blocks: u64, rate: f64, share: f64) -> Calibration {
        let entry = |name: &str, blocks| CalibrationEntry {
            spec: WorkloadSpec {
                name: name.to_owned(),
                params: BTreeMap::from([("blocks".to_owned(), blocks)]),
            },
            native_rate_per_s: rate,
            service_ns: 1_000_000,
            work_per_request: 1.0,
            unit: "operations".to_owned(),
        };
        let entries = [("compute", blocks), ("fma-hog", rate as u64)];
        Calibration::new(
            entries.map(|(name, n)| (name.to_owned(), entry(name, n))).into(),
            CalibrationBasis {
                victims: vec!["compute".to_owned()],
                service_ns: 1_000_000,
                share,
                ptx_hash: "p".to_owned(),
            },
            CalibrationBinding {
                uuid: uuid.to_owned(),
                name: "H100".to_owned(),
                kind: DeviceKind::Real,
                peaks: BTreeMap::new(),
                entries_hash: String::new(),
            },
        )
    }

    #[test]
    fn the_hash_covers_what_victims_do_and_no_device() {
        let one = calibration("GPU-a", 56, 1000.0, 0.5);
        // Another device of the model, a little faster, with another size of the aggressor.
        assert_eq!(one.hash, calibration("GPU-b", 56, 1010.0, 0.5).hash);
        assert_ne!(one.hash, calibration("GPU-a", 57, 1000.0, 0.5).hash);
        assert_ne!(one.hash, calibration("GPU-a", 56, 1000.0, 0.4).hash);
    }

    #[test]
    fn a_changed_rate_is_found_though_the_hash_has_no_rate() {
        let mut one = calibration("GPU-a", 56, 1000.0, 0.5);
        assert!(one.is_intact());
        one.entries.values_mut().for_each(|entry| entry.native_rate_per_s += 1.0);
        assert!(!one.is_intact());
        // In format 1.0 the hash covered all entries.
        (one.basis, one.binding) = (None, None);
        one.hash = hash(&one.entries);
        assert!(one.is_intact());
    }
}
