//! Everything that a matrix needs before it runs: the plan and the setup of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpubench_host::device::{Allotment, DeviceSelector};
use gpubench_host::mechanism;
use gpubench_host::mechanism::host::{Guard, HostError, JournalLocation, RealHost, state_dir};
use gpubench_host::mechanism::{HostFacts, MechanismContext};
use gpubench_host::tenant::Spawner;
use gpubench_plan::Frozen;
use gpubench_plan::profile::Profile;
use gpubench_record::Plan;
use gpubench_run::{HostSetup, KernelLog, Setup};
use schemars::JsonSchema;
use serde::Serialize;

use super::after_cells::AfterCells;
use super::provenance::OTHER_GPUS;
use super::resume::Interrupted;
use super::run_folder::RunFolder;
use super::{
    DeviceSession, HostOptions, KeptCalibrations, after_cells, calibration, capabilities,
    device_session, host_facts, provenance, ptx_hash, recovery, run_folder, verdict,
};
use crate::error::{ExpectedError, RECORD_BYTES_MAX, read_text};

/// The environment of the user's program, in the words of records.
const VICTIM_ENVIRONMENT: &str =
    "the user's environment, under the variables of the mechanism and the run";

/// What the command line adds to the profile.
#[derive(Debug, Clone, Default)]
pub struct MatrixRequest {
    /// A record or file with the calibration to reuse.
    pub calibration: Option<PathBuf>,
    /// Whether the kept calibration of this device is not used.
    pub recalibrate: bool,
    /// Probes and faults after the cells.
    pub after_cells: AfterCells,
    pub labels: BTreeMap<String, String>,
    /// Devices that other runs of the same command line measure at the same time.
    pub beside: Vec<String>,
    pub device: Option<DeviceSelector>,
    /// The time that the whole run may take.
    pub for_minutes: Option<u64>,
    /// The file of the plan that was frozen before.
    pub frozen: Option<PathBuf>,
}

/// Everything for a run, and what is done after it.
pub struct MatrixSetup {
    pub setup: Setup,
    /// The kernel log, if it can be read.
    pub kernel_log: Option<KernelLog>,
    /// Where the calibration is kept after the run.
    pub calibrations: Option<KeptCalibrations>,
    /// What the user should know before the run.
    pub notes: Vec<String>,
    /// The folder, held until the report is written.
    pub folder: RunFolder,
}

/// Plans the matrix and makes its folder.
pub fn matrix_setup(
    session: &DeviceSession,
    options: &HostOptions,
    profile: Profile,
    request: &MatrixRequest,
    out: &Path,
) -> Result<MatrixSetup, ExpectedError> {
    let mut host = Host::of(session, options, &profile)?;
    let is_virtual = session.clock().is_virtual();
    let (profile, mut plan) = after_cells::planned(profile, request.for_minutes, |profile| {
        let mut plan = host.plan(profile)?;
        after_cells::add(&mut plan, profile, &request.after_cells, is_virtual)?;
        Ok(plan)
    })?;
    if let Some(path) = &request.frozen {
        let text = read_text("frozen plan", path, RECORD_BYTES_MAX)?;
        let frozen = Frozen::parse(&text).map_err(|problem| {
            ExpectedError::usage(format!("{}: {problem}", path.display()), None)
        })?;
        plan.frozen = Some(frozen.compared(&plan));
        host.notes.extend(plan.frozen.as_ref().map(ToString::to_string));
    }
    let named = request.calibration.as_deref();
    let named = named.map(|path| calibration::read(path, &plan, session)).transpose()?;
    let (calibration, note) = named.unzip();
    host.notes.extend(note.flatten());
    let file = KeptCalibrations::of(session, &plan, &host.facts)?;
    // A named calibration is neither mixed with kept ones nor kept.
    let file = file.filter(|_| calibration.is_none());
    let (kept, left_out) = match file.as_ref().filter(|_| !request.recalibrate) {
        Some(file) => file.read(session)?,
        None => Default::default(),
    };
    host.notes.extend(left_out);
    needs_journal(&plan)?;
    let settings = run_folder::of_run(&profile, options, request.device.as_ref(), &host.ptx_hash)?;
    let folder = run_folder::make(out)?;
    let (mut setup, kernel_log, notes) =
        host.setup(session, profile, plan, &request.labels, out)?;
    if !request.beside.is_empty() {
        let others = request.beside.join(", ");
        setup.provenance.host.insert(OTHER_GPUS.to_owned(), others);
    }
    Ok(MatrixSetup {
        setup: Setup { calibration, kept, settings: Some(settings), ..setup },
        kernel_log,
        calibrations: file,
        notes,
        folder,
    })
}

