//! The record of a run: `record.json`, and what `gpubench report --format json` prints.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cell::CellResult;
use crate::fault::{FaultResult, FaultTrial};
use crate::matrix::{ClaimRow, MatrixRow, OverallRow};
use crate::mechanism::MechanismRow;
use crate::plan::Plan;
use crate::probe::{ProbeFigure, ProbeResult};
use crate::provenance::{DeviceIdentity, Provenance};
use crate::service::{ServiceRow, TenantLimit};
use crate::tally::FaultTally;
use crate::version::FormatVersion;
use crate::workload::WorkloadSpec;

/// Everything that a run leaves but its samples and telemetry, which are in Parquet files beside
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Format of this file.
    pub format_version: FormatVersion,
    /// Version of the scoring rules.
    pub scoring: String,
    /// False after a crash or an interrupt: not every planned cell ran.
    pub complete: bool,
    /// Why it is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_reason: Option<String>,
    /// The device under test.
    pub device: DeviceIdentity,
    /// Host, build and wall-clock facts.
    pub provenance: Provenance,
    /// Name and hash of the profile.
    pub profile: ProfileRef,
    /// The calibration of the workloads.
    pub calibration: Calibration,
    /// Seed of everything random.
    pub seed: u64,
    /// The plan.
    pub plan: Plan,
    /// Each mechanism with outcome and proof.
    pub mechanisms: Vec<MechanismRow>,
    /// The measured matrix.
    pub matrix: Vec<MatrixRow>,
    /// The overall levels.
    pub overall: Vec<OverallRow>,
    /// How victims kept a promised latency, and their rates at several numbers of tenants, where
    /// the profile sets either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service: Vec<ServiceRow>,
    /// The largest number of tenants that keeps a promised latency, where the profile has both a
    /// promise and a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenant_limits: Vec<TenantLimit>,
    /// Each cell with outcome and gates.
    pub cells: Vec<CellResult>,
    /// The findings of probes, where they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeResult>,
    /// Figures made from these findings; they are no scores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probe_figures: Vec<ProbeFigure>,
    /// Each fault trial that ran, with its judgement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault_trials: Vec<FaultResult>,
    /// Why no further fault trial ran, if the device could not run more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault_trials_stopped: Option<String>,
    /// The counts of each fault's trials, with those of other records where they were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault_tallies: Vec<FaultTally>,
    /// Other records on the command line with fault trials that were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records_left_out: Vec<RecordLeftOut>,
    /// Published claims beside this run's levels.
    pub claims: Vec<ClaimRow>,
}

/// A record whose fault trials were not counted with those of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordLeftOut {
    /// Its path, as on the command line.
    pub record: String,
    /// Why.
    pub reason: String,
}

impl RunRecord {
    /// The planned fault trials that did not run.
    pub fn fault_trials_not_held(&self) -> impl Iterator<Item = &FaultTrial> {
        let held: BTreeSet<&str> = self
            .fault_trials
            .iter()
            .map(|trial| trial.planned.id.as_str())
            .collect();
        let planned = self.plan.fault_trials.iter();
        planned.filter(move |trial| !held.contains(trial.id.as_str()))
    }
}

/// Which profile a run used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileRef {
    /// Its name.
    pub name: String,
    /// Hash over what the user wrote and the kernels' PTX.
    pub hash: String,
}

/// The calibration of a run: one entry for each workload, and a hash over all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// BLAKE3 over the canonical JSON of `entries`.
    pub hash: String,
    /// By workload name.
    pub entries: BTreeMap<String, CalibrationEntry>,
    /// The rate of each aggressor without neighbours, beside the peak of its resource; by name. Not
    /// part of the hash: it describes the aggressors, not the victims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peaks: BTreeMap<String, PeakEntry>,
    /// Workloads that this device cannot run, with what it lacks; by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waived: BTreeMap<String, String>,
    /// The cost of observing; absent in virtual time, where observations take no time, and in
    /// records up to format 2.1.
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

/// The rate of one aggressor on the native device, and the peak of its resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakEntry {
    /// The aggressor's work per second, in requests of the same size as in cells.
    pub alone_per_s: f64,
    /// The highest rate of work of any detector workload on the same resource.
    pub peak_per_s: f64,
    /// The detector workload with that rate.
    #[serde(alias = "canary")]
    pub detector: String,
    /// Unit of the work.
    pub unit: String,
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
    /// The calibration with its hash computed from the entries.
    #[must_use]
    pub fn new(entries: BTreeMap<String, CalibrationEntry>) -> Self {
        // A map of plain structs always serialises; the hash of an empty text differs from that of
        // every real calibration, so a comparison of hashes would show it.
        let text = serde_json::to_string(&entries).unwrap_or_default();
        Self {
            hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
            entries,
            peaks: BTreeMap::new(),
            waived: BTreeMap::new(),
            observation_cost: None,
        }
    }

    /// Why a cell of this victim and aggressor cannot run on this device, if it cannot.
    #[must_use]
    pub fn waived(&self, victim: &str, aggressor: Option<&str>) -> Option<String> {
        let of = |name: &str| Some(format!("{name}: {}", self.waived.get(name)?));
        of(victim).or_else(|| of(aggressor?))
    }
}
