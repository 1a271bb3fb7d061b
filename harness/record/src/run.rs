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

/// Everything a run leaves but its samples and telemetry, which stand in Parquet beside it.
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
    /// The profile in two words.
    pub profile: ProfileRef,
    /// What the victims were calibrated to.
    pub calibration: Calibration,
    /// Seed of everything random.
    pub seed: u64,
    /// The plan as it was run.
    pub plan: Plan,
    /// Each mechanism with outcome and proof.
    pub mechanisms: Vec<MechanismRow>,
    /// The measured matrix.
    pub matrix: Vec<MatrixRow>,
    /// The overall levels.
    pub overall: Vec<OverallRow>,
    /// What victims got of a promised latency and at several numbers of tenants, where the profile
    /// asks for either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service: Vec<ServiceRow>,
    /// How many tenants there may be for a promised latency to be kept, where the profile has both
    /// a promise and a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenant_limits: Vec<TenantLimit>,
    /// Each cell with outcome and gates.
    pub cells: Vec<CellResult>,
    /// What probes found, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeResult>,
    /// Figures that follow from them and are no scores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probe_figures: Vec<ProbeFigure>,
    /// Each fault trial that was held, with its judgement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault_trials: Vec<FaultResult>,
    /// Why no further fault trial was held, if the device was in no state for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault_trials_stopped: Option<String>,
    /// What the trials of each fault come to, those of other records too where they were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault_tallies: Vec<FaultTally>,
    /// Records that were given with this one and whose fault trials were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records_left_out: Vec<RecordLeftOut>,
    /// The claims ledger against this run; empty while there is none.
    pub claims: Vec<ClaimRow>,
}

/// A record whose fault trials were not counted with those of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordLeftOut {
    /// The record, as it was named.
    pub record: String,
    /// Why.
    pub reason: String,
}

impl RunRecord {
    /// The fault trials that were planned and are not among those that were held.
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
    /// What each aggressor reaches alone, held against its resource's peak; by its name. No part of
    /// the hash: it says how good the aggressors are, not what the victims do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peaks: BTreeMap<String, PeakEntry>,
    /// Workloads that this device cannot run, with what it lacks; by their name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waived: BTreeMap<String, String>,
}

/// One aggressor alone on the native device, and the most that anything got out of its resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakEntry {
    /// Its work per second in requests as the cells make them.
    pub alone_per_s: f64,
    /// The greatest rate of work that a canary reached on the same resource.
    pub peak_per_s: f64,
    /// Which canary that was.
    pub canary: String,
    /// Unit of the work.
    pub unit: String,
}

/// What calibration found for one workload on this device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationEntry {
    /// The workload with its parameters for this device.
    pub spec: WorkloadSpec,
    /// Closed-loop rate at depth 1 for a victim, peak rate for an aggressor, of a tenant that is
    /// alone on the whole device. While MIG mode is on nobody has that, and the rate is that of a
    /// tenant alone in the victim's instance (a warning of the run names it), so that no guarantee
    /// is scored against it.
    pub native_rate_per_s: f64,
    /// Service time of one request, where that rate was found.
    pub service_ns: u64,
    /// What one request amounts to in the workload's own unit (bytes, operations, launches).
    pub work_per_request: f64,
    /// That unit.
    pub unit: String,
}

impl Calibration {
    /// The calibration with its hash computed from the entries.
    #[must_use]
    pub fn new(entries: BTreeMap<String, CalibrationEntry>) -> Self {
        // A map of plain structs always serialises; an empty text would still hash distinctly
        // from any real calibration, and the drift would show in the hash comparison.
        let text = serde_json::to_string(&entries).unwrap_or_default();
        Self {
            hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
            entries,
            peaks: BTreeMap::new(),
            waived: BTreeMap::new(),
        }
    }

    /// Why a cell of this victim and aggressor cannot run on this device, if it cannot.
    #[must_use]
    pub fn waived(&self, victim: &str, aggressor: Option<&str>) -> Option<String> {
        let of = |name: &str| Some(format!("{name}: {}", self.waived.get(name)?));
        of(victim).or_else(|| of(aggressor?))
    }
}
