//! The record of a run: `record.json`, and what `gpubench report --format json` prints.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calibration::DeviceSpeed;
use super::fault::FaultTally;
use super::figures::DoseCurve;
use super::matrix::OperatorRow;
use super::matrix::{ServiceRow, TenantLimit, TransientRow};
use crate::calibration::Calibration;
use crate::cell::CellResult;
use crate::claim::ClaimRow;
use crate::fault::{FaultResult, FaultTrial};
use crate::interruption::Interruption;
use crate::matrix::{MatrixRow, OverallRow};
use crate::mechanism::MechanismRow;
use crate::meter::{AttributionRow, EnergyRow};
use crate::plan::Plan;
use crate::probe::{ProbeFigure, ProbeResult};
use crate::provenance::{DeviceIdentity, Provenance};
use crate::time_use::SpentTime;
use crate::version::FormatVersion;

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
    /// What events of neighbours did to victims, where the profile has events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<TransientRow>,
    /// Energy for a request, where the profile has energy read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub energy: Vec<EnergyRow>,
    /// What counters say that tenants used, beside their work, where the profile has use read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attribution: Vec<AttributionRow>,
    /// The largest number of tenants that keeps a promised latency, where the profile has both a
    /// promise and a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenant_limits: Vec<TenantLimit>,
    /// The retention at each dose of the aggressor, where the profile has several doses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dose_curves: Vec<DoseCurve>,
    /// Progress and GPU time of all tenants in contended cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operator: Vec<OperatorRow>,
    /// What kept the device at one speed, and its speed between cells; absent where the plan has no
    /// soak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_speed: Option<DeviceSpeed>,
    /// What its time was spent on, by the clock of the tenants; empty in older records and where a
    /// crash ended every start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time: Vec<SpentTime>,
    /// Each cell with outcome and gates.
    pub cells: Vec<CellResult>,
    /// Cells of blocks that an interruption cut. The blocks were measured again, and no score uses
    /// these cells; their samples are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<CellResult>,
    /// Each interruption after which the run went on (`gpubench matrix --resume`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interruptions: Vec<Interruption>,
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
    /// Each claim of the ledger with its verdict on this run; empty in records older than
    /// the ledger.
    pub claims: Vec<ClaimRow>,
    /// What is wrong with the files of this record: those that are damaged, and scores that do not
    /// follow from its cells. Found when the record is read; a stored record has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What a reader must know before any level: the bounds of levels that the profile set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
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
    /// Whether a row has a figure that counts. Trials of faults that leave levels open have counted
    /// who was harmed.
    pub fn has_figure(&self) -> bool {
        let counts = |row: &MatrixRow| {
            row.outcome.is_measured() || row.is_of_fault() && row.survival.is_some()
        };
        self.matrix.iter().any(counts)
    }

    /// The first fact that only a virtual GPU has.
    pub fn sign_of_virtual(&self) -> Option<String> {
        let (device, run) = (&self.device, &self.provenance);
        let fact = |name: &str| device.facts.get(name).map(String::as_str);
        let bound = self.calibration.binding.as_ref();
        let texts = [
            ("device.name", Some(device.name.as_str()), "Virtual"),
            ("device.driver", Some(device.driver.as_str()), "virtual"),
            ("device.facts.vbios", fact("vbios"), "virtual"),
            // No vendor has the id FFFF.
            ("device.pci_id", device.pci_id.as_deref(), "ffff10de"),
            ("provenance.clock", Some(run.clock.as_str()), "virtual"),
            ("calibration.binding.kind", bound.map(|to| to.kind.as_str()), "virtual"),
            ("calibration.binding.name", bound.map(|to| to.name.as_str()), "Virtual"),
        ];
        let found = texts.into_iter().find_map(|(key, text, part)| {
            let text = text.filter(|text| text.contains(part))?;
            Some(format!("{key} is {text}"))
        });
        let own = ["machine_hash", "machine_guesses"]
            .into_iter()
            .find_map(|name| Some(format!("device.facts.{name} is {}", fact(name)?)));
        let devices = run.command.iter().zip(run.command.iter().skip(1).map(Some).chain([None]));
        let mut devices =
            devices.filter_map(|(flag, value)| match flag.strip_prefix("--device=") {
                Some(value) => Some(value),
                None => value.filter(|_| flag == "--device").map(String::as_str),
            });
        let is_virtual = |one: &str| one.split(':').next() == Some("virtual");
        let device = devices.find(|value| value.split(',').any(is_virtual));
        let device = device.map(|value| format!("provenance.command has --device {value}"));
        found.or(own).or(device).or_else(|| self.trace_of_virtual())
    }

    /// What a run on the virtual GPU leaves in cells and proofs.
    fn trace_of_virtual(&self) -> Option<String> {
        let clock = self.cells.iter().find(|cell| {
            let mut texts = cell.gates.iter().map(|gate| gate.detail.as_str());
            texts.any(|text| text.contains("virtual time"))
        });
        let clock = clock.map(|cell| format!("cell {} ran in virtual time", cell.cell.id));
        let library = || {
            let mut proofs = self.mechanisms.iter().flat_map(|row| &row.proof);
            let found = proofs.find(|proof| proof.evidence.contains("/virtual-gpu-"))?;
            Some(format!("a proof names a library of it: {}", found.evidence))
        };
        clock.or_else(library)
    }

    /// The planned fault trials that did not run.
    pub fn fault_trials_not_held(&self) -> impl Iterator<Item = &FaultTrial> {
        let held: BTreeSet<&str> =
            self.fault_trials.iter().map(|trial| trial.planned.id.as_str()).collect();
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