/// Fails before the first cell where a mechanism changes the host and its changes have no journal.
fn needs_journal(plan: &Plan) -> Result<(), ExpectedError> {
    if plan.mechanisms.iter().any(|one| !one.host_changes.is_empty()) {
        state_dir().map_err(verdict::from_journal)?;
    }
    Ok(())
}

/// Everything for an interrupted run that goes on.
pub fn resumed_setup(
    session: &DeviceSession,
    run: Interrupted,
) -> Result<MatrixSetup, ExpectedError> {
    let profile = run.profile.clone();
    let host = Host::of(session, &run.options, &profile)?;
    let planned = host.plan(&profile)?;
    run.check(session, &planned)?;
    needs_journal(&planned)?;
    let (labels, out) = (run.labels.clone(), run.dir.clone());
    let (setup, kernel_log, notes) = host.setup(session, profile, planned, &labels, &out)?;
    let run = run.resumed(setup.provenance.clone(), run_folder::boot_id());
    Ok(MatrixSetup {
        setup: Setup {
            plan: run.plan,
            calibration: run.calibration,
            continued: Some(run.continued),
            ..setup
        },
        kernel_log,
        calibrations: None,
        notes,
        folder: run.folder,
    })
}

/// The host before a run.
struct Host {
    facts: HostFacts,
    journal: JournalLocation,
    ptx_hash: String,
    notes: Vec<String>,
}

impl Host {
    /// Undoes what dead runs left, and gathers the facts.
    fn of(
        session: &DeviceSession,
        options: &HostOptions,
        profile: &Profile,
    ) -> Result<Self, ExpectedError> {
        let (journal, mut notes) = recovery::journal_of(session)?;
        device_session::check(session)?;
        let facts = host_facts::of_session(session, options, profile)?;
        notes.extend(facts.findings.iter().map(|found| found.what.clone()));
        Ok(Self { facts, journal, ptx_hash: ptx_hash(), notes })
    }

    fn plan(&self, profile: &Profile) -> Result<Plan, ExpectedError> {
        let capabilities = capabilities(&self.facts, profile);
        Ok(gpubench_plan::plan(profile, &capabilities, &self.ptx_hash)?)
    }

    /// The setup of a run without calibration, with the kernel log and the notes.
    fn setup(
        self,
        session: &DeviceSession,
        profile: Profile,
        plan: Plan,
        labels: &BTreeMap<String, String>,
        out: &Path,
    ) -> Result<(Setup, Option<KernelLog>, Vec<String>), ExpectedError> {
        let kernel_log = host_facts::open(session);
        let mut provenance = provenance::of_run(&session.clock(), &plan);
        for (key, text) in [
            ("observed", host_facts::labels(&self.facts).join("; ")),
            ("kernel_log", host_facts::describe(&kernel_log)),
        ] {
            provenance.host.insert(key.to_owned(), text);
        }
        provenance.labels.clone_from(labels);
        provenance.visible_devices = session.allotment().map(Allotment::describe);
        provenance.victim_environment =
            plan.user_victim.as_ref().map(|_| VICTIM_ENVIRONMENT.to_owned());
        let setup = Setup {
            out: out.to_path_buf(),
            clock: session.clock(),
            nvml: session.nvml(),
            identity: session.identity().clone(),
            provenance,
            spawner: Spawner::new(session.environment()).map_err(|error| {
                ExpectedError::internal(format!("the path of this program is unknown: {error}"))
            })?,
            ptx_hash: self.ptx_hash,
            calibration: None,
            kept: Vec::new(),
            settings: None,
            continued: None,
            top_up: after_cells::look(&profile),
            host: HostSetup::new(profile, self.facts, self.journal),
            plan,
        };
        Ok((setup, kernel_log.ok(), self.notes))
    }
}

// A rehearsal: sets every planned mechanism up on the host, as the matrix does, and undoes it.
// Nothing is measured; a refusal of the driver shows before a long run.

/// How the rehearsal of one mechanism ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum RehearsalOutcome {
    /// The mechanism changes nothing on the host.
    #[serde(rename = "nothing to set up")]
    NothingToSetUp,
    /// It was set up and undone.
    #[serde(rename = "set up and undone")]
    SetUpAndUndone,
    /// It cannot run here.
    #[serde(rename = "waived")]
    Waived,
    /// It was refused without a remedy.
    #[serde(rename = "failed")]
    Failed,
}

impl RehearsalOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NothingToSetUp => "nothing to set up",
            Self::SetUpAndUndone => "set up and undone",
            Self::Waived => "waived",
            Self::Failed => "failed",
        }
    }
}

/// The rehearsal of one mechanism.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Rehearsed {
    /// The variant.
    pub variant: String,
    /// How it ended.
    pub outcome: RehearsalOutcome,
    /// Why it was not set up.
    pub reason: Option<String>,
    /// What the user can do about it.
    pub remedy: Option<String>,
}

/// Rehearses every mechanism of the profile's plan; skipped ones are listed with their reason. Also
/// returns what the user should know.
pub fn rehearse(
    session: &DeviceSession,
    options: &HostOptions,
    profile: &Profile,
) -> Result<(Vec<Rehearsed>, Vec<String>), ExpectedError> {
    let (journal, notes) = recovery::journal_of(session)?;
    let facts = host_facts::of_session(session, options, profile)?;
    let capabilities = capabilities(&facts, profile);
    let plan = gpubench_plan::plan(profile, &capabilities, &ptx_hash())?;
    let cx = MechanismContext { profile, facts: &facts };
    let mut guard = Guard::new(Arc::new(RealHost::new(session.nvml())), journal);
    let mut rehearsed = Vec::new();
    for planned in &plan.mechanisms {
        rehearsed.push(rehearse_one(&cx, &planned.name, &planned.variant, &mut guard)?);
    }
    rehearsed.extend(plan.skips.iter().map(|skip| Rehearsed {
        variant: skip.variant.clone(),
        outcome: RehearsalOutcome::Waived,
        reason: Some(skip.reason.clone()),
        remedy: skip.remedy.clone(),
    }));
    Ok((rehearsed, notes))
}

fn rehearse_one(
    cx: &MechanismContext<'_>,
    name: &str,
    variant: &str,
    guard: &mut Guard,
) -> Result<Rehearsed, ExpectedError> {
    let rehearsed = |outcome, reason, remedy: Option<&str>| Rehearsed {
        variant: variant.to_owned(),
        outcome,
        reason,
        remedy: remedy.map(str::to_owned),
    };
    let Some(mechanism) = mechanism::find(name) else {
        let what = format!("mechanism {name} is planned and cannot be set up");
        return Err(ExpectedError::internal(what));
    };
    if mechanism.configuration(cx).stage.is_none() {
        return Ok(rehearsed(RehearsalOutcome::NothingToSetUp, None, None));
    }
    let entered = mechanism.enter(cx, guard);
    guard.restore().map_err(verdict::from_host)?;
    Ok(match entered {
        Ok(_) => rehearsed(RehearsalOutcome::SetUpAndUndone, None, None),
        Err(HostError::Refused(refused)) => {
            let outcome = match refused.remedy {
                Some(_) => RehearsalOutcome::Waived,
                None => RehearsalOutcome::Failed,
            };
            rehearsed(outcome, Some(refused.to_string()), refused.remedy)
        }
        Err(error) => return Err(verdict::from_host(error)),
    })
}
